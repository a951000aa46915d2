"""No error, warning or log line holds a user's context, reward or id: the type, the shape and the place are enough.

Every public door for users' data is given values with a mark, in every wrong way that we know. The mark must not be in
an error's text, arguments, attributes and notes, in those of its causes and contexts, in warnings, logs and outputs.
"""

from __future__ import annotations

import io
import json
import logging
import math
import pickle
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import bandanna as bd
from bandanna import datasets, environments
from bandanna.cli.main import app
from bandanna.data import datasets as datasets_module
from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Range, UnitBall, fit_privately
from bandanna.deployment.client.session import RegistrarClient, to_ticket
from bandanna.deployment.http.limits import parse_json_body
from bandanna.deployment.messages.canonical import decode_base64url, loads
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic, ValueSummary, raise_without_context

from .client.town import Town
from .drawn import examples
from .simulation.golden_runs import RUNS

TEXT, NUMBER, WHOLE = "HIV positive", 987654.321, 987654321
MARKS = (TEXT, TEXT.encode().hex(), "987654")
B: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
PRIVACY = bd.central(**B)
ROWS = np.zeros((4, 3))


class Told:
    """Shows its text whatever is called."""

    def __init__(self) -> None:
        self.held = TEXT

    def _no(self, *_: Any, **__: Any) -> Any:
        raise ValueError(f"could not convert {TEXT!r}")

    def __repr__(self) -> str:
        return f"Told({TEXT!r})"

    __float__ = __int__ = __index__ = __array__ = __len__ = __iter__ = __bool__ = __getitem__ = __hash__ = _no
    columns = property(_no)


class ToldNumber(float):
    """A float whose conversion fails."""

    def __float__(self) -> float:
        raise ValueError(f"could not convert {TEXT!r}")

    def __repr__(self) -> str:
        return f"ToldNumber({TEXT!r})"


