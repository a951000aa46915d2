"""Users with valid tickets send any reports they like: every batch is learned from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna import environments as worlds
from bandanna.deployment.messages.canonical import seal, sealing_key
from bandanna.deployment.messages.report import TaggedReport, report_info
from bandanna.policies.glm.glm_jdp import GLMJDPConstants

from ..inside import a_task
from .attacked import Attacked, arms_of, filled, played, with_body

Row = np.ndarray[Any, Any]

FRESH, FINITE = worlds.LinearContextual(dim=3, n_arms=6), worlds.FiniteArms(means=(0.8, 0.4, 0.2))
GLM = worlds.GeneralisedLinear(dim=2, n_arms=4, norm=2.0)
PEOPLE = worlds.Population(arms=((1.0, 0.0), (0.0, 1.0), (0.6, 0.8), (-0.8, 0.6)), sigma=0.1)
OWN = worlds.DisjointLinear(dim=2, n_arms=4)
DP: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3}
BUSY = GLMJDPConstants(
    share=0.4, steps=2, calls_o=2, calls_tau=2, regulariser_v=4.0, regulariser_h=1.0, ridge=1.0, threshold=1 / 16,
    elimination=9.0, bonus=1.0,
)  # fmt: skip
LOGISTIC: dict[str, Any] = {"dim": 2, "horizon": 60, "parameter_bound": 2.0}

CENTRAL: dict[str, tuple[Callable[[], Any], Any]] = {
    "LinTS-JDP": (lambda: bd.make("LinTS-JDP", dim=3, horizon=60, batch=20, **DP), FRESH),
    "LinTS-JDP, intercept": (
        lambda: bd.make("LinTS-JDP", dim=3, horizon=60, batch=20, intercept=True, **DP), FRESH),
    "LinTS-JDP-rewards": (
        lambda: bd.make("LinTS-JDP-rewards", dim=3, horizon=60, public_contexts=True, intercept=True, **DP), FRESH),
    "LinUCB-JDP": (lambda: bd.make("LinUCB-JDP", dim=3, horizon=30, width=0.2, **DP), FRESH),
    "LinTS per arm": (
        lambda: bd.LinTS(n_arms=4, features=2, horizon=60, batch=20, privacy=bd.central(**DP)), OWN),
    "GLM-JDP": (lambda: bd.make("GLM-JDP", **LOGISTIC, epsilon=20.0, delta=1e-3, constants=BUSY), GLM),
    "AdaC-UCB": (lambda: bd.make("AdaC-UCB", n_arms=3, horizon=100, rho=5.0), FINITE),
    "Thompson": (lambda: bd.make("Thompson", n_arms=3, horizon=30), FINITE),
    "DP-SE": (lambda: bd.make("DP-SE", n_arms=3, horizon=2000, failure=0.5, epsilon=20.0), FINITE),
    "CDP-DPE": (lambda: bd.make("CDP-DPE", dim=2, horizon=900, **DP), PEOPLE),
}  # fmt: skip

SLOW = ("GLM-JDP", "DP-SE", "SDP-SE", "SDP-DPE", "LDP-UCB", "Thompson")


def _all(row: Row, number: float) -> Row:
    return np.full_like(row, number)


def _at(row: Row, place: Any, number: float) -> Row:
    made = row.copy()
    made[place] = number
    return made


REFUSED: dict[str, Callable[[Row], Row]] = {  # rows that no device of any policy sends
    "not a number": lambda row: _at(row, 0, np.nan),
    "infinite": lambda row: _at(row, slice(None, -3), np.inf),
    "a negative arm": lambda row: _at(row, -3, -1),
    "half an arm": lambda row: _at(row, -3, 0.5),
    "a huge arm": lambda row: _at(row, -3, 2.0**31),
    "a negative group": lambda row: _at(row, -2, -1),
    "all bits": lambda row: np.frombuffer(b"\xff" * row.nbytes),
}
TAKEN: dict[str, Callable[[Row], Row]] = {  # rows that are possible, or count as nobody's
    "the largest numbers": lambda row: np.append(_all(row[:-3], np.finfo(float).max), row[-3:]),
    "the least numbers": lambda row: np.append(_all(row[:-3], -9e99), row[-3:]),
    "the smallest numbers": lambda row: np.append(_all(row[:-3], 5e-324), row[-3:]),
    "an arm that is not there": lambda row: _at(row, -3, 2.0**31 - 1),
    "a group that is not there": lambda row: _at(row, -2, 2.0**31 - 1),
    "everything at once": lambda row: np.append(_all(row[:-3], 1e100), _all(row[-3:], 2.0**31 - 1)),
    "nothing, as an answer": lambda row: _at(_all(row, 0.0), -1, 1),
}


def rows(changes: Sequence[Callable[[Row], Row]]) -> Any:
    count = [0]

    def attack(_: Attacked, report: TaggedReport) -> list[list[bytes]]:
        count[0] += 1
        row = np.frombuffer(report.body, dtype="<f8")
        return [[with_body(report, changes[count[0] % len(changes)](row).tobytes())]]

    return attack


def marked(names: Sequence[str]) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.full) if name in SLOW else name for name in names]


@pytest.mark.parametrize("name", marked([*CENTRAL]))
def test_hostile_rows_stop_no_batch(name: str, tmp_path: Path) -> None:
    made, env = CENTRAL[name]
    plain, _ = played(made(), env, made().horizon, tmp_path / "plain", seed=None)
    account, inside = played(
        made(), env, made().horizon, tmp_path / "attacked", seed=None, every=2, attack=rows([*TAKEN.values()])
    )
    assert account.users == plain.users
    assert inside.said.keys() == {""}
    assert inside.said[""] >= min(6, plain.users // 4)
    assert account.publications[-1].status == plain.publications[-1].status
    assert np.all(np.isfinite(_numbers(inside.processor.policy.publish(inside.processor.progress.state))))


def _numbers(value: Any) -> Row:
    if isinstance(value, np.ndarray | float | int):
        return np.ravel(np.asarray(value, dtype=float))
    inner = vars(value).values() if hasattr(value, "__dict__") else value if isinstance(value, tuple | list) else ()
    return np.concatenate([np.zeros(1), *map(_numbers, inner)])


@pytest.mark.parametrize("name", ["LinTS-JDP", "AdaC-UCB", "CDP-DPE"])
def test_impossible_rows_are_refused_and_change_nothing(name: str, tmp_path: Path) -> None:
    made, env = CENTRAL[name]
    task = a_task(made(), arms=arms_of(env))
    plain, _ = played(made(), env, made().horizon, tmp_path / "plain", task=task)
    account, inside = played(
        made(), env, made().horizon, tmp_path / "attacked", task=task, every=2, attack=rows([*REFUSED.values()])
    )
    assert inside.said.keys() == {"range"}
    assert [view.chain for view in account.publications] == [view.chain for view in plain.publications]


def test_a_report_that_cannot_be_opened_counts_as_nothing(tmp_path: Path) -> None:
    policy = bd.make("LinUCB-SDP-Amp", dim=3, horizon=60, width=0.2, **DP)
    other, kinds = sealing_key()[1], [0]

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        part = inside.plan_of(report.epoch).rounds[report.round].parts[0]
        key, info = inside.task.key("seal analyzer"), report_info(inside.task.digest, report.epoch, report.round)
        kinds[0] += 1
        full = np.full(part.length, 2**63 - 1, dtype="<i8").tobytes()
        bodies = [
            bytes(part.size),  # no ciphertext
            seal(key, bytes(part.size - 48), b"something else"),
            seal(other, bytes(part.size - 48), info),
            seal(key, full, info),  # opens, and is out of range
            report.body[:-1] + bytes([report.body[-1] ^ 1]),
        ]
        return [[with_body(report, bodies[kinds[0] % len(bodies)])]]

    plain, _ = played(policy, FRESH, 60, tmp_path / "plain", seed=None)
    account, inside = played(policy, FRESH, 60, tmp_path / "attacked", seed=None, attack=attack)
    assert inside.said.keys() == {""}
    assert inside.said[""] > 10
    assert (account.users, account.publications[-1].status) == (plain.users, "finished")
    assert len(account.publications) == len(plain.publications)
    assert np.all(np.isfinite(_numbers(account.publications[-1].snapshot)))


def test_a_slot_opens_only_with_a_report_for_every_round(tmp_path: Path) -> None:
    policy = bd.make("GLM-SDP", **LOGISTIC, epsilon=20.0, delta=1e-2, warmup=30, steps=2)
    kinds = [0]

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        if report.round:
            return []
        plan = inside.plan_of(report.epoch)
        kinds[0] += 1
        if len(plan.rounds) == 1:
            return []
        out_of_range = filled(plan.rounds[1], 2**32 - 1)
        size = plan.rounds[1].size
        second = [
            with_body(report, out_of_range, round=1),
            with_body(report, bytes(size - 1), round=1),
            with_body(report, bytes(size), round=1, tag=bytes(16)),
            with_body(report, bytes(size), round=1, version=7),
            with_body(report, bytes(size), round=60_000),
        ][kinds[0] % 5]
        others = [with_body(report, bytes(each.size), round=n) for n, each in enumerate(plan.rounds) if n > 1]
        return [[report.to_bytes(), second, *others]]

    plain, _ = played(policy, GLM, 60, tmp_path / "plain", seed=None)
    account, inside = played(policy, GLM, 60, tmp_path / "attacked", seed=None, attack=attack, every=2, bare=True)
    assert account.users == plain.users
    assert not account.refused
    assert len(account.publications) == len(plain.publications)
    assert "" not in inside.said
    assert inside.said["incomplete"] > 5


LOCAL: dict[str, tuple[Callable[[], Any], Any]] = {
    "LinTS-LDP": (lambda: bd.make("LinTS-LDP", dim=3, horizon=60, batch=20, **DP), FRESH),
    "LinUCB-LDP": (lambda: bd.make("LinUCB-LDP", dim=3, horizon=30, width=0.2, **DP), FRESH),
    "LDP-UCB": (lambda: bd.make("LDP-UCB", n_arms=3, horizon=40, epsilon=1.0), FINITE),
    "LDP-DPE": (lambda: bd.make("LDP-DPE", dim=2, horizon=900, **DP), PEOPLE),
    "LinTS-SDP": (lambda: bd.make("LinTS-SDP", dim=3, horizon=60, batch=20, **DP), FRESH),
    "SDP-SE": (lambda: bd.make("SDP-SE", n_arms=3, horizon=2000, failure=0.5, epsilon=20.0, delta=1e-2), FINITE),
    "SDP-DPE": (lambda: bd.make("SDP-DPE", dim=2, horizon=900, **DP), PEOPLE),
    "LinTS-CSDP": (lambda: bd.make("LinTS-CSDP", dim=3, horizon=40, **DP), FRESH),
}
EXTREMES = (0, 1, -1, 2**31 - 1, 2**32 - 1, 2**62 - 1, -(2**62) + 1, 2**63 - 1, -(2**63))


@pytest.mark.parametrize("name", marked([*LOCAL]))
def test_extreme_reports_stop_no_batch(name: str, tmp_path: Path) -> None:
    made, env = LOCAL[name]
    count = [0]

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        round_ = inside.plan_of(report.epoch).rounds[report.round]
        count[0] += 1
        with np.errstate(all="ignore"):
            return [[with_body(report, filled(round_, np.int64(EXTREMES[count[0] % len(EXTREMES)])))]]

    plain, _ = played(made(), env, made().horizon, tmp_path / "plain", seed=None)
    account, inside = played(made(), env, made().horizon, tmp_path / "attacked", seed=None, every=2, attack=attack)
    assert account.users == plain.users
    assert inside.said.keys() <= {"", "range"}
    assert sum(inside.said.values()) > 10
    with inside.processor._database.reading() as found:
        assert {outcome for (outcome,) in found.execute("select outcome from releases")} <= {"begun", "released"}
