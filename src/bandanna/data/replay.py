"""Replay of a policy on logged events, and release of a warm start from a log.

Rejection (Li, Chu, Langford and Schapire 2010): where the policy chooses the logged arm, its reward is known; other
events are rejected. Arms that were logged with higher probability are rejected in proportion, so that accepted events
have the distribution of a run of the policy. A batch counts logged events, and a rejected user reports zeros with full
noise: one more accepted user must not move later users into other batches.

The weighted method rejects no event: the policy is valued by the weight pi / p of the logged arm.
"""

from __future__ import annotations

import math
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.logs import Log
from bandanna.data.tables import make_frame
from bandanna.device.action_selection import Choice
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise
from bandanna.errors import ClippingWarning, InvalidArgument, ValueSummary
from bandanna.numeric.rng import GeneratorRandomness, NumberedRandomness, Streams
from bandanna.policies.base import (
    AssignedArms,
    FixedLength,
    PlayedRounds,
    Policy,
    PublicStoppingPolicy,
    StoppedByPublicData,
)
from bandanna.policies.linear.base import WarmStart
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.comparison import release_recorded
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.simulation.players.reference import QueryAnswerer
from bandanna.types import Bools, Floats, Ints
from bandanna.validation import checked_keywords


@dataclass(frozen=True, kw_only=True)
class Replay:
    """Rewards of a policy on logged events, in S seeds.

    Parameters
    ----------
    rewards
        Sums of accepted or weighted rewards, (S,).
    weight
        Number of accepted events, or their total weight, (S,).
    events
        Logged events used in each seed.
    guarantee
        The policy's guarantee in a real run. The numbers here are computed from raw rows and have no guarantee.
    """

    method: str
    rewards: Floats
    weight: Floats
    events: int
    releases: int
    clipped: Ints  # (S,)
    guarantee: Guarantee
    seconds: float
    seeds: tuple[int, ...]
    name: str = ""

    @property
    def n_seeds(self) -> int:
        return len(self.seeds)

    @property
    def means(self) -> Floats:
        """The mean reward of a round, (S,); NaN where nothing was accepted."""
        none = np.full(self.rewards.shape, math.nan)
        return np.asarray(np.divide(self.rewards, self.weight, out=none, where=self.weight > 0))

    @property
    def mean_reward(self) -> float:
        """The mean of `means` over seeds."""
        return float(np.mean(self.means))

    @property
    def stderr(self) -> float:
        """The standard error of `mean_reward` over seeds, without the log's sampling error; NaN for one seed."""
        return float(np.std(self.means, ddof=1) / math.sqrt(self.n_seeds)) if self.n_seeds > 1 else math.nan

    def named(self, name: str) -> Replay:
        return replace(self, name=name)

    def summary(self, *, kind: str = "pandas") -> Any:
        """Return a frame with one row, with epsilon and delta of the guarantee.

        Parameters
        ----------
        kind
            "pandas", "polars" or "arrow"; needs that library.
        """
        row = {name: value for name, value in self.to_dict().items() if name != "guarantee"}
        row |= {name: getattr(self.guarantee, name) for name in ("trust", "epsilon", "delta")}
        return make_frame({name: [value] for name, value in row.items()}, kind, f"summary(kind={kind!r})")

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; what is unknown is None."""
        numbers = {"mean_reward": self.mean_reward, "stderr": self.stderr, "accepted": float(np.mean(self.weight))}
        return {
            "name": self.name,
            "method": self.method,
            **{name: value if math.isfinite(value) else None for name, value in numbers.items()},
            "n_seeds": self.n_seeds,
            "events": self.events,
            "releases": self.releases,
            "clipped": int(np.sum(self.clipped)),
            "seconds": self.seconds,
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        spread = "" if self.n_seeds == 1 else f" ± {self.stderr:.4f}"
        seeds = "one seed" if self.n_seeds == 1 else f"mean ± standard error of {self.n_seeds:,} seeds"
        used = "accepted" if self.method == "rejection" else "their weight"
        promise = self.guarantee.promise()
        return (
            f"{self.name or self.guarantee.trust}: reward {self.mean_reward:.4f}{spread} ({seeds}) on {self.events:,} "
            f"logged events, {np.mean(self.weight):,.1f} {used}; {self.releases:,} releases, {self.seconds:.3g} s.\n"
            f"{promise} These numbers are computed from raw rows, and promise nothing."
        )


# Coins of devices


class SlotRandomness(GeneratorRandomness):
    """Random numbers of one episode of one seed: a generator for every purpose, and a place in its draws for every
    slot.

    A slot's numbers depend on no other slot, so replacing one user changes no other user's numbers.
    """

    def __init__(self, seed: int, episode: int) -> None:
        self._seed, self._episode = seed, episode
        self._generators: dict[str, np.random.Generator] = {}

        def named(name: str) -> np.random.Generator:
            if name not in self._generators:
                key = (zlib.crc32(f"replay {name}".encode()), episode)
                sequence = np.random.SeedSequence(seed, spawn_key=key)
                self._generators[name] = np.random.Generator(np.random.SFC64(sequence))
            return self._generators[name]

        super().__init__(named)

    def among(self, wanted: Bools, name: str) -> Floats:
        return np.asarray(np.where(wanted, self.uniform(wanted.shape, name), 0.0))

    def at(self, rows: Ints, slots: int) -> SlotRandomness:
        """Return the randomness of `rows` among `slots` slots, as if all slots drew."""
        return _SomeSlots(self._seed, self._episode, rows, slots)


class _SomeSlots(SlotRandomness):
    def __init__(self, seed: int, episode: int, rows: Ints, slots: int) -> None:
        super().__init__(seed, episode)
        self._rows, self._slots = rows, slots

    def uniform(self, shape: tuple[int, ...], name: str) -> Floats:
        return super().uniform((self._slots, *shape[1:]), name)[self._rows]

    def normal(self, shape: tuple[int, ...], name: str) -> Floats:
        return super().normal((self._slots, *shape[1:]), name)[self._rows]


# What a policy sees, and its probabilities


_DRAWS, _MOST = 64, 1024  # of a policy that does not state all probabilities: every arm of a tie of as many is seen
_PART = 1024  # events whose probabilities are computed at once


@dataclass(frozen=True, kw_only=True)
class ReplayView:
    """Some events as a policy sees them: features of every arm, and which arms could be given."""

    contexts: Floats  # (n, K, d)
    eligible: Bools | None  # (n, K)

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        n, arms = self.contexts.shape[:2]
        if self.eligible is None:
            yield np.arange(n), np.arange(arms)
            return
        patterns, which = np.unique(self.eligible, axis=0, return_inverse=True)
        for place, pattern in enumerate(patterns):
            yield np.flatnonzero(which.ravel() == place), np.flatnonzero(pattern)

    def act(self, policy: Policy[Any], snapshot: Any, coins: SlotRandomness) -> Choice:
        """Choose an eligible arm for every event, with its probability.

        Each slot has its own coins, so one user's eligible arms change no other user's choice.
        """
        n = len(self.contexts)
        actions, chances = np.zeros(n, dtype=np.int64), np.ones(n)
        groups: Ints | None = None
        for rows, arms in self.groups():
            own = coins if self.eligible is None else coins.at(rows, n)
            choice = policy.act(snapshot, policy.clip_features(self.contexts[np.ix_(rows, arms)]), own)
            actions[rows] = arms[choice.actions]
            if not hasattr(policy, "probabilities"):  # policies with that method are queried on request
                chances[rows] = choice.probabilities
            if choice.groups is not None:
                groups = np.zeros(n, dtype=np.int64) if groups is None else groups
                groups[rows] = choice.groups
        return Choice(actions=actions, probabilities=chances, groups=groups)


def view_log(policy: Policy[Any], log: Log, part: slice) -> ReplayView:
    """Return a view with the log's features, or with arms without features."""
    contexts = log.arm_contexts()[part]
    if not hasattr(policy, "dim"):
        contexts = np.zeros((*contexts.shape[:2], 0))
    return ReplayView(
        contexts=np.ascontiguousarray(contexts), eligible=None if log.eligible is None else log.eligible[part]
    )