class ToldMapping(Mapping[str, Any]):
    """A mapping whose errors show its keys."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(TEXT)

    def __iter__(self) -> Iterator[Any]:
        return iter([TEXT, "age", "arm"])

    def __len__(self) -> int:
        return 3


LEAVES: list[Any] = [
    TEXT,
    TEXT.encode(),
    NUMBER,
    -NUMBER,
    WHOLE,
    -WHOLE,
    complex(NUMBER, NUMBER),
    Decimal("987654.321"),
]
LEAVES += [Fraction(987654321, 1000), np.float32(NUMBER), np.int64(WHOLE), np.str_(TEXT), np.longdouble(NUMBER)]
LEAVES += [WHOLE * 10**400, float(f"{WHOLE}e290"), ToldNumber(NUMBER), np.datetime64(WHOLE, "s"), Told()]
SHAPES = [(), (1,), (2,), (3,), (4,), (2, 2), (3, 3), (4, 3), (4, 4), (2, 4, 3)]


def _frames(value: Any) -> list[Any]:
    """Return tables with a value in a column, in names of columns and in names of rows."""
    age = pd.DataFrame({"age": [value, 30.0], "site": [value, "a"], "note": [value, None], "x": [value, 1.0]})
    return [age, age.to_dict("records"), age.to_dict("list"), age.iloc[0], pd.Series([value, 1.0]),
            pd.DataFrame({str(value): [1.0, 2.0]}), pd.DataFrame({"x": [1.0] * 2}, index=[str(value)] * 2)]  # fmt: skip


WHOLES: list[Any] = [*LEAVES, {TEXT}, {TEXT: NUMBER}, {TEXT: ROWS[0]}, {TEXT: [NUMBER, NUMBER]}, {"a": [TEXT] * 3}]
WHOLES += [[value] * 3 for value in LEAVES] + [[[value] * 3] * 4 for value in LEAVES] + [(TEXT, TEXT), [None, TEXT]]
WHOLES += [[[NUMBER], [NUMBER, NUMBER]], [{"age": TEXT}, TEXT], {"a": {"age": TEXT}}, ToldMapping(), [ToldMapping()]]
WHOLES += [np.full(shape, NUMBER) for shape in SHAPES] + [np.full(shape, TEXT) for shape in SHAPES[1:6]]
WHOLES += [np.full(shape, TEXT, dtype=object) for shape in SHAPES[1:]] + [np.full((4, 3), complex(NUMBER))]
WHOLES += [np.array([[NUMBER, 0.0, math.nan]] * 4), np.array([[NUMBER, NUMBER, math.inf]] * 4), np.full((4, 3), 1e300)]
WHOLES += [np.ma.array([NUMBER] * 3, mask=[0, 0, 1]), np.array([(NUMBER, TEXT)], dtype=[(TEXT, "f8"), ("b", "U20")])]
WHOLES += [{TEXT: [NUMBER, 0.0, math.nan]}, {TEXT: [0.0, 0.0, 1.0], WHOLE: [NUMBER]}, {(TEXT, 1): Told()}]
WHOLES += [frame for value in (TEXT, NUMBER, Told()) for frame in _frames(value)]
WHOLES += [pl.DataFrame({"age": [TEXT, "b"]}), pa.table({"age": [TEXT, "b"]}), pl.DataFrame({TEXT: [NUMBER]}).lazy()]


def holds(value: Any, seen: dict[int, Any] | None = None) -> bool:
    """Return whether a value, or a part of it, contains the mark."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return False
    seen[id(value)] = value
    if isinstance(value, str):
        return any(mark in value for mark in MARKS)
    if isinstance(value, bytes | bytearray):
        return TEXT.encode() in value or b"987654" in value
    if isinstance(value, BaseException):
        return bool(exposed(value, seen))
    if isinstance(value, type) or (callable(value) and hasattr(value, "__code__")):
        return False
    parts: list[Any] = []
    with suppress(Exception):
        parts.append(repr(value))
    if isinstance(value, np.ndarray):
        parts += [str(value.dtype), *value.ravel().tolist()[:1000]]
    elif isinstance(value, dict):
        parts += [*value, *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        parts += list(value)
    parts += list(getattr(value, "__dict__", {}).values())
    return any(holds(part, seen) for part in parts)


def exposed(error: BaseException, seen: dict[int, Any] | None = None) -> list[str]:
    """Return the places of the mark in an error, its causes and its contexts."""
    seen = {} if seen is None else seen
    found, left = [], [error]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        name = type(one).__name__
        told = {"str": str(one), "repr": repr(one), "args": one.args, "vars": vars(one)}
        told["traceback"] = "".join(traceback.TracebackException.from_exception(one).format_exception_only())
        for slot in ("object", "doc", "obj", "name", "filename", "value", "request", "response"):
            told[slot] = getattr(one, slot, None)
        found += [f"{part} of {name}: {one}"[:300] for part, value in told.items() if holds(value, seen)]
        left += [each for each in (one.__cause__, one.__context__) if each is not None]
        left += list(getattr(one, "exceptions", ()))
    return found


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(0)
        self.told: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.told += [record.getMessage(), record.args, record.exc_info]


def quiet(act: Callable[[], Any]) -> None:
    """Run a function; check that no error, warning, log line or pickle contains the mark."""
    lines = Lines()
    logging.getLogger().addHandler(lines)
    refused: Exception | None = None
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            act()
    except AssertionError:
        raise
    except Exception as error:
        refused = error
    finally:
        logging.getLogger().removeHandler(lines)
    assert refused is None or not exposed(refused), exposed(refused)
    assert not isinstance(refused, BandannaError) or not holds(pickle.dumps(refused))
    assert not holds(lines.told)
    assert not [each for each in warned if holds(str(each.message)) or holds(each.message.args)]  # type: ignore[union-attr]


# Agents


def agent(**parts: Any) -> bd.Agent:
    """Return an agent, by default with new arms for each user."""
    given = {"policy": bd.LinUCB(dim=3, horizon=200, batch=5, privacy=PRIVACY), "test": True, "seed": 0, **parts}
    return bd.Agent(**given)


MAP = Map(Range(age=(0, 100), outside="refuse", missing="refuse"), OneHot(site=["a"], unknown="refuse"),
          Hash("note", buckets=3, missing="refuse"), UnitBall())  # fmt: skip


@cache
def contextual() -> bd.Agent:
    """Return one agent for all calls: refusals do not change it."""
    return agent(policy=bd.LinUCB(dim=3, horizon=10**6, batch=10**5, privacy=PRIVACY))


@cache
def recorded() -> bd.Agent:
    return agent(policy=bd.LinUCB(dim=MAP.dim, horizon=10**6, batch=10**5, privacy=PRIVACY), features=MAP)


@cache
def per_arm() -> bd.Agent:
    return agent(policy=bd.LinTS(n_arms=3, features=2, horizon=10**6, batch=10**5, privacy=PRIVACY))


@cache
def staying() -> bd.Agent:
    return agent(policy=bd.LinTS(dim=3, horizon=10**6, batch=10**5, privacy=PRIVACY), arms=ROWS)


@cache
def asking() -> bd.Agent:
    policy = bd.policies.PhasedElimination(dim=2, horizon=10**4, privacy=bd.central(**B), alpha=0.8)
    return agent(policy=policy, arms=np.eye(2))


@cache
def counted() -> bd.Agent:
    policy = bd.LinUCB(dim=3, horizon=200, batch=5, privacy=bd.central(**B, participations=2))
    made = agent(policy=policy)
    made.act(ROWS, user=TEXT)
    return made


def named(value: Any) -> Any:
    """Return features of an arm of this name."""
    return {value: [1.0, 2.0]} if isinstance(value, str | float | int | bytes) else {(TEXT, str(value)): value}


def observed(value: Any) -> Any:
    """Give a reward to a new decision."""
    made = contextual()
    return made.observe(made.act(ROWS).id, value)


def observed_again(value: Any) -> Any:
    made = contextual()
    first = made.act(ROWS)
    made.observe(first, 0.5)
    return made.observe(first, value)


def observed_many(value: Any) -> Any:
    made = contextual()
    if hasattr(made, "observe_many"):
        decisions = made.act_many(np.zeros((3, 4, 3)))
        quiet(lambda: made.observe_many(value, [0.5] * 3))
        quiet(lambda: made.observe_many(decisions, [0.5, value, 0.5]))
        made.observe_many(decisions, value)


# Logs and what is made of them

PLAIN = {"arm": ["a", "b", "a", "b"], "reward": [0.0, 1.0, 1.0, 0.0], "p": [0.5] * 4, "x": [0.1, 0.2, 0.3, 0.4]}


def log(**parts: Any) -> bd.Log:
    columns = {"arm": "arm", "reward": "reward", "propensity": "p", "context": ["x"], "arms": ["a", "b"], **parts}
    return bd.Log.from_frame(PLAIN, **columns)


LOG, FOUND = log(), log(arms=None)


def cell(column: str, **parts: Any) -> Callable[[Any], Any]:
    """Return a log with a value in one of its cells."""

    def read(value: Any) -> bd.Log:
        columns = {"arm": "arm", "reward": "reward", "propensity": "p", "context": ["x"], **parts}
        frame = {**PLAIN, column: [*PLAIN[column][:2], value, PLAIN[column][3]]}
        return bd.Log.from_frame(frame, **columns)

    return read


def failing(*_: Any, **__: Any) -> Any:
    """Return a function that fails with the value that it was given."""
    raise ValueError(f"could not convert string to float: {TEXT!r}")


MODEL: dict[str, Any] = {"x": 0.5}
ARRAYS = {"contexts": np.zeros((4, 2)), "arms": np.array([0, 1, 0, 1]), "rewards": np.zeros(4)}
ARRAYS |= {"propensities": np.full(4, 0.5), "names": ("a", "b")}

BALL = bd.device.Ball(dim=3)
REPORT = bd.device.LinearReport(features=3)
BUDGET = bd.privacy.ApproxDP(**B)
PROTOCOLS = [
    bd.protocols.CentralGaussian(domain=BALL, noise_std=3.0),
    bd.protocols.LocalGaussian(domain=BALL, noise_std=3.0),
]
PROTOCOLS += [bd.protocols.ShuffleBinomial.calibrate(domain=BALL, budget=BUDGET, batch=4)]


def noise() -> bd.device.FastNoise:
    return bd.device.FastNoise(np.random.default_rng(0))


def released(value: Any) -> None:
    for protocol in PROTOCOLS:
        for path in ("law", "messages"):
            for clip in (True, False):
                quiet(lambda: protocol.release(value, source=noise(), clip=clip, path=path))  # noqa: B023


def summed(domain: Any) -> Callable[[Any], None]:
    """Call a counter with a value, a user and many values."""

    def count(value: Any) -> None:
        made = bd.agent.ContinualSum(horizon=8, privacy=PRIVACY, values=domain, source=noise())
        quiet(lambda: made.update(value))
        quiet(lambda: made.update(value, user=TEXT))
        quiet(lambda: made.run(value))
        quiet(lambda: made.run([value, value]))
        quiet(lambda: made.update(0.0, user=value))

    return count


def spent(value: Any) -> None:
    event = bd.protocols.CentralGaussian.calibrate(domain=BALL, budget=BUDGET).event
    ledger = bd.Ledger(budget=bd.privacy.ApproxDP(epsilon=1.5, delta=1e-4), store=bd.privacy.MemoryStore())
    for batch in range(2):
        quiet(lambda: ledger.release(event, task="t", batch=batch, data=value, draw=lambda: 1.0))  # noqa: B023
        given = {"data": ROWS, "draw": lambda: 1.0, "members": value}
        quiet(lambda: ledger.release(event, task="u", batch=batch, **given))  # noqa: B023
    quiet(lambda: ledger.release(event, task="v", batch=0, data=ROWS, draw=lambda: 1.0, members=[TEXT, TEXT]))


def evaluated(value: Any) -> None:
    """Evaluate with targets and models that are or contain the value."""
    for chosen in (LOG, FOUND):
        quiet(lambda: bd.ope.snips(chosen, lambda _: value))  # noqa: B023
        quiet(lambda: bd.ope.dr(chosen, "uniform", q=lambda _: value))  # noqa: B023
        if isinstance(value, np.ndarray) and value.ndim > 1:
            quiet(lambda: bd.ope.ips(chosen, value))  # noqa: B023


def arrays(value: Any) -> None:
    quiet(lambda: environments.ArrayEnvironment(arms=value, theta=[0.5, 0.5, 0.5]))
    quiet(lambda: environments.ArrayEnvironment(arms=np.zeros((4, 2, 3)), means=value))
    quiet(lambda: environments.ArrayEnvironment(arms=np.zeros((4, 2, 3)), means=value, theta=[0.5, 0.5, 0.5]))


def streamed(value: Any) -> None:
    """Restore states of streams, which hold raw sums in the central model."""
    protocols = bd.protocols.CentralContinual, bd.protocols.ConcurrentShuffle
    for kind, domain in zip(protocols, (BALL, bd.device.Bits()), strict=True):
        protocol = kind.calibrate(domain=domain, budget=BUDGET, horizon=64)  # type: ignore[attr-defined]
        quiet(lambda: protocol.release(value, np.zeros((1, domain.dim)), noise()))  # noqa: B023
        quiet(lambda: protocol.check_users(value, 1))  # noqa: B023
        quiet(lambda: protocol.prefixes(value, noise()))  # noqa: B023
        if isinstance(protocol, bd.protocols.ConcurrentShuffle) and isinstance(value, int):
            quiet(lambda: protocol.estimate_bit_prefixes([value], noise()))  # noqa: B023


def labelled(value: Any) -> None:
    quiet(lambda: environments.Table.from_labels(np.zeros((4, 2)), value))
    quiet(lambda: environments.Table.from_labels(np.zeros((4, 2)), ["a", value, 1, None]))


DOORS: dict[str, Callable[[Any], Any]] = {
    "Agent.act": lambda value: contextual().act(value),
    "Agent.act, an arm": lambda value: contextual().act({"a": ROWS[0], "b": value}),
    "Agent.act, a name": lambda value: contextual().act(named(value)),
    "Agent.act, user": lambda value: contextual().act(ROWS, user=value),
    "Agent.act, user who returns": lambda value: counted().act(ROWS, user=value),
    "Agent.act_many": lambda value: contextual().act_many(value),
    "Agent.act_many, one": lambda value: contextual().act_many([ROWS, value]),
    "Agent.act_many, users": lambda value: contextual().act_many(np.zeros((2, 4, 3)), users=value),
    "Agent.act_many, user": lambda value: contextual().act_many(np.zeros((2, 4, 3)), users=["a", value]),
    "Agent.recommend": lambda value: contextual().recommend(value, explore=True),
    "Agent.observe, id": lambda value: contextual().observe(value, 1.0),
    "Agent.observe, client": lambda value: asking().observe(asking().act().id, 1.0, client=value),
    "Agent.observe": observed,
    "Agent.observe, again": observed_again,
    "Agent.observe_many": observed_many,
    "Agent.recruit": lambda value: asking().recruit(value),
    "Agent.act, records": lambda value: recorded().act(value),
    "Agent.act, record": lambda value: recorded().act({"a": value}),
    "Agent.act_many, records": lambda value: recorded().act_many([value]),
    "Agent.act, features of users": lambda value: per_arm().act(value),
    "Agent.act_many, features of users": lambda value: per_arm().act_many(value),
    "Agent.act, arms that stay": lambda value: staying().act(value),
    "Agent.act_many, arms that stay": lambda value: staying().act_many(value),
    "Map": lambda value: MAP(value),
    "Map, a value": lambda value: MAP({"age": value, "site": "a", "note": "b"}),
    "Map, values": lambda value: MAP([{"age": 1, "site": value, "note": value}] * 20),
    "Map, constant": lambda value: Map(Range(age=(0, 1)), Intercept())(value, names=["age"]),
    "fit_privately": lambda value: fit_privately(value, {"age": (0, 120)}, privacy=PRIVACY, source=noise()),
    "Log.from_frame": lambda value: bd.Log.from_frame(value, arm="arm", reward="reward", propensity=0.5),
    "Log.from_frame, arm": cell("arm"),
    "Log.from_frame, one of the arms": cell("arm", arms=["a", "b"]),
    "Log.from_frame, arms by design": cell("arm", propensity={"a": 0.5, "b": 0.5}),
    "Log.from_frame, features of found arms": cell("arm", context={"a": ["x"], "c": ["x"]}),
    "Log.from_frame, reward": cell("reward"),
    "Log.from_frame, words": cell("reward", success="yes"),
    "Log.from_frame, range": cell("reward", reward_range=(0, 2)),
    "Log.from_frame, propensity": cell("p"),
    "Log.from_frame, floor": cell("p", floor=0.3),
    "Log.from_frame, context": cell("x"),
    "Log.from_frame, mapped": cell("x", context=Map(Range(x=(0, 1), outside="refuse", missing="refuse"))),
    "Log.from_frame, computed": lambda value: log(context=lambda _: value),
    "Log.from_frame, eligible": cell("x", context=(), eligible="x"),
    "Log.from_frame, eligible by arm": cell("x", context=(), eligible={"a": "x", "b": "x"}, arms=["a", "b"]),
    "Log.from_decisions": lambda value: bd.Log.from_decisions(value, rewards=[1.0]),
    "Log.from_decisions, rewards": lambda value: bd.Log.from_decisions([contextual().act(ROWS)], rewards=value),
    "Log.from_decisions, a reward": lambda value: bd.Log.from_decisions([contextual().act(ROWS)], rewards=[value]),
    "Log.from_decisions, misspelt": lambda value: bd.Log.from_decisions([], reward=value),
    **{
        f"Log, {name}": (lambda value, name=name: bd.Log(**{**ARRAYS, name: value}))
        for name in ARRAYS
        if name != "names"
    },
    "Log, eligible": lambda value: bd.Log(**ARRAYS, eligible=value),
    "Log.at": lambda value: LOG.at(value),
    "ope": evaluated,
    "ope.compare": lambda value: bd.ope.compare(LOG, {"a": lambda _: value, "b": "uniform"}),
    "replay": lambda value: bd.replay(bd.LinTS(dim=3, horizon=6, batch=3, privacy=PRIVACY), value),
    "Agent.warm_start": lambda value: contextual().warm_start(value),
    "RewardModel": lambda value: bd.ope.reward_model(LOG)(value),
    "Table, features": lambda value: environments.Table(value, np.zeros((4, 2))),
    "Table, rewards": lambda value: environments.Table(np.zeros((4, 2)), value),
    "Table.from_labels": labelled,
    "ArrayEnvironment": arrays,
    "streams": streamed,
    "ContinualSum": summed(bd.device.Box(dim=1)),
    "ContinualSum, bits": summed(bd.device.Bits()),
    "ContinualSum, vectors": summed(bd.device.Ball(dim=3)),
    "ContinualSum, matrices": summed(bd.device.SymmetricMatrix(size=3)),
    "Protocol.release": released,
    "Domain.admit": lambda value: BALL.admit(value, clip=False),
    "Report.statistic": lambda value: REPORT.statistic(value, np.zeros(4)),
    "Report.statistic, rewards": lambda value: REPORT.statistic(ROWS, value),
    "Ledger.release": spent,
    "Registrar, user": lambda value: RegistrarClient(user=value, token="t"),
    "tickets": to_ticket,
    "a request": lambda value: parse_json_body(value if isinstance(value, bytes) else repr(value).encode()),
    "a document": lambda value: loads(value if isinstance(value, bytes) else repr(value)),
    "bytes in an address": decode_base64url,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DOORS)
def test_no_error_holds_a_users_value(name: str) -> None:
    for value in WHOLES:
        quiet(lambda: DOORS[name](value))  # noqa: B023


_drawn = st.recursive(
    st.sampled_from(range(len(LEAVES))).map(LEAVES.__getitem__) | st.sampled_from([0.5, 1, None, "a", math.nan]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.sampled_from([TEXT, "age", "arm", "reward", "x", WHOLE]), inner, max_size=3)
    ),
    max_leaves=8,
)


