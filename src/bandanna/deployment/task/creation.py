"""From a TOML file to a signed task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from bandanna import validation
from bandanna.agent.preflight import check_budget_suffices, check_map, count_features, fixed_arms
from bandanna.data.features.map import Map
from bandanna.deployment.task.description import deployed_guarantee, forecast
from bandanna.deployment.task.document import ROLES, Keys, Secrets, Task, make_content, seals_reports
from bandanna.deployment.task.query_plan import check_deployable, first_batches
from bandanna.device.arm_sets import FixedArmSet
from bandanna.errors import BandannaError, InvalidArgument, ValueSummary
from bandanna.policies.algorithm import is_import_path
from bandanna.policies.base import Policy
from bandanna.policies.registry import find_algorithm, find_argument_types, make_from_table
from bandanna.storage import files
from bandanna.validation import check_keys, check_type, prefix_errors, read_toml

# The file


_TOP = ("title", "algorithm", "policy", "arms", "schema", "features", "rules", "roles", "test")
_RULES = ("participations", "grace", "max_age", "mixers", "noise")
_PORTS = {"registrar": 8700, "analyzer": 8701, "shuffler": 8702, "helper": 8703}
_UNITS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "day": 86_400}
_LONGEST = 30 * 86_400.0  # seconds of grace
_LETTERS = 200  # of a title
_MAX_AGE = 1_000  # releases


@dataclass(frozen=True, kw_only=True)
class TaskFile:
    """The checked tables of a task's file (docs/reference/task-file.md); None follows from the policy."""

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


def parse_task_file(document: Mapping[str, Any]) -> TaskFile:
    """Read the tables of a task's file; errors name the key with its table."""
    given = check_keys(document, "", _TOP, needed=("title", "algorithm", "policy"))
    tables = {name: _table(given, name) for name in _TOP[2:]}
    if "schema" in given and "features" in given:
        raise BandannaError("one of [schema] and [features] is needed, not both")
    rules = check_keys(tables["rules"], "rules", _RULES)
    test = check_keys(tables["test"], "test", ("seed", "close"))
    with prefix_errors("rules."):
        chosen = {name: _RULE_PARSERS[name](value) for name, value in rules.items()}
    with prefix_errors("test."):
        if "seed" in test:
            chosen["seed"] = validation.integer("seed", test["seed"], least=0, most=validation.SEED_LIMIT)
        chosen["close"] = validation.one_of("close", test.get("close", "grace"), ("grace", "answered"))
    return TaskFile(
        title=_title(given["title"]),
        algorithm=check_type("algorithm", given["algorithm"], str),
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
    if not check_type("title", value, str).strip() or len(value) > _LETTERS or not value.isprintable():
        raise InvalidArgument("title", value, f"one line of 1 to {_LETTERS} printable characters")
    return str(value)


def parse_duration(value: Any) -> float:
    """Return seconds for a number of seconds or a text such as "10 min".

    >>> parse_duration("10 min"), parse_duration(2)
    (600.0, 2.0)
    """
    allowed = 'a number of seconds, or a text such as "30 s", "10 min", "2 hours", "1 day", at most 30 days'
    number, unit = value, 1
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]{1,7}?)s?\s*", value, re.ASCII)
        if found is None or found[2] not in _UNITS:
            raise InvalidArgument("grace", value, allowed)
        number, unit = float(found[1]), _UNITS[found[2]]
    length = validation.finite("grace", number, allowed) * unit
    if not 0 <= length <= _LONGEST:
        raise InvalidArgument("grace", value, allowed)
    return float(length)


def _arms(table: dict[str, Any]) -> Any:
    given = check_keys(table, "arms", ("names", "features"))
    if len(given) != 1:
        raise BandannaError("arms: one of names = [...] and features = { name = [...], ... } is needed, not both")
    if "features" in given:
        if not isinstance(given["features"], Mapping):
            raise InvalidArgument("arms.features", given["features"], "a table name = [numbers]")
        return dict(given["features"])
    names = given["names"]
    if not isinstance(names, list | tuple):
        raise InvalidArgument("arms.names", names, "a list of texts or whole numbers")
    for place, name in enumerate(names):
        if type(name) not in (str, int):
            raise InvalidArgument(f"arms.names[{place}]", name, "a text or a whole number")
    return list(names)


