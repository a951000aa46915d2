"""What a task's file says: every key known, every value of its type, nothing computed yet.

title = "Which treatment"
algorithm = "LinTS-SDP"                # a name of `bandanna list`

[policy]                               # its arguments
dim = 5
horizon = 20_000
epsilon = 1.0
delta = 1e-5

[arms]                                 # of arms that stay: names, or features = { a = [0.1, 0.2], ... }
names = ["a", "b"]

[schema]                               # public: the features of a context, in their order, and their ranges
age = [18, 80]

[features]                             # instead: a public map from records to features (docs/features.md)
intercept = true                       # project = { dim = 6, seed = 0 }, ball = { scale = 1.5 }
[features.columns]
age = [18, 80]
site = ["north", "south"]
note = { buckets = 16 }

[rules]
participations = 1
grace = "10 min"                       # or seconds
max_age = 1
mixers = 1
noise = "checked"                      # or "device", "mixer": who draws coins, and what is refused

[roles]                                # where they are found
analyzer = "https://analyzer.example"

[test]                                 # makes it a test, whose noise may be known
seed = 7
close = "answered"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from bandanna.core import require
from bandanna.core.tables import inside, keys, typed
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.features.map import Map

_TOP = ("title", "algorithm", "policy", "arms", "schema", "features", "rules", "roles", "test")
_RULES = ("participations", "grace", "max_age", "mixers", "noise")
_PORTS = {"registrar": 8700, "analyzer": 8701, "shuffler": 8702, "helper": 8703}
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "day": 86_400}
_LONGEST = 30 * 86_400.0  # seconds of grace
_LETTERS = 200  # of a title
_OLDEST = 1_000  # releases


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A task's file, checked by itself; None stands for what follows from the policy."""

    title: str
    algorithm: str
    policy: Mapping[str, Any]
    arms: Any = None
    schema: dict[str, Any] | None = None
    features: Map | None = None
    participations: int = 1
    grace: float = 600.0
    max_age: int | None = None
    mixers: int | None = None
    noise: str | None = None
    urls: Mapping[str, str]
    test: bool = False
    seed: int | None = None
    close: str = "grace"


def wanted(document: Mapping[str, Any]) -> Wanted:
    """What a file says, or would; errors name the key with its table, and what is allowed there."""
    given = keys(document, "", _TOP, needed=("title", "algorithm", "policy"))
    tables = {name: _table(given, name) for name in _TOP[2:]}
    if "schema" in given and "features" in given:
        raise BandannaError("one of [schema] and [features] is needed, not both: ranges are columns of a map too")
    rules = keys(tables["rules"], "rules", _RULES)
    test = keys(tables["test"], "test", ("seed", "close"))
    with inside("rules."):
        chosen = {name: _RULE[name](value) for name, value in rules.items()}
    with inside("test."):
        if "seed" in test:
            chosen["seed"] = require.whole("seed", test["seed"], least=0, most=require.SEEDS)
        chosen["close"] = require.one_of("close", test.get("close", "grace"), ("grace", "answered"))
    return Wanted(
        title=_title(given["title"]),
        algorithm=typed("algorithm", given["algorithm"], str),
        policy=tables["policy"],
        arms=_arms(tables["arms"]) if "arms" in given else None,
        schema=_schema(tables["schema"]) if "schema" in given else None,
        features=Map.from_table(tables["features"]) if "features" in given else None,
        urls=_urls(tables["roles"]),
        test="test" in given,
        **chosen,
    )


def _table(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = given.get(name, {})
    if not isinstance(table, Mapping):
        raise InvalidArgument(name, table, f"a table [{name}]")
    return dict(table)


def _title(value: Any) -> str:
    if not typed("title", value, str).strip() or len(value) > _LETTERS or not value.isprintable():
        raise InvalidArgument("title", value, f"a line of 1 to {_LETTERS} letters")
    return str(value)


def seconds(value: Any) -> float:
    """A duration: a number of seconds, or a text such as "10 min".

    >>> seconds("10 min"), seconds(2)
    (600.0, 2.0)
    """
    allowed = 'seconds, or a text such as "30 s", "10 min", "2 hours", "1 day"; at most 30 days'
    number, unit = value, 1
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]{1,7}?)s?\s*", value, re.ASCII)
        if found is None or found[2] not in _UNITS:
            raise InvalidArgument("grace", value, allowed)
        number, unit = float(found[1]), _UNITS[found[2]]
    length = require.finite("grace", number, allowed) * unit
    if not 0 <= length <= _LONGEST:
        raise InvalidArgument("grace", value, allowed)
    return float(length)


def _arms(table: dict[str, Any]) -> Any:
    """Names, or a mapping from names to features: as an agent takes them."""
    given = keys(table, "arms", ("names", "features"))
    if len(given) != 1:
        raise BandannaError("arms: one of names = [...] and features = { name = [...], ... } is needed, not both")
    if "features" in given:
        if not isinstance(given["features"], Mapping):
            raise InvalidArgument("arms.features", given["features"], "a table: name = [numbers]")
        return dict(given["features"])
    names = given["names"]
    if not isinstance(names, list | tuple):
        raise InvalidArgument("arms.names", names, "a list of texts or whole numbers")
    for place, name in enumerate(names):
        if type(name) not in (str, int):
            raise InvalidArgument(f"arms.names[{place}]", name, "a text or a whole number")
    return list(names)


def _schema(table: dict[str, Any]) -> dict[str, Any]:
    """Names in their order, which the keys of a canonical document have not, and ranges."""
    for name, limits in table.items():
        allowed = "two finite numbers, [least, largest]"
        if not isinstance(limits, list | tuple) or len(limits) != 2:
            raise InvalidArgument(f"schema.{name}", limits, allowed)
        low, high = (require.finite(f"schema.{name}", limit, allowed) for limit in limits)
        if low >= high:
            raise InvalidArgument(f"schema.{name}", limits, f"{allowed}, the first below the second")
    return {"names": list(table), "ranges": {name: list(limits) for name, limits in table.items()}}


def _urls(table: dict[str, Any]) -> dict[str, str]:
    given = keys(table, "roles", tuple(_PORTS))
    return {name: _url(f"roles.{name}", value) for name, value in given.items()}


def default_url(role: str) -> str:
    """On one machine."""
    return f"http://127.0.0.1:{_PORTS[role]}"


def _url(where: str, value: Any) -> str:
    allowed = 'an address such as "https://analyzer.example" or "http://127.0.0.1:8701", without ? and #'
    text = typed(where, value, str)
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none, of brackets
        fits = False
    plain = re.fullmatch(r"[!-~]{1,500}", text) is not None and not set(text) & set('?#@"<>\\^`{|}')
    if not fits or not plain:
        raise InvalidArgument(where, value, allowed)
    return str(text).rstrip("/")


_RULE: dict[str, Any] = {
    "participations": lambda value: require.whole("participations", value),
    "grace": seconds,
    "max_age": lambda value: require.whole("max_age", value, least=0, most=_OLDEST),
    "mixers": lambda value: require.whole("mixers", value, least=0, most=2),
    "noise": lambda value: require.one_of("noise", value, ("device", "checked", "mixer")),
}