class _Given:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DOORS)
@examples(15, full=300)
@given(drawn=_drawn.map(_Given))
def test_no_error_holds_a_part_of_what_was_nested(name: str, drawn: _Given) -> None:
    quiet(lambda: DOORS[name](drawn.value))


CSV = {
    "a header of values": f"{TEXT},{NUMBER},a\n1,0.5,2\n",
    "twice": f"{TEXT},{TEXT},arm\n1,0.5,2\n",
    "short": f"arm,reward,p\n{TEXT},1\n",
    "no header": f"{TEXT},{NUMBER}\n{TEXT},1,{WHOLE}\n",
    "no rows": f"{TEXT}\n",
    "quotes": f'arm,reward,p\n"{TEXT}"x,1,0.5\n',
    "texts": f"arm,reward,p\na,{TEXT},0.5\nb,1,0.5\n",
    "numbers": f"arm,reward,p\na,{NUMBER},0.5\nb,1,0.5\n",
    "arms": f"arm,reward,p\n{TEXT},1,0.5\nb,1,0.5\n",
    "chances": f"arm,reward,p\na,1,{NUMBER}\nb,1,0.5\n",
    "similar": f"arm,rewards {TEXT},p\na,1,0.5\n",
    "damaged": f"PAR1 {TEXT}",
    "no text": f"arm,reward,p\n{TEXT},\udcff,0.5\n",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CSV)
