"""Faults of some fields, seeds, people or rewards are found; states of any class are compared by content.

Every replay and every exact bound is deterministic. Where a verdict rests on samples, a true claim is refuted with
probability at most 0.05 for other seeds; seeds are fixed.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import re
from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
import pytest

import bandanna as bd
from bandanna.audit.comparison import OPAQUE, first_difference, list_arrays, take_apart
from bandanna.audit.gallery import FixedSeed, RawVariance
from bandanna.audit.policies import LeakSearch
from bandanna.audit.targets import AuditRow
from bandanna.device.domain import Ball, Estimate, Statistic
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument
from bandanna.mechanisms.noise import GaussianMechanism
from bandanna.privacy import gdp
from bandanna.protocols.gaussian import CentralGaussian, NoisySumAnalyzer
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.mixers import sum_plain_statistics
from bandanna.types import Floats
from tests.audit.test_other_leaks import WORLD, Greedy, Sums

BUDGET = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-3)


def row_of(target: Any, **more: Any) -> AuditRow:
    """The verdict on a policy in a small world, or on a protocol."""
    world = {"env": WORLD} if isinstance(target, bd.Policy) else {}
    return bd.audit.audit(target, trials=4000, **world, **more).rows[0]


class RawCount(NoisySumAnalyzer):
    """A count that depends on the rows, such as that of large rewards, stands in `count`."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        state, estimate = super().analyze(state, view, source)
        positive = np.count_nonzero(view.numbers[..., 0] > 0, axis=-1)
        return state, replace(estimate, count=positive)


class OwnEstimate(Estimate):
    """An estimate with room for more."""


class RawAttribute(NoisySumAnalyzer):
    """The sum without noise stands in an attribute that estimates do not have, as a text."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        state, estimate = super().analyze(state, view, source)
        told = OwnEstimate(total=estimate.total, count=estimate.count, variance=estimate.variance)
        object.__setattr__(told, "note", str(np.round(sum_plain_statistics(view.numbers, self.domain)[0], 6)))
        return state, told


class HiddenSeed(NoisySumAnalyzer):
    """The same, and noise from the source that was given is drawn and thrown away."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        super().analyze(state, view, source)
        return super().analyze(state, view, FastNoise(np.random.default_rng(0)))


class SeededByRows(NoisySumAnalyzer):
    """The seed is a digest of the rows: the same rows have the same noise."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        seed = int.from_bytes(np.ascontiguousarray(view.numbers).tobytes()[:64], "little")
        return super().analyze(state, view, FastNoise(np.random.default_rng(seed)))


class Kept(NoisySumAnalyzer):
    """Noise is drawn once, from the first source, and used for ever."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        own = vars(self).get("own", source)
        object.__setattr__(
            self, "own", FastNoise(np.random.default_rng(int(own._rng.integers(2**32)))) if own is source else own
        )
        held = np.random.Generator(type(self.own._rng.bit_generator)())  # type: ignore[attr-defined]
        held.bit_generator.state = self.own._rng.bit_generator.state  # type: ignore[attr-defined]
        return super().analyze(state, view, FastNoise(held))


def central(kind: type[NoisySumAnalyzer], **fields: Any) -> CentralGaussian:
    """A central sum with such a server, calibrated for the claim."""

    @dataclass(frozen=True, kw_only=True)
    class Central(CentralGaussian):
        @cached_property
        def analyzer(self) -> NoisySumAnalyzer:
            return kind(domain=self.domain, mechanism=self.mechanism)

    honest = CentralGaussian.calibrate(budget=BUDGET, **({"domain": Ball(dim=2)} | fields))
    return Central(domain=honest.domain, noise_std=honest.noise_std, delta=honest.delta)


def through(kind: type[NoisySumAnalyzer]) -> Greedy:
    """A policy whose sums are made by such a server."""

    class Told(Greedy):
        @cached_property
        def protocol(self) -> Any:
            return central(kind, domain=bd.device.LinearReport(features=self.dim))

    return Told()


FIELDS = [RawVariance, RawCount, RawAttribute]
SEEDS = [FixedSeed, HiddenSeed, SeededByRows, Kept]


@pytest.mark.parametrize("kind", [*FIELDS, *SEEDS], ids=lambda kind: kind.__name__)
def test_a_server_that_shows_a_raw_field_or_repeats_its_noise_is_refuted(kind: type[NoisySumAnalyzer]) -> None:
    for target in (central(kind), through(kind)):
        row = row_of(target)
        assert row.refuted
        assert row.lower_bound > 1.0