def _schema(table: dict[str, Any]) -> dict[str, Any]:
    for name, limits in table.items():
        allowed = "two finite numbers, [least, largest]"
        if not isinstance(limits, list | tuple) or len(limits) != 2:
            raise InvalidArgument(f"schema.{name}", limits, allowed)
        low, high = (validation.finite(f"schema.{name}", limit, allowed) for limit in limits)
        if low >= high:
            raise InvalidArgument(f"schema.{name}", limits, f"{allowed}, with the first below the second")
    return {"names": list(table), "ranges": {name: list(limits) for name, limits in table.items()}}


def _urls(table: dict[str, Any]) -> dict[str, str]:
    given = check_keys(table, "roles", tuple(_PORTS))
    return {name: _url(f"roles.{name}", value) for name, value in given.items()}


def default_url(role: str) -> str:
    """Return the address of a role on this machine."""
    return f"http://127.0.0.1:{_PORTS[role]}"


def _url(where: str, value: Any) -> str:
    allowed = 'an address such as "https://analyzer.example" or "http://127.0.0.1:8701", without ? and #'
    text = check_type(where, value, str)
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none, of brackets
        fits = False
    plain = re.fullmatch(r"[!-~]{1,500}", text) is not None and not set(text) & set('?#@"<>\\^`{|}')
    if not fits or not plain:
        raise InvalidArgument(where, value, allowed)
    return str(text).rstrip("/")


_RULE_PARSERS: dict[str, Any] = {
    "participations": lambda value: validation.integer("participations", value),
    "grace": parse_duration,
    "max_age": lambda value: validation.integer("max_age", value, least=0, most=_MAX_AGE),
    "mixers": lambda value: validation.integer("mixers", value, least=0, most=2),
    "noise": lambda value: validation.one_of("noise", value, ("device", "checked", "mixer")),
}


# The parts of a task


_MIXED_TRUST = ("shuffle", "concurrent")  # privacy models with mixers
_ARMS, _ROUNDS = 100_000, 10**12


def make_policy(want: TaskFile) -> Policy[Any]:
    """Return the policy, not yet calibrated."""
    if is_import_path(want.algorithm):
        raise InvalidArgument("algorithm", want.algorithm, "a name of `bandanna list`, which every party knows")
    try:
        entry = find_algorithm(want.algorithm)
    except InvalidArgument as error:
        allowed = error.allowed.removesuffix(", or module:Class")
        raise InvalidArgument("algorithm", error.value, allowed, error.hint) from None
    given, types = dict(want.policy), find_argument_types(want.algorithm)
    if "participations" in given:
        raise InvalidArgument("policy.participations", given["participations"], "left out", "Write it into [rules]")
    for name, value in given.items():
        check_type(f"policy.{name}", value, types.get(name))
    for name, usual in (("participations", 1), ("noise", "device")):
        chosen = getattr(want, name) or usual
        if chosen != usual and name in entry.options:
            given[name] = chosen
        elif chosen != usual and not (name == "participations" and entry.trust == "none"):
            raise InvalidArgument(f"rules.{name}", chosen, f"{usual!r}, because {want.algorithm} supports nothing else")
    policy: Policy[Any] = make_from_table("policy", want.algorithm, given)
    counts = policy.privacy.model in _MIXED_TRUST and policy.privacy.protocol == "binomial" and policy.privacy.noisy
    if want.noise is None and counts and want.mixers in (None, 1) and "noise" in entry.options:
        policy = make_from_table("policy", want.algorithm, {**given, "noise": "checked"})  # one mixer sees counts
    if entry.trust == "none" and want.participations > 1:
        policy = replace(policy, privacy=replace(policy.privacy, participations=want.participations))  # type: ignore[type-var]
    if policy.horizon is None or policy.horizon > _ROUNDS:
        raise InvalidArgument("policy.horizon", policy.horizon, f"a number of rounds, at most {_ROUNDS:,}")
    with prefix_errors("policy."):
        check_deployable(policy)
    return policy