def test_files_are_refused_by_line_and_column(name: str, tmp_path: Path) -> None:
    file = tmp_path / "people.csv"
    file.write_bytes(CSV[name].encode(errors="surrogateescape"))
    columns = {"arm": "arm", "reward": "reward", "propensity": "p"}
    for more in ({}, {"arms": ["a", "b"]}, {"propensity": {"a": 0.5, "c": 0.5}}, {"success": "yes"}):
        quiet(lambda: bd.Log.read(file, **{**columns, **more}))  # noqa: B023
    quiet(lambda: datasets_module.read(file, **columns))
    quiet(
        lambda: datasets_module.read(
            file, label="arm", features=Map(Range(reward=(0, 1), outside="refuse", missing="refuse"))
        )
    )
    quiet(lambda: datasets_module.read(file, label="arms"))
    options = ["--arm", "arm", "--reward", "reward", "--propensity", "p"]
    for more in ([], ["--arms", "a,b"], ["--success", "yes"], ["--range", "0,2"]):
        for target in ("uniform", "arm:c"):
            done = CliRunner().invoke(app, ["evaluate", str(file), "--target", target, *options, *more])
            assert not holds(done.output)
            assert done.exception is None or not exposed(done.exception)


HEADERS = {
    "actg175": "age,wtkg,hemo,homo,drugs,karnof,race,gender,str2,symptom,cd40,cd80,cd420,arms",
    "thornton": "got,tinc,distvct,age",
    "shuttle": "V1,V2,V3,V4,V5,V6,V7,V8,V9,Class",
    "obd": "item_id,click,propensity_score,user_feature_0,user_feature_1,user_feature_2,user_feature_3",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HEADERS)