def test_a_raw_field_beside_laplace_noise_is_refuted() -> None:

    @dataclass(frozen=True, kw_only=True)
    class Telling(CentralLaplace):
        @cached_property
        def analyzer(self) -> Any:
            honest = CentralLaplace.analyzer.func(self)  # type: ignore[attr-defined]

            class Analyzer(type(honest)):  # type: ignore[misc]
                def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
                    state, estimate = super().analyze(state, view, source)
                    raw = sum_plain_statistics(view.numbers, self.domain)[0]
                    return state, replace(estimate, variance=raw[..., 0])

            return Analyzer(**{name: getattr(honest, name) for name in honest.__dataclass_fields__})

    honest, telling = (
        kind.calibrate(domain=Ball(dim=2), budget=bd.privacy.PureDP(epsilon=1.0)) for kind in (CentralLaplace, Telling)
    )
    assert not row_of(honest).refuted
    assert row_of(telling).refuted


class NoisyCount(NoisySumAnalyzer):
    """Half of the budget for a noisy number of positive statistics, which is shown in `count`."""

    def analyze(self, state: Any, view: Any, source: Any) -> tuple[Any, Estimate]:
        positive = np.count_nonzero(view.numbers[..., 0] > 0, axis=-1)
        state, estimate = super().analyze(state, view, source)
        count = source.gaussian(np.asarray(positive, dtype=float), std=8 * self.mechanism.std, grid=0.0)
        return state, replace(estimate, count=count)


def test_a_field_with_noise_of_its_own_is_consistent() -> None:
    row = row_of(central(NoisyCount), epsilon=1.2, delta=1e-3)
    assert not row.refuted


def test_a_mechanism_with_a_fixed_seed_is_refuted() -> None:

    @dataclass(frozen=True, kw_only=True)
    class Seeded(GaussianMechanism):
        def release(self, value: Any, source: Any, *, rest: Any = 0.0) -> Any:
            return super().release(value, FastNoise(np.random.default_rng(3)), rest=rest)

    honest, seeded = (kind(std=1 / gdp.mu(1.0, 1e-3), sensitivity=1.0) for kind in (GaussianMechanism, Seeded))
    assert row_of(seeded, epsilon=1.0, delta=1e-3).refuted
    assert not row_of(honest, epsilon=1.0 + 1e-6, delta=1e-3).refuted


@dataclass(frozen=True, kw_only=True)
class Quiet(CentralGaussian):
    """States the price of `noise_std`, and draws a twentieth of it."""

    @cached_property
    def analyzer(self) -> NoisySumAnalyzer:
        return NoisySumAnalyzer(domain=self.domain, mechanism=replace(self.mechanism, std=self.noise_std / 20))


class QuietLater(Greedy):
    """A twentieth of the noise from the second batch on."""

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Sums]:
        quiet = Quiet(domain=self.protocol.domain, noise_std=self.protocol.noise_std, delta=self.protocol.delta)
        released = yield bd.policies.SumQuery(protocol=quiet if state.batches else self.protocol)
        return Sums(total=state.total + released.total, batches=state.batches + 1)


def longer(statistic: Statistic, where: Any, times: float) -> Statistic:
    """Some reports made longer behind the domain's back."""
    values = np.array(statistic.values)
    values[where] *= times
    return statistic.domain.sealed(values, clipped=statistic.clipped)


class LongMiddle(Greedy):
    """Reports in the middle of a batch are 20 times too long."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        honest, users = super().report(query, played, coins), len(played.rewards)
        return longer(honest, slice(users // 2 - 1, users // 2 + 1), 20.0) if users == 20 else honest


class LongMiddleQuietLater(LongMiddle, QuietLater):
    """Both: together they separate neighbours by 400 times what is claimed."""


class LongForSome(Greedy):
    """Reports of rewards in [.65, .75] are 50 times too long."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        some = (played.rewards >= 0.65) & (played.rewards <= 0.75)
        return longer(super().report(query, played, coins), some, 50.0)


class LongForClicks(Greedy):
    """Reports of one reward that is usual, such as a click, are 20 times too long."""

    click = 0.0

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        return longer(super().report(query, played, coins), played.rewards == self.click, 20.0)