def check_log_fits(policy: Policy[Any], log: Log) -> None:
    """Refuse a log with other arms or features than the policy has."""
    wanted = getattr(policy, "n_arms", None)
    if wanted is not None and wanted != log.n_arms:
        raise InvalidArgument("log", ValueSummary(f"{log.n_arms} arms"), f"a log with the policy's {wanted} arms")
    dim = getattr(policy, "dim", None)
    if dim is not None and dim != log.dim:
        raise InvalidArgument("log", ValueSummary(f"{log.dim} features"), f"a log with the policy's {dim} features")
    if wanted is not None and log.eligible is not None:
        allowed = "a log in which all arms are eligible, because this policy may play any of its numbered arms"
        raise InvalidArgument("log", ValueSummary("eligible arms for each event"), allowed)
    if wanted is None and dim is not None and log.of_users:
        hint = "For features of users, create the policy with n_arms and features."
        raise InvalidArgument("log", ValueSummary("features of users"), "a log with features of arms", hint)


def action_probabilities(policy: Policy[Any], snapshot: Any, shown: ReplayView, arms: Ints, choice: Choice) -> Floats:
    """Return the probability with which the policy gives these arms, (n,).

    It is the stated probability, else 1 or 0 by the policy's own draw, which has the same mean.
    """
    if not hasattr(policy, "probabilities"):
        return np.asarray(choice.actions == arms, dtype=float)
    chances = np.zeros(len(arms))
    for rows, able in shown.groups():
        place = np.searchsorted(able, arms[rows])
        chances[rows] = policy.probabilities(snapshot, policy.clip_features(shown.contexts[np.ix_(rows, able)]), place)[
            0
        ]
    return np.clip(chances, 0.0, 1.0)