@pytest.mark.parametrize("value", [TEXT, str(NUMBER), ""])
def test_data_sets_from_files_are_refused_by_line_and_column(name: str, value: str, tmp_path: Path) -> None:
    columns = HEADERS[name].split(",")
    file = tmp_path / ("thornton_hiv.csv" if name == "thornton" else "people.csv")
    for place in range(len(columns)):
        cells = ["0.5"] * len(columns)
        cells[place] = value
        file.write_text("\n".join([HEADERS[name], ",".join(cells), ",".join(["1"] * len(columns))]) + "\n")
        quiet(lambda: datasets.load(name, path=file))
    file.write_text(f"{TEXT},{NUMBER}\n{TEXT},{NUMBER}\n")
    quiet(lambda: datasets.load(name, path=file))
    lines = tmp_path / "lines.jsonl"
    for line in (f'{{"prompt": "{TEXT}"}}', f'{{"{TEXT}', f'{{"prompt": 1, "arms": {{"{TEXT}": "{TEXT}"}}}}'):
        lines.write_text(line + "\n")
        quiet(lambda: datasets.load("routing", path=lines))


@pytest.mark.parametrize("function", [failing, Told()._no, lambda rows: float(f"{TEXT} {rows!r}")])
def test_errors_of_own_functions_are_shown_by_type_and_line(function: Any) -> None:
    for act in (
        lambda: log(context=function),
        lambda: bd.ope.snips(LOG, function),
        lambda: bd.ope.dr(LOG, "uniform", q=function),
    ):
        quiet(act)
        with pytest.raises(
            InvalidStatistic, match=r"a function that raised ValueError in line \d+ of test_private_err"
        ):
            act()