@pytest.mark.parametrize("click", [-1.0, 0.0, 1.0])
def test_long_reports_of_a_usual_reward_are_found(click: float) -> None:
    row = row_of(type("Long", (LongForClicks,), {"click": click})())
    assert row.refuted
    assert row.confidence == 1
    assert row.lower_bound > gdp.epsilon(1e-3, 5 * gdp.mu(1.0, 1e-3))


@pytest.mark.parametrize(
    ("kind", "times"),
    [(QuietLater, 20), (LongMiddle, 20), (LongMiddleQuietLater, 400), (LongForSome, 20)],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_long_reports_and_small_noise_of_some_users_are_found(kind: type[Greedy], times: int) -> None:
    row = row_of(kind())
    assert row.refuted
    assert row.confidence == 1
    assert row.lower_bound > gdp.epsilon(1e-3, 0.95 * times * gdp.mu(1.0, 1e-3))


class Failing(Greedy):
    """Cannot go on if somebody's reward is in [.3, .35]: everybody sees that."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        if np.any((played.rewards > 0.3) & (played.rewards < 0.35)):
            raise ValueError("a reward that nobody has thought of")
        return super().report(query, played, coins)


class FailingAtOnce(Greedy):
    """Cannot go on if somebody's reward is above .1: the rewards of the world are."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        if np.any(played.rewards > 0.1):
            raise ValueError("a reward that nobody has thought of")
        return super().report(query, played, coins)


class Refusing(Greedy):
    """Cannot go on if somebody's reward is not in [-1, 1]."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        assert np.all(np.abs(played.rewards) <= 1)
        return super().report(query, played, coins)


@pytest.mark.parametrize("kind", [Failing, FailingAtOnce, Refusing])
def test_an_error_for_some_rewards_is_a_refutation(kind: type[Greedy]) -> None:
    row = row_of(kind())
    assert row.refuted
    assert "whether the run goes on differs between neighbours" in row.why
    assert row.lower_bound == np.inf


class Broken(Greedy):
    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        raise ZeroDivisionError("whatever the rewards are")


def test_an_error_for_all_rewards_is_raised() -> None:
    with pytest.raises(ZeroDivisionError, match="whatever the rewards are"):
        row_of(Broken())


class Own:
    def __init__(self, held: Any) -> None:
        self.held = held


class Slotted:
    __slots__ = ("__hidden", "held")

    def __init__(self, held: Any) -> None:
        self.held, self.__hidden = held, held


STATES = {
    "dict": lambda held: {"a": held},
    "set": lambda held: {held, "b"},
    "frozenset of objects": lambda held: frozenset([Own(held), Own("b")]),
    "Fraction": lambda held: Fraction(held, 7),
    "date": lambda held: datetime.date(2026, 1, 1) + datetime.timedelta(days=held),
    "datetime": lambda held: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(days=held),
    "own class": Own,
    "slots": Slotted,
    "nested": lambda held: [Own({"a": (Slotted(held), None)})],
    "large integer": lambda held: 2**70 + held,
    "array of objects": lambda held: np.array([2**70 + held, None, Own(held)], dtype=object),
    "structured array": lambda held: np.array([(1, held)], dtype=np.dtype([("a", "i1"), ("b", "i8")], align=True)),
    "deque": lambda held: deque([held]),
    "Counter": lambda held: Counter({held: 2}),
    "Decimal": Decimal,
    "function": lambda held: lambda: held,
    "generator": np.random.default_rng,
    "mapping that cannot be changed": lambda held: MappingProxyType({"a": held}),
    "pattern": lambda held: re.compile(str(held)),
    "counter": itertools.count,
    "frame of polars": lambda held: pl.DataFrame({"a": [held]}),
}


@dataclass(frozen=True, kw_only=True)
class Noted(Sums):
    note: Any = None


class Noting(Greedy):
    """The state holds something that is made anew in every batch."""

    made: Any = staticmethod(STATES["dict"])

    def noted(self, state: Sums) -> int:
        """What it is made of: the number of batches."""
        return state.batches

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Noted]:
        learned = yield from super().learn(state, episode)
        return Noted(total=learned.total, batches=learned.batches, note=self.made(self.noted(learned)))


class Peeking(Noting):
    """What it is made of is raw: whether the seventh user's reward is above 1/2."""

    def report(self, query: Any, played: Any, coins: Any) -> Statistic:
        object.__setattr__(self, "peeked", int(played.rewards[7 % len(played.rewards)] > 0.5))
        return super().report(query, played, coins)

    def noted(self, state: Sums) -> int:
        return int(vars(self)["peeked"])


@pytest.mark.parametrize("name", STATES)
def test_states_of_any_class_are_compared_by_content(name: str) -> None:
    for kind, refuted in ((Noting, False), (Peeking, True)):
        policy = type(kind.__name__, (kind,), {"made": staticmethod(STATES[name])})()
        row = row_of(policy)
        assert row.refuted == refuted
    assert "the state differs" in row.why
    assert "position 8" in row.why


def test_values_that_cannot_be_compared_are_listed() -> None:
    made = staticmethod(lambda held: hashlib.sha256(bytes([held])))
    row = row_of(type("Digests", (Peeking,), {"made": made})())
    assert not row.refuted
    assert "not what is inside .note" in row.looked_at


class Publishing(Peeking):
    """The state is clean; the snapshot is not."""

    def noted(self, state: Sums) -> int:
        return 0

    def publish(self, state: Sums) -> Any:
        return {"theta": super().publish(state), "note": str(vars(self).get("peeked"))}

    def act(self, snapshot: Any, contexts: Floats, coins: Any) -> Any:
        return super().act(snapshot["theta"], contexts, coins)


def test_a_snapshot_that_holds_raw_data_is_refuted() -> None:
    row = row_of(Publishing())
    assert row.refuted
    assert "the snapshot differs" in row.why


class Restless(Greedy):
    """Draws from a generator of its own that nobody can replay."""

    def learn(self, state: Sums, episode: Any) -> Generator[Any, Any, Sums]:
        learned = yield from super().learn(state, episode)
        return replace(learned, total=learned.total + np.random.default_rng().normal(size=learned.total.shape))


def test_a_policy_whose_runs_cannot_be_repeated_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="With the same rows, coins and answers the state differed"):
        row_of(Restless())