def all_action_probabilities(
    policy: Policy[Any], snapshot: Any, log: Log, progress: Callable[[int, int, str], None] | None = None
) -> Floats:
    """Return the probability with which the policy gives every arm, (n, K); rows add up to 1.

    If the policy does not state all, choices with their stated probabilities are drawn until they add up to 1: exact
    for one arm, or up to 1,024 tied arms. `progress` is called with events done, events, and a text.
    """
    found = np.zeros((len(log), log.n_arms))
    for begin in range(0, len(log), _PART):
        shown = view_log(policy, log, slice(begin, begin + _PART))
        for rows, able in shown.groups():
            contexts = policy.clip_features(shown.contexts[np.ix_(rows, able)])
            stated = _stated_probabilities(policy, snapshot, contexts) if hasattr(policy, "probabilities") else None
            part = _estimated_probabilities(policy, snapshot, contexts) if stated is None else stated
            found[np.ix_(begin + rows, able)] = part
        if progress is not None:
            progress(min(begin + _PART, len(log)), len(log), type(policy).__name__)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _stated_probabilities(policy: Any, snapshot: Any, contexts: Floats) -> Floats:
    n, arms = contexts.shape[:2]
    columns = [policy.probabilities(snapshot, contexts, np.full(n, k))[0] for k in range(arms)]
    return np.asarray(np.clip(np.stack(columns, axis=1), 0.0, 1.0))


def _estimated_probabilities(policy: Policy[Any], snapshot: Any, contexts: Floats) -> Floats:
    n, arms = contexts.shape[:2]
    chances, rows = np.zeros((n, arms)), np.arange(n)
    for draw in range(min(max(_DRAWS, 1 << (arms - 1).bit_length()), _MOST)):
        some = policy.act(snapshot, contexts[rows], _SharedRandomness(draw))
        chances[rows, some.actions] = some.probabilities
        rows = rows[chances[rows].sum(axis=1) < 1 - 1e-9]
        if not len(rows):
            break
    return chances


class _SharedRandomness(NumberedRandomness):
    """The same random numbers for all users, so that a user's weight does not depend on the other users in the log.

    Ties follow van der Corput's sequence, so that 2^k draws reach every arm of a tie of 2^k.
    """

    def __init__(self, draw: int) -> None:
        super().__init__(draw, 0)
        self._share = sum(2.0 ** -(bit + 1) for bit in range(draw.bit_length()) if draw >> bit & 1)

    def _of(self, device: int) -> GeneratorRandomness:
        return super()._of(0)

    def below(self, counts: Ints) -> Ints:
        return np.asarray(self._share * counts, dtype=np.int64)