def test_errors_of_a_session_show_no_context_reward_or_id(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=3, horizon=512, batch=128, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    # wrong contexts take places, too
    town = Town(policy, tmp_path)
    session = town.session()
    decision = session.act(np.zeros((4, 3)))
    with pytest.raises(InvalidStatistic, match=r"^reward must be a finite number.*, got a str"):
        session.report(decision, TEXT)  # type: ignore[arg-type]
    for value in WHOLES:
        session = town.session()
        decision = session.act(np.zeros((4, 3)))
        quiet(lambda: session.act(value))  # noqa: B023
        quiet(lambda: session.report(value, 0.5))  # noqa: B023
        quiet(lambda: town.session(user=value))  # noqa: B023
        if not isinstance(value, float | int | np.number | Decimal | Fraction):  # which are rewards
            quiet(lambda: session.report(decision, value))  # noqa: B023


def test_a_damaged_save_shows_nothing(tmp_path: Path) -> None:
    made = agent()
    made.observe(made.act(np.full((4, 3), NUMBER / 1e12), user=TEXT), 0.25)
    file = tmp_path / "agent.json"
    made.save(file)
    first, rest = file.read_text().split("\n", 1)
    for content in (first + "\n" + rest.replace('"slots"', f'"{TEXT}"'), first[:-3] + TEXT, f"{TEXT}\n{rest}"):
        file.write_text(content)
        quiet(lambda: bd.Agent.load(file))
    header = json.loads(first)
    for text in (f'{{"{TEXT}": {NUMBER}', f'["{TEXT}"]', f'{{"{TEXT}": {NUMBER}}}'):
        from hashlib import sha256

        header["sha256"] = sha256(text.encode()).hexdigest()
        file.write_text(json.dumps(header) + "\n" + text + "\n")
        quiet(lambda: bd.Agent.load(file))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(RUNS))