def calibrate(policy: Policy[Any]) -> None:
    """Calibrate the policy, which may take long, and refuse noise that does not keep its budget."""
    with prefix_errors("policy."):
        policy._prepare()
        check_budget_suffices(policy)


def resolve_mixers(want: TaskFile, policy: Policy[Any]) -> int:
    """Return the number of mixers: one by default if the privacy model has any."""
    model = policy.privacy.model
    if model not in _MIXED_TRUST:
        if want.mixers:
            hint = f'In the "{model}" model, devices report to the analyzer'
            raise InvalidArgument("rules.mixers", want.mixers, "0", hint)
        return 0
    mixers = 1 if want.mixers is None else want.mixers
    if mixers == 0:
        raise InvalidArgument("rules.mixers", 0, f'1 or 2, because the "{model}" model needs a mixer')
    if want.noise in ("checked", "mixer") and mixers != 1:
        hint = "One of two mixers sees no counts. Set mixers = 1"
        raise InvalidArgument("rules.noise", want.noise, f'"device" with {mixers} mixers', hint)
    return mixers


def resolve_max_age(want: TaskFile, policy: Policy[Any]) -> int:
    """Return `max_age`, 0 if the next batch depends on the running one."""
    known = type(policy).next_episode is not Policy.next_episode
    if want.max_age is None:
        return int(known)
    if want.max_age and not known:
        hint = f"{want.algorithm} plans a batch from the one before, so users cannot act on an older publication"
        raise InvalidArgument("rules.max_age", want.max_age, "0", hint)
    return want.max_age


def resolve_arms(want: TaskFile, policy: Policy[Any]) -> FixedArmSet | None:
    """Return the fixed arms, or None."""
    count = getattr(policy, "n_arms", None)
    named, counted = isinstance(want.arms, list), count is not None
    if count is not None and count > _ARMS:
        raise InvalidArgument("policy.n_arms", count, f"at most {_ARMS:,}, because the document names every arm")
    if want.arms is not None and named != counted:
        allowed = "names without features" if counted else "features = { name = [numbers], ... }"
        raise InvalidArgument("arms", want.arms, f"{allowed} for {want.algorithm}")
    return fixed_arms(policy, want.arms)


def resolve_schema(want: TaskFile, policy: Policy[Any]) -> dict[str, Any] | None:
    """Return the features of a context: their ranges, or a map from records."""
    if want.features is not None:
        check_map(want.features, policy)
        _check_total(want.features)
        if want.arms is not None and getattr(policy, "n_arms", None) is None:
            raise InvalidArgument("features", "a map", "left out", "Fixed arms have their features in [arms]")
        return want.features.to_dict()
    if want.schema is not None and (count := len(want.schema["names"])) != count_features(policy):
        allowed = f"a table of {count_features(policy)} names, one for each feature of the policy"
        raise InvalidArgument("schema", ValueSummary(f"{count} names"), allowed)
    return want.schema


def _check_total(features: Map) -> None:
    """Refuse a map that refuses records: a user who is missing from a batch would reveal the record."""
    for each in features.columns:
        if "refuse" in (each.missing, getattr(each, "outside", ""), getattr(each, "unknown", "")):
            allowed = 'a column that takes every record: outside = "clip", unknown and missing = "zero" or "other"'
            raise InvalidArgument(f"features.columns.{each.name}", "refuse", allowed)


def resolve_urls(want: TaskFile, mixers: int) -> dict[str, str]:
    """Return the addresses of the task's roles."""
    roles = ("analyzer", "shuffler", "helper")[: 1 + mixers]
    for role in want.urls:
        if role not in ("registrar", *roles):
            allowed = f"left out, because a task with {mixers} mixers has no {role}"
            raise InvalidArgument(f"roles.{role}", want.urls[role], allowed)
    urls = {role: want.urls.get(role, default_url(role)) for role in ("registrar", *roles)}
    for role, url in urls.items():
        if want.urls and role not in want.urls and not all(map(_is_local, want.urls.values())):
            raise InvalidArgument(f"roles.{role}", None, "an address, because other roles are not on this machine")
        same = next(
            (each for each, other in urls.items() if each != role and other.rstrip("/") == url.rstrip("/")), None
        )
        if same is not None:
            raise InvalidArgument(f"roles.{role}", url, f"an address of its own, other than that of the {same}")
    return urls