# Replay


_MOST_SEEDS = 100_000
_METHODS = ("rejection", "weighted")


@checked_keywords("bd.replay")
def replay(
    policy: Policy[Any],
    log: Log,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    method: str = "rejection",
    path: str = "law",
    horizon: int | None = None,
    shuffled: bool = True,
) -> Replay:
    """Run a policy on logged events and return what it earns.

    Parameters
    ----------
    policy : Policy
        The policy.
    log : Log
        The events.
    n_seeds, seed : int
        Number of seeds, and the first one.
    method : {"rejection", "weighted"}
        "rejection" is unbiased, "weighted" uses every event.
    path : {"law", "messages"}
        As in `bd.simulate`. Noise is seeded, and results are computed from raw rows; `bd.ope` makes private estimates.
    horizon : int, optional
        Logged events to use; by default the policy's horizon, at most all events.
    shuffled : bool
        Whether every seed has its own order of events.

    Returns
    -------
    Replay
        Rewards of all seeds.
    """
    validation.instance("policy", policy, Policy, "a Policy: bd.LinTS(...), bd.make(...), or your own")
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    validation.one_of("method", method, _METHODS)
    validation.one_of("path", path, ("law", "messages"))
    policy = policy.with_arms(log.n_arms)
    check_log_fits(policy, log)
    events = _count_events(policy, log, horizon)
    began = time.perf_counter()
    first = validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
    seeds = range(first, first + validation.integer("n_seeds", n_seeds, most=_MOST_SEEDS))
    runs = [
        _ReplayRun(policy, log, each, method, path, events, validation.boolean("shuffled", shuffled)) for each in seeds
    ]
    for run in runs:
        run.go()
    clipped = np.array([int(run.answers.clipped) for run in runs], dtype=np.int64)
    reports = sum(run.reports for run in runs)
    if reports and (warning := ClippingWarning.of(int(clipped.sum()), reports)):
        warnings.warn(warning, stacklevel=3)
    return Replay(
        method=method,
        rewards=np.array([run.earned for run in runs]),
        weight=np.array([run.weight for run in runs]),
        events=events,
        releases=max(run.releases for run in runs),
        clipped=clipped,
        guarantee=_guarantee_of_replay(policy, any(run.counted for run in runs)),
        seconds=time.perf_counter() - began,
        seeds=tuple(seeds),
    )


def _count_events(policy: Policy[Any], log: Log, horizon: int | None) -> int:
    wanted = policy.horizon if horizon is None else validation.integer("horizon", horizon)
    if wanted is None:
        return len(log)
    if wanted > len(log):
        allowed = f"at most {len(log):,}, the number of events in the log"
        raise InvalidArgument("horizon", wanted, allowed)
    if policy.horizon is not None and wanted > policy.horizon:
        raise InvalidArgument("horizon", wanted, f"at most the policy's horizon, {policy.horizon}")
    return wanted