def test_simulations_of_recorded_tables_show_nothing(name: str) -> None:
    given, worlds = RUNS[name]
    for features, wrong in ((NUMBER, False), (-NUMBER, True)):
        dim, arms = worlds[0].dim + wrong, worlds[0].n_arms + wrong
        table = environments.Table(np.full((400, arms, max(dim, 1)), features), np.full((400, arms), 0.5))
        quiet(lambda: bd.simulate(bd.make(name, **given), table, n_seeds=1, horizon=40))  # noqa: B023


def test_errors_quote_configured_values() -> None:
    with pytest.raises(InvalidArgument, match=r"epsilon must be .*, got -987654.321"):
        bd.privacy.ApproxDP(epsilon=-NUMBER, delta=1e-5)
    with pytest.raises(InvalidArgument, match=r"horizon must be .*, got 0.5"):
        bd.LinUCB(dim=3, horizon=0.5, privacy=PRIVACY)
    with pytest.raises(InvalidArgument, match=r"target must be .*the arms a, b.*, got 'arm:c'"):
        bd.ope.snips(LOG, "arm:c")
    with pytest.raises(InvalidArgument, match=r"reward must be .*, got .rewards.\. Column 1 has a similar name"):
        bd.Log.from_frame(PLAIN, arm="arm", reward="rewards", propensity="p")