def test_a_verdict_states_the_scope_of_the_audit() -> None:
    row = row_of(Greedy())
    assert not row.refuted
    for words in (
        "rows of 60 users in 3 batches, at every position",
        "rewards from -1 to 1, 0, and 40 and -40 beyond, and random features, and none",
        "errors, queries, states, snapshots, episodes, choices and reports of other users, scales of noise and all "
        "fields of 3 estimates",
        "the noise of batch/position 1/1, 1/11, 2/20, 3/7",
        "runs of batch 1, position 1",
    ):
        assert words in row.looked_at
    assert row.to_dict()["looked_at"] == row.looked_at
    assert str(row).endswith(f" Looked at: {row.looked_at}. Not looked at: {row.not_looked_at}.")
    for name in ("gaussian", "central_gaussian"):
        assert bd.audit.audit(name, trials=1000).rows[0].looked_at
    assert bd.audit.audit("LinUCB-LDP", view="one-run").rows[0].looked_at
    assert bd.audit.audit("LinUCB-JDP-batched", view="snapshot", trials=1000).rows[0].looked_at


def test_rewards_are_from_all_over_their_range() -> None:
    search = LeakSearch(policy=Greedy(), env=WORLD, rounds=60, seed=0)
    rewards = np.concatenate([each.rewards for each in search.crowds[4:]])
    assert np.max(np.diff(np.sort(np.concatenate([[-1.0], rewards, [1.0]])))) < 2 / 50
    assert len(search.places) == 60
    assert next(search.leaks(), None) is None
    assert search.find_suspects() == []


def test_values_are_taken_apart_to_the_last_bit() -> None:
    assert first_difference([0.0], [-0.0]) == "[0]"
    assert first_difference((1,), (1.0,)) == "[0]"
    assert first_difference({"a": 1, "b": 2}, {"b": 2, "a": 1}) is not None
    assert first_difference(np.nan, float("nan")) is None
    assert first_difference(np.zeros(3), np.zeros((3, 1))) == ""
    round_one, round_two = [1], [1]
    round_one.append(round_one)  # type: ignore[arg-type]
    round_two.append(round_two)  # type: ignore[arg-type]
    assert first_difference(round_one, round_two) is None
    assert [token for _, token in take_apart(each for each in ())][-1] == OPAQUE
    assert [each.tolist() for each in list_arrays({"a": (Fraction(1, 2), "text", None), "b": Own([2**80])})] == [
        0.5,
        2.0**80,
    ]