class _ReplayRun:
    """One seed of a replay."""

    def __init__(
        self, policy: Policy[Any], log: Log, seed: int, method: str, path: str, events: int, shuffled: bool
    ) -> None:
        own = Streams([seed])
        order = own.generators("order")[0].permutation(len(log)) if shuffled else np.arange(len(log))
        self.policy, self.log, self.seed, self.method = policy, log.at(order[:events]), seed, method
        self.keeping = _acceptable_events(policy, self.log, own)
        low, high = self.range = getattr(policy, "reward_range", (0.0, 1.0))
        self.scaled = low + (high - low) * self.log.scaled_rewards()  # rewards as the policy takes them
        names = policy.execution.noise_stream, policy.execution.stream_noise or policy.execution.noise_stream
        noise, stream = (FastNoise(own.generators(name)[0]) for name in names)
        self.coins = SlotRandomness(seed, 0)
        self.answers = QueryAnswerer(policy, noise, self.coins, path, stream=stream)
        self.events, self.done, self.episodes = events, 0, 0
        self.releases, self.reports, self.earned, self.weight = 0, 0, 0.0, 0.0
        self.counted = False  # accepted events, instead of slots
        self.state = policy.init(_fixed_arm_features(policy, log))

    def go(self) -> None:
        while self.done < self.events and (episode := self.policy.episode(self.state)) is not None:
            self.coins = self.answers.coins = SlotRandomness(self.seed, self.episodes)
            self.episodes += 1
            if isinstance(episode, FixedLength) and hasattr(self.policy, "dim"):
                rows, ended = self._slots(episode)
            else:
                rows, ended = self._play_accepted(episode)
                self.counted = True
            if ended and episode.released:
                self.state = self.answers.learn(self.state, episode, rows)
                self.releases, self.reports = self.releases + 1, self.reports + rows.rewards.shape[-1]

    def _slots(self, episode: FixedLength) -> tuple[PlayedRounds, bool]:
        users = min(episode.users, self.events - self.done)
        shown = view_log(self.policy, self.log, slice(self.done, self.done + users))
        snapshot, given = self.policy.publish(self.state), self.log.arms[self.done : self.done + users]
        choice = shown.act(self.policy, snapshot, self.coins)
        if self.method == "weighted":
            chances = action_probabilities(self.policy, snapshot, shown, given, choice)
            self._note(chances / self.log.propensities[self.done : self.done + users])
            accepted: Bools = np.ones(users, dtype=bool)
        else:
            accepted = (choice.actions == given) & self.keeping[self.done : self.done + users]
            self._note(accepted.astype(float))
        arms = given if self.method == "weighted" else choice.actions
        rows = self._played(shown, arms, accepted, choice.groups)
        self.done += users
        return rows, users == episode.users

    def _played(self, shown: ReplayView, arms: Ints, accepted: Bools, groups: Ints | None) -> PlayedRounds:
        """Return rows as an agent has them; a user without an answer has features 0 and the reward nearest to 0."""
        part = slice(self.done, self.done + len(arms))
        low, high = self.range
        nothing = float(min(max(0.0, low), high))
        features = np.take_along_axis(shown.contexts, arms[:, None, None], axis=1)[:, 0]
        later = (
            self.policy.execution.retained_groups or self.policy.execution.has_several_queries
        )  # kept rows mark a missing reward by zeros
        return PlayedRounds(
            rewards=np.where(accepted, self.scaled[part], nothing),
            features=np.where(accepted[:, None], features, 0.0),
            arms=arms,
            groups=groups,
            answered=None if later or accepted.all() else accepted,
        )

    def _play_accepted(self, episode: Any) -> tuple[PlayedRounds, bool]:
        if self.method == "weighted" or getattr(episode, "clients", None) is not None:
            allowed = "a policy whose devices choose by contexts, for method='weighted'"
            raise InvalidArgument("policy", type(self.policy).__name__, allowed)
        parts: list[PlayedRounds] = []
        wanted = episode.users
        while self.done < self.events and len(parts) < wanted:
            if (row := self._one(episode, len(parts))) is None:
                continue
            parts.append(row)
            if isinstance(episode, StoppedByPublicData):
                assert row.features is not None
                assert isinstance(self.policy, PublicStoppingPolicy)
                ended = self.policy.stopping_round(self.state, row.features) is not None
                self.state = self.policy.advance_public(self.state, row.features)
                if ended:
                    return PlayedRounds.joined(parts), True
        whole = len(parts) == wanted and not isinstance(episode, StoppedByPublicData)
        return (PlayedRounds.joined(parts) if parts else PlayedRounds(rewards=np.zeros(0))), whole

    def _one(self, episode: Any, place: int) -> PlayedRounds | None:
        here = self.done
        shown, given = view_log(self.policy, self.log, slice(here, here + 1)), self.log.arms[here : here + 1]
        if isinstance(episode, AssignedArms):
            arms, groups = episode.arms_at(np.array([place])), None
        else:
            choice = shown.act(self.policy, self.policy.publish(self.state), self.coins)
            arms, groups = choice.actions, choice.groups
        accepted: Bools = (arms == given) & self.keeping[here : here + 1]
        self._note(accepted.astype(float))
        row = self._played(shown, arms, accepted, groups) if accepted[0] else None
        self.done += 1
        return row

    def _note(self, weights: Floats) -> None:
        self.earned += float(weights @ self.log.rewards[self.done : self.done + len(weights)])
        self.weight += float(weights.sum())