@pytest.mark.parametrize(
    ("value", "told"),
    [(TEXT, "a str"), (NUMBER, "a float"), (WHOLE, "an int"), (True, "a bool"), (None, "None"), (b"", "a bytes"),
     (math.nan, "a float that is not finite"), (np.float64(NUMBER), "a float64"), ([1, 2], "a list of length 2"),
     ({TEXT: 1}, "a dict of length 1"), (np.zeros((4, 3)), "an array of shape (4, 3) of floats"),
     (np.array([TEXT]), "an array of shape (1,) of texts"), (Told(), "a Told"), (ValueSummary("so"), "so"),
     (pd.DataFrame({TEXT: [1.0]}), "a DataFrame of shape (1, 1)")],
)  # fmt: skip
def test_a_value_is_described_by_type_and_shape(value: Any, told: str) -> None:
    error = InvalidStatistic("reward", value, "a number")
    assert (str(error), error.value) == (f"reward must be a number, got {told}", told)
    assert type(error.value) is ValueSummary
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.value, type(again.value)) == (str(error), told, ValueSummary)


def test_an_error_raised_alone_has_no_context() -> None:

    def convert() -> None:
        try:
            float(TEXT)
        except ValueError:
            raise_without_context(BandannaError("told"))

    with pytest.raises(BandannaError) as caught:
        convert()
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "positive" not in "".join(traceback.format_exception(caught.value)).replace("float(TEXT)", "")


def test_the_search_finds_what_it_looks_for() -> None:
    plain = BandannaError("so")
    assert not exposed(plain)
    noted = BandannaError("so")
    noted.add_note(TEXT)
    held = BandannaError("so")
    held.value = np.array([1.0, NUMBER])  # type: ignore[attr-defined]
    caused, hidden = BandannaError("so"), BandannaError("so")
    caused.__cause__ = KeyError(TEXT)
    hidden.__context__, hidden.__suppress_context__ = KeyError(TEXT), True
    try:
        json.loads(f'{{"{TEXT}')
    except ValueError as error:
        decoded = error
    for error in (BandannaError(TEXT), InvalidArgument("reward", NUMBER, "no"), noted, held, caused, hidden, decoded):
        assert exposed(error)
    assert holds(io.StringIO(TEXT).getvalue())