def _is_local(url: str) -> bool:
    return (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")


# The task


def create_task(
    source: str | PathLike[str] | Mapping[str, Any], *, expect: bool = True, keys: Keys | None = None
) -> tuple[Task, list[Secrets]]:
    """Create a task from a TOML file or from its tables, and return it with the secrets of each role.

    `expect` simulates the expected regret. `keys` are keys of tests that need the same document again.
    """
    if isinstance(source, Mapping):
        return _create_task(parse_task_file(source), expect, keys)
    path = validation.path("file", source)
    document = {"title": path.stem, **read_toml(path)}
    with prefix_errors(f"{path}: "):
        return _create_task(parse_task_file(document), expect, keys)


def create_draft(source: str | PathLike[str], *, expect: bool = True) -> Task:
    """Create a task without keys from a file, for its roles to join."""
    path = validation.path("file", source)
    with prefix_errors(f"{path}: "):
        return Task.made(_make_content(parse_task_file({"title": path.stem, **read_toml(path)}), expect))


def _create_task(want: TaskFile, expect: bool, keys: Keys | None) -> tuple[Task, list[Secrets]]:
    content = _make_content(want, expect)
    made = Task.made(content)
    keys = Keys.drawn(mixers=made.mixers, sealed=seals_reports(made)) if keys is None else keys
    task = Task.made({**content, "keys": keys.public(), "dealer": True})
    task = Task.from_bytes(task.document, task.id)  # as every party will have it
    return task, [keys.of(role, task) for role in task.roles]


def _make_content(want: TaskFile, expect: bool) -> dict[str, Any]:
    policy = make_policy(want)
    mixers, max_age, arms = resolve_mixers(want, policy), resolve_max_age(want, policy), resolve_arms(want, policy)
    urls, schema = resolve_urls(want, mixers), resolve_schema(want, policy)
    with _refuse_huge_numbers():
        calibrate(policy)
        batches = first_batches(policy, arms, mixers=mixers, seeded=want.seed is not None)
    stated = deployed_guarantee(policy, batches[:1], mixers=mixers)
    return make_content(
        policy,
        arms=arms,
        title=want.title,
        algorithm=want.algorithm,
        mixers=mixers,
        grace=want.grace,
        close=want.close,
        max_age=max_age,
        urls=urls,
        seed=want.seed,
        test=want.test,
        guarantee=stated.to_dict(),
        promise=str(stated),
        expected=forecast(policy, arms) if expect else None,
        schema=schema,
    )


@contextmanager
def _refuse_huge_numbers() -> Iterator[None]:
    """Turn numbers that floats or the memory cannot hold into an error."""
    try:
        with np.errstate(all="ignore"):
            yield
    except BandannaError:
        raise
    except (ArithmeticError, MemoryError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise BandannaError(f"policy: its first batches cannot be planned with these numbers ({said})") from error


def write_task(folder: str | PathLike[str], task: Task, secrets: Sequence[Secrets]) -> None:
    """Write the document and each role's secrets to a folder that holds no other task."""
    place = validation.path("folder", folder, folder=True)
    check_free(place, task)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BandannaError(f"{place} cannot be made: {error.strerror or error}") from error
    for each in secrets:
        each.write(place)
    files.write_private_file(place / "task.json", task.document.decode("ascii"))  # last: a folder with a task is whole


def check_free(folder: Path, task: Task | None = None) -> None:
    """Refuse a folder that holds another task, or its secrets."""
    held = [each for each in ("task.json", *(f"{role}.secret.json" for role in ROLES)) if (folder / each).exists()]
    if not held or (task is not None and held[0] == "task.json" and _holds_same_task(folder, task)):
        return
    raise BandannaError(f"{folder} holds a task already ({', '.join(held)}). Use another folder, or remove it")


def _holds_same_task(folder: Path, task: Task) -> bool:
    try:
        return Task.read(folder).id == task.id
    except BandannaError:
        return False