def _guarantee_of_replay(policy: Policy[Any], counted: bool) -> Guarantee:
    """Return the policy's guarantee; if accepted events were counted, for users whose reward alone is private."""
    stated = policy.guarantee
    if not counted or not policy.privacy.noisy:
        return stated
    public = ("everybody", "every logged arm and its probability")
    return replace(stated, adjacency="replacement of one user's reward", observers=(*stated.observers, public))


def _acceptable_events(policy: Policy[Any], log: Log, streams: Streams) -> Bools:
    """Draw which events may be accepted, (n,), with probability floor / p."""
    floor = log.floor
    if floor is None:
        floor = float(log.propensities.min())
        if policy.privacy.noisy and not np.all(log.propensities == floor):
            hint = "Pass it (floor=0.1, --floor 0.1). A minimum found in the log would not be private."
            raise InvalidArgument("log.floor", None, "the least probability of any arm, by design", hint)
    return np.asarray(streams.uniform("acceptance", (len(log),))[0] * log.propensities < floor * (1 + 1e-9))


def _fixed_arm_features(policy: Policy[Any], log: Log) -> Floats | None:
    if getattr(policy, "n_arms", None) is not None:
        return np.zeros((log.n_arms, int(getattr(policy, "dim", 0))))
    return log.contexts[0] if not log.of_users and np.all(log.contexts == log.contexts[:1]) else None


# Warm start


_TASK = "warm start"  # in a ledger of the users in the log


def sum_for_warm_start(
    log: Log,
    policy: Any,
    *,
    privacy: Any = None,
    arms: Sequence[Any] | None = None,
    seed: Any = None,
    ledger: Ledger | None = None,
) -> WarmStart:
    """Release the sum of the reports that all users in the log would have made.

    The users in the log pay for it once; `privacy` is by default the log's budget, else the policy's. The sum is then
    public and part of the policy (`LinTS(start=)`), which accounts for its noise. A user of the policy who is also in
    the log pays for both. With a `ledger`, a second call returns the stored sum. Seeded noise protects nobody.
    """
    allowed = "a bd.LinTS, which accounts for the noise of its start"
    validation.instance("policy", policy, Policy, allowed)
    if not hasattr(policy, "start"):
        raise InvalidArgument("policy", type(policy).__name__, allowed)
    policy = policy.with_arms(log.n_arms)
    if arms is not None and getattr(policy, "n_arms", None) is not None:
        log = log.ordered(arms)
    check_log_fits(policy, log)
    trust = (log.privacy or policy.privacy) if privacy is None else privacy
    if not isinstance(trust, Privacy) or trust.model == "concurrent":
        allowed = "bd.none(), bd.central(...), bd.shuffle(...) or bd.local(...)"
        raise InvalidArgument("privacy", getattr(trust, "model", trust), allowed)
    if trust.noisy:
        log.check_private()
    features = log.arm_contexts()[np.arange(len(log)), log.arms]
    statistic = policy._form_statistic(features, log.scaled_rewards(), log.arms)
    protocol = protocol_for(trust.with_default_protocol("auto"), statistic.domain, len(log))
    if ledger is not None and log.ledger is not None and ledger is not log.ledger:
        raise InvalidArgument(
            "ledger", ValueSummary("another one"), "left out, because the log has a budget of its own"
        )
    if trust.noisy and log.ledger is not None:
        task = _TASK if seed is None else f"seed {seed}: {_TASK}"
        query = repr((policy, statistic.domain))
        released = log.release(protocol, statistic, _source(seed), task=task, query=query)
    else:
        released = release_recorded(protocol, statistic, _source(seed), ledger=ledger, task=_TASK)
    promised = protocol.guarantee
    return WarmStart(
        total=tuple(released.total.tolist()),
        users=len(log),
        variance=released.variance,
        epsilon=promised.epsilon,
        delta=promised.delta,
        trust=promised.trust,
    )


def _source(seed: Any) -> NoiseSource:
    if seed is None:
        return SecureNoise()
    number = validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
    return FastNoise(np.random.default_rng((number, 17)))  # another stream than the agent's own
