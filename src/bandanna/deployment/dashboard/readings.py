"""Readers of publications for each family of policies: rewards, regret and parameters with their noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import VerifiedPublication
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.numeric.rng import NumberedRandomness
from bandanna.policies.base import PlayedRounds, SumQuery
from bandanna.policies.finite.base import FiniteArmedPolicy
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import LDPUCB, PerRoundUCB, UCBEpisodes
from bandanna.policies.linear.lints import LinTS, Posterior
from bandanna.policies.linear.linucb import LinUCB, OptimisticSnapshot
from bandanna.policies.linear.private_rewards import LinTSRewards
from bandanna.protocols.base import BatchProtocol
from bandanna.types import Floats

# Any policy


MOST = 1000  # parameters or arms that are read; a page shows fewer
BRIEF = 60  # of them that are kept for every point of a history


@dataclass(frozen=True, kw_only=True)
class ValueBand:
    """A number with its uncertainty `half`, by default two standard deviations; None if unknown."""

    value: float
    half: float | None

    def plain(self) -> dict[str, float | None]:
        return {"value": finite(self.value), "half": finite(self.half)}


@dataclass(frozen=True, kw_only=True)
class NamedValue:
    """The value of a parameter or an arm."""

    name: str
    band: ValueBand


@dataclass(frozen=True, kw_only=True)
class PublicationReading:
    """The contents of one publication."""

    users: int | None = None  # in all releases
    reward: ValueBand | None = None  # sum of their rewards
    regret: ValueBand | None = None  # against the arm that looks best now
    theta: tuple[NamedValue, ...] = ()  # parameters, or mean rewards of arms
    plays: tuple[NamedValue, ...] = ()  # how often each arm was played
    left: tuple[str, ...] | None = None  # arms that may still be the best, if the policy eliminates arms

    @property
    def brief(self) -> PublicationReading:
        """The reading without parameters and plays if these are too many."""
        many = len(self.theta) + len(self.plays) > BRIEF
        return replace(self, theta=(), plays=()) if many else self


@dataclass(frozen=True, kw_only=True)
class ReadingNotes:
    """Notes on the meaning of numbers, or on missing ones."""

    reward: str = "Not shown: this policy's publications do not hold the sum of rewards."
    regret: str = "Not estimated: this needs the sum of rewards, and arms that are the same for all users."
    theta: str = "As published, without uncertainty."
    plays: str = "Not shown: arms are chosen on devices, and their counts are not released."


class PublicationReader:
    """Read the publications of a task. Sums that no state has are added up over publications."""

    notes = ReadingNotes()
    independent = True  # whether the noise of a difference of two sums is that of the batches between them

    def __init__(self, task: Task) -> None:
        self.task = task
        arms = task.arms
        count = getattr(task.policy, "n_arms", None)
        ids: Sequence[Any] = arms.ids if arms is not None else range(count or 0)
        self.arms = tuple(str(each) for each in ids[:MOST])

    def read(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        """Read a publication, given the one before it if known."""
        users, plays = self.assigned(verified, before)
        theta = self.task.policy._theta(verified.snapshot)
        return PublicationReading(users=users, plays=plays, theta=self.named(theta), left=self._left(verified.state))

    def assigned(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> tuple[int | None, tuple[NamedValue, ...]]:
        """Return the number of users, and how often each arm was assigned, from finished batches."""
        if verified.number == 0:
            return 0, tuple(NamedValue(name=name, band=ValueBand(value=0.0, half=0.0)) for name in self.arms)
        if before is None or before[0].number != verified.number - 1 or before[1].users is None:
            return None, ()
        earlier, known = before
        users, counts = known.users or 0, {each.name: each.band.value for each in known.plays}
        if verified.epoch > earlier.epoch and earlier.batches:
            over = earlier.batches[0]
            users += over.slots
            for arm, times in zip(over.arms, over.plays, strict=True):
                if arm < len(self.arms):
                    counts[self.arms[arm]] = counts.get(self.arms[arm], 0.0) + times
        plays = tuple(
            NamedValue(name=name, band=ValueBand(value=counts[name], half=0.0)) for name in self.arms if name in counts
        )
        return users, plays if any(each.band.value for each in plays) else ()

    def named(self, values: Any, halves: Any = None) -> tuple[NamedValue, ...]:
        """Return parameters (d,) with their uncertainty, by the names of features."""
        if values is None:
            return ()
        flat = np.asarray(values, dtype=float).reshape(-1)[:MOST]
        wide = [None] * len(flat) if halves is None else np.asarray(halves, dtype=float).reshape(-1)[:MOST].tolist()
        names = self.features(len(flat))
        return tuple(
            NamedValue(name=name, band=ValueBand(value=value, half=half))
            for name, value, half in zip(names, flat.tolist(), wide, strict=True)
        )

    def features(self, count: int) -> list[str]:
        schema = self.task.content["schema"]
        known = [str(each) for each in schema["names"]] if schema is not None else []
        return known if len(known) == count else [f"feature {place + 1}" for place in range(count)]

    def _left(self, state: Any) -> tuple[str, ...] | None:
        active = getattr(state, "active", None)
        if active is None:
            return None
        places = np.flatnonzero(active) if np.asarray(active).dtype == bool else np.asarray(active)
        return tuple(self.arms[place] for place in places.tolist() if 0 <= place < len(self.arms))


def finite(value: float | None) -> float | None:
    """Return a finite number or None, since JSON has no others."""
    return float(value) if value is not None and math.isfinite(value) else None


def two_std(variance: Any) -> Any:
    """Return two standard deviations."""
    return 2 * np.sqrt(np.maximum(variance, 0.0))


def band_between(after: ValueBand, before: ValueBand, *, independent: bool) -> ValueBand:
    """Return the difference of two running sums, with the noise between them or at most of both."""
    value = after.value - before.value
    if after.half is None or before.half is None:
        return ValueBand(value=value, half=None)
    if independent:
        return ValueBand(value=value, half=math.sqrt(max(after.half**2 - before.half**2, 0.0)))
    return ValueBand(value=value, half=after.half + before.half)


@dataclass(frozen=True, kw_only=True)
class ArmMeans:
    """Estimated mean rewards of arms, (K,), with their uncertainty."""

    values: Floats
    halves: Floats
    chance: float = 0.5  # standard deviation of one reward


def estimate_regret(users: int, reward: ValueBand, means: ArmMeans) -> ValueBand | None:
    """Return users * (best mean) - (sum of rewards), with the uncertainty of both and of rewards."""
    known = np.isfinite(means.values)
    if not users or not known.any():
        return ValueBand(value=0.0, half=0.0) if not users else None
    best = int(np.argmax(np.where(known, means.values, -np.inf)))
    noise = reward.half or 0.0
    chance = 2 * means.chance * math.sqrt(users)
    half = users * float(means.halves[best]) + math.hypot(noise, chance)
    return ValueBand(value=users * float(means.values[best]) - reward.value, half=half)


# Assigned arms


_REGRET = (
    "An estimate: users times the mean of the arm that looks best now, less the sum of rewards. The band adds the noise"
    " of both and the chance of rewards themselves."
)
_MEANS = "Released mean reward of each arm \u00b1 two standard deviations of the noise and of rewards."
_PLAYS = "Arms are assigned, so these numbers are public and exact."


class _ArmsReader(PublicationReader):
    """The common part of readers of assigned arms."""

    def means(self, values: Floats, variances: Floats) -> ArmMeans:
        """Return means with the largest variance that rewards of this range can have."""
        width = getattr(self.task.policy, "domain").width  # noqa: B009
        return ArmMeans(values=values, halves=two_std(variances), chance=width / 2)

    def listed(self, values: Floats, halves: Floats) -> tuple[NamedValue, ...]:
        return tuple(
            NamedValue(name=name, band=ValueBand(value=float(value), half=float(half)))
            for name, value, half in zip(self.arms, values, halves, strict=False)
            if np.isfinite(value)
        )


class TalliesReader(_ArmsReader):
    """Reader of policies that learn from single users: a state has all arms' sums and pulls."""

    def __init__(self, task: Task, policy: FiniteArmedPolicy[object]) -> None:
        super().__init__(task)
        self._policy = policy
        self._bits = isinstance(policy, LDPUCB | Thompson)  # sums are of rewards as bits
        protocol = policy.query.protocol if isinstance(policy, PerRoundUCB) else None
        width = policy.domain.width if self._bits else 1.0
        self._std = width * protocol.std(1) if isinstance(protocol, BatchProtocol) else 0.0
        self.notes = ReadingNotes(
            reward="Sum of what was released of every arm.", regret=_REGRET, theta=_MEANS, plays=_PLAYS
        )

    def read(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        state, domain = verified.state, self._policy.domain
        pulls = np.asarray(state.pulls, dtype=float)
        sums = pulls * domain.low + domain.width * state.sums if self._bits else np.asarray(state.sums)
        users, played = int(state.rounds), np.maximum(pulls, 1.0)
        reward = ValueBand(value=float(np.sum(sums)), half=float(two_std(self._std**2 * np.sum(pulls))))
        spread = (self._std**2 + domain.width**2 / 4) / played
        means = self.means(np.where(pulls > 0, sums / played, np.nan), spread)
        return PublicationReading(
            users=users,
            reward=reward,
            regret=estimate_regret(users, reward, means),
            theta=self.listed(means.values, means.halves),
            plays=self.listed(pulls, np.zeros_like(pulls)),
        )


class EpisodesReader(_ArmsReader):
    """Reader of policies that forget: a state has each arm's last episode."""

    def __init__(self, task: Task, policy: UCBEpisodes) -> None:
        super().__init__(task)
        self._policy = policy
        reward = "Sums of all episodes as they were released, added up."
        self.notes = ReadingNotes(reward=reward, regret=_REGRET, theta=_MEANS, plays=_PLAYS)

    def read(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        state, width = verified.state, self._policy.domain.width
        lengths = np.asarray(state.lengths)
        shown = np.maximum(lengths, 1)
        noise = np.array([self._policy.protocol.std(int(each)) for each in shown]) / shown
        means = self.means(np.where(lengths > 0, state.estimates, np.nan), noise**2 + width**2 / 4 / shown)
        users, reward = int(state.rounds), self._reward(verified, before)
        return PublicationReading(
            users=users,
            reward=reward,
            regret=None if reward is None else estimate_regret(users, reward, means),
            theta=self.listed(means.values, means.halves),
            plays=self.listed(np.asarray(state.pulls, dtype=float), np.zeros(len(shown))),
        )

    def _reward(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> ValueBand | None:
        if verified.number == 0:
            return ValueBand(value=0.0, half=0.0)
        if before is None or before[0].number != verified.number - 1 or before[1].reward is None:
            return None
        earlier, known = before[0].state, before[1].reward
        state = verified.state
        plays = np.asarray(state.pulls) - np.asarray(earlier.pulls)
        own = float(np.sum(np.where(plays > 0, state.estimates * plays, 0.0)))
        variance = sum(self._policy.protocol.std(int(each)) ** 2 for each in plays if each > 0)
        half = float(np.hypot(known.half or 0.0, two_std(variance)))
        return ValueBand(value=known.value + own, half=half)


# LinTS and LinUCB


_POSTERIOR = "Posterior mean \u00b1 2 standard deviations. Privacy noise is included."
_ARMS = 200  # of which plays are solved for
_NEAR = 1e-9


class LinearReader(PublicationReader):
    """Reader of linear policies. The sum of rewards is known if reports, or fixed arms, have a constant."""

    def __init__(self, task: Task, policy: LinTS | LinUCB) -> None:
        super().__init__(task)
        self._policy = policy
        self._stds = np.append(0.0, policy._channel.prefix_std())
        self._centre = -float(policy._centre_rewards(np.zeros(1))[0][0])
        self.independent = policy._channel.independent
        stay = task.arms is not None and not task.arms.of_users and task.arms.features.shape[1] > 0
        self._rows = (
            policy._domain.clip_features(task.arms.features) if stay and task.arms is not None else None
        )  # (K, d)
        self._constant = solve_constant(self._rows) if not self._own else None
        if isinstance(policy._domain, InterceptReport):
            self._constant = np.eye(policy._domain.features)[-1]
        self.notes = self._reading_notes()

    @property
    def _own(self) -> bool:
        return isinstance(self._policy._domain, PerArmReport)

    def _reading_notes(self) -> ReadingNotes:
        missing = f"Users without a reward count as {self._centre:g}."
        reward = "Not released: reports of this task hold x y and x x^T, which do not determine the sum of rewards."
        if self._own:
            reward = "From the released sums of all arms. Only users with a reward count."
        elif self._constant is not None:
            reward = f"From the released sums. {missing}"
        regret = "Not estimated: the best arm depends on each user's context, which only the device sees."
        if self._rows is not None and self._constant is None:
            regret = "Not estimated: this needs the sum of rewards."
        elif self._rows is not None:
            regret = (
                "An estimate: users times the mean of the arm that looks best now, less the sum of rewards. The band"
                f" adds the noise of both and the chance of rewards themselves. {missing}"
            )
        if isinstance(self._policy, LinTS):
            theta = _POSTERIOR * (self._policy.alpha > 0)
        else:
            sure = f"{100 * (1 - self._policy.failure):g} %"
            theta = f"The estimate \u00b1 the extent of the confidence set that holds theta with probability {sure}."
        return ReadingNotes(
            reward=reward,
            regret=regret,
            theta=theta,
            plays="Estimated from released sums \u00b1 two standard deviations of their noise.",
        )

    def read(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        state = verified.state
        users = int(self._policy._channel.sizes.before(state.batches))
        variance = float(self._stds[state.batches]) ** 2
        vector, matrix = self._policy._domain.sums(state.total, users)
        reward = self._reward(vector, matrix, users, variance)
        root = self._root(verified.snapshot)
        halves = None if root is None else np.asarray(np.sqrt(np.sum(root**2, axis=-1)))
        regret = None
        if reward is not None and self._rows is not None:
            wide = np.full(len(self._rows), np.nan) if root is None else np.linalg.norm(self._rows @ root, axis=-1)
            values = self._rows @ verified.snapshot.theta + self._centre
            chance = float(getattr(self._policy, "reward_std", 0.5))
            regret = estimate_regret(users, reward, ArmMeans(values=values, halves=wide, chance=chance))
        return PublicationReading(
            users=users,
            reward=reward,
            regret=regret,
            theta=self.named(self._policy._theta(verified.snapshot), halves),
            plays=self._plays(matrix, variance),
        )

    def _reward(self, vector: Floats, matrix: Floats, users: int, variance: float) -> ValueBand | None:
        noise, counts = self._policy._domain.variances
        if self._own:
            value = float(np.sum(vector[:, -1] + self._centre * matrix[:, -1, -1]))
            spread = len(vector) * (noise[-1] + self._centre**2 * counts[-1, -1])
        elif self._constant is not None:
            value = float(self._constant @ vector) + self._centre * users
            spread = self._constant**2 @ noise
        else:
            return None
        return ValueBand(value=value, half=float(two_std(variance * spread)))

    def _root(self, snapshot: Any) -> Floats | None:
        """Return M such that M M^T is the squared uncertainty of theta, (..., d, d)."""
        if isinstance(snapshot, Posterior):
            alpha = self._policy.alpha if isinstance(self._policy, LinTS) else 0.0
            return 2 * snapshot.root / alpha if alpha > 0 else None
        if isinstance(snapshot, OptimisticSnapshot) and isinstance(self._policy, LinUCB) and self._policy.width > 0:
            values, vectors = np.linalg.eigh(snapshot.inverse)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            return np.asarray(root * (snapshot.radius / self._policy.width))
        return None

    def features(self, count: int) -> list[str]:
        arms = len(self.arms) if self._own else 1
        each = count // max(arms, 1)
        known = super().features(each - 1) if self._own else super().features(each)
        names = [*known, "constant"] if self._own else known
        if isinstance(self._policy._domain, InterceptReport):
            names = [*names[:-1], "constant" if names[-1].startswith("feature ") else names[-1]]
        if not self._own:
            return names
        return [f"{arm}: {name}" for arm in self.arms for name in names][:count]

    def _plays(self, matrix: Floats, variance: float) -> tuple[NamedValue, ...]:
        _, noise = self._policy._domain.variances
        if self._own:
            values, spreads = matrix[:, -1, -1], np.full(len(matrix), noise[-1, -1])
        elif self._solved is not None:
            solve, unit = self._solved
            upper = np.triu_indices(len(matrix))
            values, spreads = solve @ matrix[upper], unit
        else:
            return ()
        halves = two_std(variance * spreads)
        return tuple(
            NamedValue(name=name, band=ValueBand(value=float(value), half=float(half)))
            for name, value, half in zip(self.arms, values, halves, strict=False)
        )

    @cached_property
    def _solved(self) -> tuple[Floats, Floats] | None:
        """The matrix (K, entries) that maps sum x x^T to counts of arms, and their variances; None if not unique."""
        rows = self._rows
        if rows is None or len(rows) > _ARMS:
            return None
        _, noise = self._policy._domain.variances
        upper = np.triu_indices(rows.shape[1])
        squares = (rows[:, :, None] * rows[:, None, :])[:, upper[0], upper[1]].T  # (entries, K)
        spread = noise[upper]
        sure = np.maximum(spread, _NEAR * spread.max())  # the number of users has no noise
        design = squares / np.sqrt(sure)[:, None]
        if np.linalg.matrix_rank(design, tol=1e-6 * np.linalg.norm(design, 2)) < len(rows):
            return None
        solve = np.linalg.pinv(design) / np.sqrt(sure)
        return solve, np.asarray(solve**2 @ spread)


def solve_constant(rows: Floats | None) -> Floats | None:
    """Return w (d,) with <w, x> = 1 for every arm (K, d), or None."""
    if rows is None:
        return None
    found: Floats = np.asarray(np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0], dtype=np.float64)
    return found if np.max(np.abs(rows @ found - 1)) < _NEAR else None


# LinTS that protects rewards alone


class RewardsReader(PublicationReader):
    """Reader of LinTSRewards; a report of known features and reward 1 shows the weights."""

    def __init__(self, task: Task, policy: LinTSRewards) -> None:
        super().__init__(task)
        self._policy = policy
        self._stds = np.append(0.0, policy._channel.prefix_std())
        self.independent = policy._channel.independent
        protocol = next(iter(policy._channel.protocols.values()))
        features = np.full(policy.dim, (policy.dim - policy.intercept or 1) ** -0.5)
        features[-1] = 1.0 if policy.intercept else features[-1]
        self._weights = 2 * self._report(SumQuery(protocol=protocol), features) / features  # (d,)
        self._rows = None if task.arms is None else policy.clip_features(task.arms.features[None])[0]  # (K, d)
        self._constant = np.eye(policy.dim)[-1] if policy.intercept else solve_constant(self._rows)
        self.notes = ReadingNotes(
            reward="From the released sum. Only users with a reward count; their number is public in this task."
            if self._constant is not None
            else "Not released: features have no constant in their span, so the sum of rewards is not determined.",
            regret=(
                "An estimate: users with a reward times the mean of the arm that looks best now, less the sum of"
                " rewards. The band adds the noise of both and the chance of rewards themselves."
            )
            if self._constant is not None and self._rows is not None
            else "Not estimated: the best arm depends on each user's context.",
            theta=_POSTERIOR,
        )

    def _report(self, query: SumQuery, features: Floats) -> Floats:
        played = PlayedRounds(features=features[None], rewards=np.ones(1))
        return np.asarray(self._policy.report(query, played, NumberedRandomness(0, 0)).values[0])

    def read(
        self, verified: VerifiedPublication, before: tuple[VerifiedPublication, PublicationReading] | None
    ) -> PublicationReading:
        state, policy = verified.state, self._policy
        users = int(policy._channel.sizes.before(state.batches))
        reward = regret = None
        if self._constant is not None:
            count = self._answered(state.public)
            value = self._constant @ (state.released / self._weights) + count / 2
            spread = float(self._stds[state.batches]) ** 2 * np.sum((self._constant / self._weights) ** 2)
            reward = ValueBand(value=float(value), half=float(two_std(spread)))
            if self._rows is not None and policy.alpha > 0:
                root = 2 * verified.snapshot.root / policy.alpha
                values = self._rows @ policy._theta(verified.snapshot)
                means = ArmMeans(
                    values=values, halves=np.linalg.norm(self._rows @ root, axis=-1), chance=policy.reward_std
                )
                regret = estimate_regret(round(count), reward, means)
        halves = None
        if policy.alpha > 0:
            halves = two_std(np.sum(verified.snapshot.root**2, axis=-1)) / policy.alpha
        theta = self.named(policy._theta(verified.snapshot), halves)
        return PublicationReading(users=users, reward=reward, regret=regret, theta=theta)

    def _answered(self, public: Floats) -> float:
        """Return w^T (sum x x^T) w with the scale of features in a report undone."""
        assert self._constant is not None
        domain = self._policy.public.protocol.domain
        assert isinstance(domain, LinearReport)
        alone = self._report(self._policy.public, np.eye(self._policy.dim)[-1])
        scale = float(domain.unpack(alone)[1][-1, -1])
        return float(self._constant @ (domain.unpack(public)[1] / scale) @ self._constant)


# The reader of a task


def reader_for(task: Task) -> PublicationReader:
    """Return the reader for the task's policy."""
    policy = task.policy
    if isinstance(policy, LinTS | LinUCB):
        return LinearReader(task, policy)
    if isinstance(policy, LinTSRewards):
        return RewardsReader(task, policy)
    if isinstance(policy, UCBEpisodes):
        return EpisodesReader(task, policy)
    if isinstance(policy, PerRoundUCB | Thompson) and isinstance(policy, FiniteArmedPolicy):
        return TalliesReader(task, policy)
    return PublicationReader(task)
