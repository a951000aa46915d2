"""LinUCB in every trust model: ridge regression on released sums, optimism with a radius that knows the noise.

    V_m = lambda_m I + released Gram,   theta_m = V_m^{-1} released vector,
    action = argmax_x <x, theta_m> + width beta_m |x|_{V_m^{-1}},   one of those that are tied

References: Chowdhury and Zhou 2022 [000], Algorithm 1 and Lemma A.2; Abbasi-Yadkori, Pal and Szepesvari 2011.
Deviations: one stacked report instead of two half budgets, tight noise, radius from the noise law (`confidence`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.coins import Coins, NoCoins
from bandanna.core.domain import Statistic, all_finite, clip_norm
from bandanna.core.estimate import Estimate
from bandanna.core.linalg import favoured, first_best, positive_inverse, upper
from bandanna.core.report import LinearReport, clip_rewards
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Ask, Choice, Floats, Frozen, Ints, Played, RunningSums, pick
from bandanna.policies.linear.confidence import Confidence, PaperConfidence, radii
from bandanna.policies.linear.schedules import FixedBatches, Schedule, best_batch, concurrent_batch
from bandanna.policies.named import algorithm
from bandanna.protocols.channel import Channel, lowest_batch, open_channel
from bandanna.protocols.trust import Privacy, none
from bandanna.theory import contextual
from bandanna.theory.settings import Found, Setting


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """All that a device needs to act: public, because it is computed from releases only. R = replicate axes."""

    theta: Floats  # (*R, d)
    inverse: Floats  # (*R, d, d): V_m^{-1}
    radius: float


@dataclass(frozen=True, kw_only=True)
class Arms:
    """Features of a fixed set of arms, tabulated so that an index is two small products. R = replicate axes."""

    linear: Floats  # (*R, d, K)
    squares: Floats  # (*R, d(d+1)/2, K): x_i x_j, doubled above the diagonal


@dataclass(frozen=True, kw_only=True)
class State:
    """What was released: the sum of the reports of so many batches, and what follows from it. R = replicate axes."""

    total: Floats  # (*R, dim)
    batches: int
    repairs: Ints  # (*R): how often a released matrix had to be made positive definite
    snapshot: Snapshot


_named = partial(algorithm, paper="000", protects="contexts and rewards")
_joint = partial(_named, trust="central", guarantee="joint DP or zCDP")
_local = partial(_named, trust="local", guarantee="local DP or zCDP")
_shuffled = partial(_named, trust="shuffle", guarantee="shuffle DP", defaults={"batch": "paper"})


@_named("LinUCB")
@_joint("LinUCB-JDP", defaults={"batch": 1})
@_joint("LinUCB-JDP-batched", defaults={"batch": "paper"})
@_local("LinUCB-LDP", defaults={"batch": 1})
@_local("LinUCB-LDP-batched", defaults={"batch": "paper"})
@_shuffled("LinUCB-SDP-Amp", spends={"protocol": "gaussian"})
@_shuffled("LinUCB-SDP-Vec", spends={"protocol": "binomial"})
@_named("LinUCB-CSDP", paper="002", trust="concurrent", guarantee="shuffle DP")
@dataclass(frozen=True, kw_only=True)
class LinUCB(RunningSums[State]):
    """Optimistic linear contextual bandit with `dim` features over `horizon` rounds.

    privacy          `bd.none()`, `bd.central(...)`, `bd.local(...)`, `bd.shuffle(...)`, `bd.concurrent(...)`
    batch            users per batch, or a schedule such as `bd.geometric(first=100, ratio=1.3)`, or "paper":
                     T^{3/5} (shuffle; T^{2/3} for returning users), T^{3/4} (local), T^{1/2} (central), or "best":
                     the size with the least regret bound; None: every round, or "paper" in the shuffle model.
                     For concurrent shufflers a batch is the lowest of their tree: "paper" is the counter's, None the
                     one that suits bandits (`schedules.concurrent_batch`)
    failure          probability with which the confidence set may fail
    width            multiplier of the radius: 1 is what the theorem needs, smaller explores less and is what
                     practitioners run (0.2 in `bandanna demo`: up to four times less regret, docs/simulation.md);
                     privacy does not depend on it
    ridge            least regulariser
    parameter_bound  bound on |theta|
    growing          let the regulariser grow with the noise released so far
    confidence       "exact": quantiles of the noise that is added; "paper" or `bd.PaperConfidence(...)`: as printed
    ties             "random": between arms whose index is the largest, in single precision, the device's coins decide,
                     all being equally likely; "first": the first of them. Arms without features of their own are tied
                     until something is known, and a batch that is spent on the first says nothing about the others

    Features are clipped to the unit ball and rewards to [0, 1] before a statistic is formed.
    """

    trusts = ("none", "central", "local", "shuffle", "concurrent")
    player = "frozen"

    dim: int
    horizon: int
    privacy: Privacy = none()
    batch: int | str | Schedule | None = None
    failure: float = 0.05
    width: float = 1.0
    ridge: float = 1.0
    parameter_bound: float = 1.0
    growing: bool = False
    confidence: str | PaperConfidence = "exact"
    ties: str = "random"

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", most=1_000)
        require.store(self, require.whole, "horizon", most=10**20)  # phases of an anytime policy double
        require.store(self, require.chance, "failure", least=1e-100)
        require.store(self, require.moderate, "width", zero=True)
        require.store(self, require.moderate, "ridge", "parameter_bound")
        require.store(self, require.flag, "growing")
        self.check_trust()
        if not isinstance(self.confidence, PaperConfidence):
            require.one_of("confidence", self.confidence, ("exact", "paper"))
        require.one_of("ties", self.ties, ("random", "first"))
        if self.growing and self.confidence != "exact":
            raise InvalidArgument("growing", self.growing, 'False, or confidence="exact"')
        if not isinstance(self.batch, str) or self.batch != "best":  # found when it is needed: it calibrates many sizes
            _ = self.schedule

    @cached_property
    def domain(self) -> LinearReport:
        """Reports of x y and x x^T, y in [0, 1]."""
        return LinearReport(features=self.dim)

    @cached_property
    def _identity(self) -> Floats:
        return np.eye(self.dim)

    @cached_property
    def schedule(self) -> Schedule:
        """When the policy learns."""
        model, batch = self.privacy.model, self.batch
        least = 2 if model in ("shuffle", "concurrent") else 1
        if batch is None and model == "concurrent" and self.privacy.degrees == "best":
            return FixedBatches(size=concurrent_batch(self.horizon, self.privacy.shufflers))
        if batch is None:
            batch = "paper" if least > 1 else 1
        if isinstance(batch, Schedule):
            return batch
        if not isinstance(batch, str):
            size = require.whole("batch", batch, least=least)
            if size > self.horizon:
                raise InvalidArgument("batch", batch, f"at most the horizon, {self.horizon} rounds")
            return FixedBatches(size=size)
        if batch == "best":
            size = best_batch(lambda size: replace(self, batch=size).regret_bound, least=least, most=self.horizon)
            return FixedBatches(size=size)
        if batch == "paper" and model == "concurrent" and self.privacy.noisy:
            return FixedBatches(size=lowest_batch(self.privacy, domain=self.domain, horizon=self.horizon))
        if batch == "paper":
            exponents = {"none": 1 / 2, "central": 1 / 2, "local": 3 / 4, "shuffle": 3 / 5, "concurrent": 1 / 3}
            exponent = 2 / 3 if model == "shuffle" and self.privacy.participations > 1 else exponents[model]
            return FixedBatches(size=min(self.horizon, max(2, round(self.horizon**exponent))))
        raise InvalidArgument("batch", batch, 'a whole number, a schedule, "paper" or "best"')

    @cached_property
    def channel(self) -> Channel:
        """The calibrated protocols for the schedule."""
        sizes = self.schedule.sizes(self.horizon)
        if not len(sizes):
            raise InvalidArgument("batch", self.batch, f"a first batch of at most the horizon, {self.horizon} rounds")
        return open_channel(self.privacy, domain=self.domain, sizes=sizes)

    @cached_property
    def radii(self) -> Confidence:
        """Regulariser and radius after every batch: public, known before the first round."""
        shared: dict[str, Any] = {
            "dim": self.dim,
            "failure": self.failure,
            "ridge": self.ridge,
            "parameter_bound": self.parameter_bound,
        }
        if self.confidence != "exact":
            printed = self.confidence if isinstance(self.confidence, PaperConfidence) else PaperConfidence()
            return printed.radii(self.channel.prefix_std(), self.channel.sizes, **shared)
        return radii(
            self.channel.prefix_std(),
            self.channel.sizes,
            reward_std=0.5,
            independent=self.channel.independent,
            growing=self.growing,
            **shared,
        )

    @property
    def regret_bound(self) -> float:
        """What Lemma A.2 of [000] promises at the horizon, with this radius: the measure of `batch="best"`."""
        largest = max(self.channel.sizes.counts())
        return self.radii.bound(horizon=self.horizon, batch=largest, dim=self.dim, width=self.width)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom."""
        return self.channel.guarantee

    @property
    def bits_per_user(self) -> int:
        """The longest message."""
        return self.channel.bits_per_user

    def phases(self) -> Iterator[LinUCB]:
        """Itself alone."""
        yield self

    def calibrated(self) -> dict[int, Channel]:
        """Its own, if it was needed."""
        return {0: self.channel} if "channel" in vars(self) else {}

    def recalibrate(self, phase: int, channel: Channel) -> None:
        """Where its cached property looks first."""
        vars(self).setdefault("channel", channel)

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """Nothing released yet."""
        total = np.zeros((*replicates, self.domain.dim))
        snapshot, repairs = self.estimate(total, 0)
        return State(total=total, batches=0, repairs=repairs, snapshot=snapshot)

    def episode(self, state: State) -> Frozen | None:
        """The next batch of the schedule, then what is left of the horizon; None when there is nothing left."""
        return self._episode(state.batches)

    def following(self, episode: Frozen) -> Frozen | None:
        """The schedule is public."""
        return self._episode(episode.number + 1)

    def _episode(self, number: int) -> Frozen | None:
        sizes = self.channel.sizes
        if number < len(sizes):
            return Frozen(number=number, users=sizes[number])
        left = self.horizon - sizes.users
        return Frozen(number=number, users=left, released=False) if left and number == len(sizes) else None

    def publish(self, state: State) -> Snapshot:
        """The estimate after the batches so far, and how sure it is."""
        return state.snapshot

    def estimate(self, total: Floats, batches: int) -> tuple[Snapshot, NDArray[np.int64]]:
        """Ridge regression on the released sums (*R, dim) of so many batches, and which matrices were shifted (*R)."""
        vector, gram = self.domain.unpack(total)
        ridge, radius = self.radii.at(batches)
        inverse, repaired = positive_inverse(gram + ridge * self._identity, floor=1e-3 * ridge)  # V_m^{-1}
        theta = (inverse @ np.ascontiguousarray(vector)[..., None])[..., 0]
        return Snapshot(theta=theta, inverse=inverse, radius=self.width * radius), repaired

    def act(self, snapshot: Snapshot, contexts: Floats, coins: Coins) -> Choice:
        """Device: an arm with the largest index; (*R, rounds, K, d) -> (*R, rounds)."""
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is named below
            index = scores(snapshot, clip_norm(contexts, 1.0))
        if not np.isfinite(np.sum(index)):
            all_finite("contexts", contexts)
        return pick(*self._favoured(index), coins)

    def best(self, snapshot: Snapshot, contexts: Floats) -> Ints:
        """The largest <x, theta>."""
        return self.act(replace(snapshot, radius=0.0), contexts, NoCoins()).actions

    def favoured(self, snapshot: Snapshot, arms: Arms) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """Of one tabulated set of arms, those between which coins choose: as `linalg.favoured`, (*R) and (*R, K)."""
        weights = np.ascontiguousarray(snapshot.radius**2 * snapshot.inverse[..., *upper(self.dim)])  # (*R, d(d+1)/2)
        spread = weights[..., None, :] @ arms.squares  # (*R, 1, K): radius^2 x^T V^{-1} x
        np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread)
        spread += snapshot.theta[..., None, :] @ arms.linear
        return self._favoured(spread[..., 0, :])

    def _favoured(self, index: Floats) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        return favoured(index) if self.ties == "random" else (first_best(index), None)

    def tabulate(self, features: Floats) -> Arms:
        """Arms that stay, clipped as in `act`: (*R, K, d)."""
        features = clip_norm(features, 1.0)
        rows, columns = upper(self.dim)
        products = features[..., rows] * features[..., columns] * np.where(rows == columns, 1.0, 2.0)
        linear, squares = (np.ascontiguousarray(np.swapaxes(each, -1, -2)) for each in (features, products))
        return Arms(linear=linear, squares=squares)

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """The report of the arm that was given."""
        assert played.features is not None
        return self.statistic(played.features, played.rewards)

    def statistic(self, features: Floats, rewards: Floats) -> Statistic:
        """Reports (*R, n, dim); those whose features or reward had to be clipped are counted."""
        inside, moved = clip_rewards(rewards)
        return self.domain.statistic(features, inside, moved=moved)

    def learn(self, state: State, episode: Frozen) -> Generator[Ask, Estimate, State]:
        """One batch, by the protocol of its size."""
        return self.learned(state, (yield self.ask(episode)))

    def ask(self, episode: Frozen) -> Ask:
        """For the sum of a batch; of a stream, for that of everybody so far."""
        return Ask(protocol=self.channel.protocols[episode.users])

    def learned(self, state: State, released: Estimate) -> State:
        """The state after one more release; a matrix that noise made indefinite is shifted, counted, reported."""
        total = released.total if self.channel.stream is not None else state.total + released.total
        batches = state.batches + 1
        snapshot, repaired = self.estimate(total, batches)
        used = self._episode(batches) is not None  # after the last round nobody asks for the snapshot
        return State(total=total, batches=batches, repairs=state.repairs + used * repaired, snapshot=snapshot)

    def restored(self, phase: int, total: Floats, batches: int, repairs: Ints) -> State:
        """With the snapshot that follows."""
        return State(total=total, batches=batches, repairs=repairs, snapshot=self.estimate(total, batches)[0])

    def counts(self, state: State) -> dict[str, Ints]:
        """How often a released matrix was shifted."""
        return {"repairs": state.repairs}

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """Lemma A.2 [000] or rates, and what every policy pays."""
        return contextual.of_linucb(setting)

    def prepare(self) -> None:
        """The radii too."""
        _ = self.guarantee, self.radii

    def facts(self) -> dict[str, Any]:
        """The numbers of Lemma A.2 [000]."""
        return {
            "batch": max(self.channel.sizes.counts()),
            "radius": self.width * self.radii.at(len(self.channel.sizes))[1],
            "smallest": self.radii.smallest,
            "participations": self.privacy.participations,
            "shufflers": getattr(self.channel.stream, "shufflers", None),
        }


def scores(snapshot: Snapshot, contexts: Floats) -> Floats:
    """<x, theta> + radius |x|_{V^{-1}} for every arm: (*R, rounds, K, d) -> (*R, rounds, K).

    One product for each round, never one for all of them: nobody's numbers depend on who else is there.
    """
    arms = np.ascontiguousarray(contexts)
    columns = np.concatenate([snapshot.theta[..., None], snapshot.radius**2 * snapshot.inverse], axis=-1)
    projected = arms @ np.ascontiguousarray(columns)[..., None, :, :]  # (*R, rounds, K, 1 + d)
    spread = np.einsum("...i,...i->...", projected[..., 1:], arms)  # radius^2 x^T V^{-1} x
    return np.asarray(projected[..., 0] + np.sqrt(np.maximum(spread, 0.0, out=spread), out=spread))
