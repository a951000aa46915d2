"""Answers to queries: decoded shares, charges, and the trusted server's own sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna.deployment.messages.batch_plan import Part
from bandanna.deployment.messages.canonical import ENCAPSULATION, Opener, decode_base64url
from bandanna.device.domain import Estimate, Statistic, check_all_finite
from bandanna.device.noise import NoiseSource
from bandanna.errors import BandannaError, InvalidStatistic, ValueSummary
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies.base import (
    AssignedArms,
    Episode,
    PlayedRounds,
    Policy,
    RunnerState,
    SumQuery,
    drive_learning,
    form_reports,
    ledger_key,
)
from bandanna.privacy.events import CompositionEvent
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.concurrent_shuffle import LevelMixer
from bandanna.protocols.factory import make_mixer_encoding, mix_messages
from bandanna.protocols.mixers import FullBatches, Mixer, MixerState, SummingMixer
from bandanna.storage.encoding import matches_type
from bandanna.types import Ints

# Answers


_LARGEST = 1e100  # of a number in a row: its square is one too
_INDEX = 2**31  # no arm or group has so large a number


@dataclass(frozen=True, kw_only=True)
class LedgerCharge:
    """An answered query, and the data that it was answered from."""

    query: SumQuery
    data: bytes


def charge_ledger(ledger: Ledger | None, charges: Sequence[LedgerCharge], *, task: str, batch: str) -> None:
    """Pay for queries before an answer is visible. Queries about the same users are one composed entry."""
    if ledger is None:
        return
    together: dict[tuple[str, str, str | None], list[LedgerCharge]] = {}
    for each in charges:
        together.setdefault(ledger_key(each.query, task=task, batch=batch), []).append(each)
    for (name, entry, group), some in together.items():
        events = tuple(each.query.event(task) for each in some)
        ledger.release(
            events[0] if len(events) == 1 else CompositionEvent(events=events),
            task=name,
            batch=entry,
            data=b"".join(each.data for each in some),
            draw=lambda: None,
            streams=some[0].query.begun,
            one_of=group,
        )


def estimate_from_views(
    queries: Sequence[SumQuery], views: Sequence[tuple[Any, ...]], streams: Mapping[int, Any], source: NoiseSource
) -> tuple[dict[int, Any], list[Estimate]]:
    """Return the states of streams after a round, and the estimates of its queries."""
    held, estimates = dict(streams), []
    for query, parts in zip(queries, views, strict=True):
        analyzer = query.protocol.analyzer
        state = held.get(query.stream, analyzer.begin())
        for view in parts:
            state, estimate = analyzer.analyze(state, view, source)
        if state is not None:
            held[query.stream] = state
        estimates.append(estimate)
    return held, estimates


@dataclass(kw_only=True)
class TrustedServerRunner:
    """A trusted server that does the work of devices, mixer and analyzer on rows."""

    policy: Policy[Any]
    desk: RunnerState
    source: NoiseSource
    stream: NoiseSource
    coins: DeviceRandomness
    charges: list[LedgerCharge] = field(default_factory=list)

    def learn(self, state: Any, episode: Episode, played: PlayedRounds) -> Any:
        self.desk = self.desk.keep(self.policy.execution.retained_groups, played)
        return drive_learning(self.policy.learn(state, episode), lambda query: self._answer(query, played))

    def _answer(self, query: SumQuery, played: PlayedRounds) -> Estimate:
        statistic = self._statistic(query, self.desk.rows(query, played))
        source = self.stream if isinstance(query.protocol, StreamProtocol) else self.source
        self.desk, estimate = self.desk.release(query, statistic, source, path="messages")
        self.charges.append(LedgerCharge(query=query, data=np.ascontiguousarray(statistic.rows()).tobytes()))
        return estimate

    def _statistic(self, query: SumQuery, rows: PlayedRounds) -> Statistic:
        """Return the devices' statistics; a row that the policy cannot take counts as no answer."""
        try:
            return self._form_reports(query, rows)
        except Exception:
            wrong = self._find_bad_rows(query, rows, 0, rows.rewards.shape[0])
            if not wrong:
                raise
        return self._form_reports(query, _blank_rows(self.policy, rows, wrong))

    def _form_reports(self, query: SumQuery, rows: PlayedRounds) -> Statistic:
        """Return the devices' statistics; raise an error for numbers that are not finite."""
        with np.errstate(all="ignore"):
            statistic = form_reports(self.policy, query, rows, self.coins)
        check_all_finite("statistics", statistic.values)
        return statistic

    def _find_bad_rows(self, query: SumQuery, rows: PlayedRounds, begin: int, end: int) -> list[int]:
        try:
            self._form_reports(query, rows.at(slice(begin, end)))
        except Exception:  # of whatever kind: a row must not stop the others
            if end - begin == 1:
                return [begin]
            middle = (begin + end) // 2
            return self._find_bad_rows(query, rows, begin, middle) + self._find_bad_rows(query, rows, middle, end)
        return []


def _blank_rows(policy: Policy[Any], rows: PlayedRounds, places: list[int]) -> PlayedRounds:
    reported = np.ones(len(rows.rewards), dtype=bool) if rows.answered is None else rows.answered.copy()
    reported[places] = False
    there = reported.reshape(-1, *(1,) * (rows.rewards.ndim - 1))
    features = None if rows.features is None else np.where(reported[:, None], rows.features, 0.0)
    answered = rows.answered if policy.execution.retained_groups or policy.execution.has_several_queries else reported
    return replace(
        rows, rewards=np.where(there, rows.rewards, _neutral_reward(policy)), features=features, answered=answered
    )


def _neutral_reward(policy: Policy[Any]) -> float:
    low, high = getattr(policy, "reward_range", (0.0, 0.0))
    return float(min(max(0.0, low), high))


def played_from_rows(policy: Policy[Any], episode: Episode, rows: np.ndarray[Any, Any]) -> PlayedRounds:
    """Return rows (features, rewards, arm, group, answered), in the order of places, as a policy takes them.

    An invalid row counts as no answer: its sender must not decide whether the batch can be learned from.
    """
    dim, count = int(getattr(policy, "dim", 0)), getattr(policy, "n_arms", None)
    features, rewards, (arms, groups, answered) = rows[:, :dim], rows[:, dim:-3], rows[:, -3:].T
    numbers = np.all(np.abs(rows) <= _LARGEST, axis=1) & np.all(np.abs(rows[:, -3:]) < _INDEX, axis=1)  # NaN is not
    told = numbers & (answered > 0) & (arms >= 0) & (groups >= 0)
    arms, groups = np.where(told, arms, 0.0), np.where(told, groups, 0.0)
    if isinstance(episode, AssignedArms) and episode.clients is not None:
        return PlayedRounds(rewards=np.where(told[:, None], rewards, 0.0))
    chosen = arms.astype(np.int64)
    if isinstance(episode, AssignedArms):
        chosen = episode.arms_at(np.arange(len(rows)))
    elif count is not None:
        told, chosen = told & (chosen < count), np.minimum(chosen, count - 1)
    made = PlayedRounds(
        rewards=np.where(told, rewards[:, 0], _neutral_reward(policy)),
        features=np.where(told[:, None], features, 0.0),
        arms=chosen,
        groups=np.minimum(groups.astype(np.int64), len(policy.execution.retained_groups) - 1)
        if len(policy.execution.retained_groups) > 1
        else None,
        answered=None if told.all() else told,
    )
    later = (
        policy.execution.retained_groups or policy.execution.has_several_queries
    )  # rows that are kept say it by zeros alone
    return replace(made, answered=None) if later else made


# Shares


Share = Mapping[str, Any]

_FIELDS: dict[str, Any] = {
    "task": str, "epoch": int, "round": int, "mixer": str, "count": int, "checksum": str, "bad": int, "parts": list,
    "key": dict[str, Any] | None,
}  # fmt: skip


class UnusableBatch(BandannaError):
    """Totals that were seen and cannot be used. They are paid for and not learned from."""


def check_share(share: Any, *, task: str, epoch: int, round_: int, mixer: str) -> Share:
    """Return the share if it is one of this round and mixer; else InvalidStatistic."""
    if not isinstance(share, dict) or set(_FIELDS) != set(share):
        raise InvalidStatistic("share", share, "a share of a batch")
    if not all(matches_type(share[name], hint) for name, hint in _FIELDS.items()):
        raise InvalidStatistic("share", ValueSummary("fields of wrong types"), "a share of a batch")
    if (share["task"], share["epoch"], share["round"], share["mixer"]) != (task, epoch, round_, mixer):
        raise InvalidStatistic(
            "share", ValueSummary("of another batch"), f"one of batch {epoch}, round {round_}, from {mixer}"
        )
    return share


def decode_shares(
    shares: Sequence[Share],
    parts: Sequence[Part],
    queries: Sequence[SumQuery],
    users: int,
    opener: Opener | None,
    info: bytes,
) -> list[tuple[Any, ...]]:
    """Return the views of every query of a round; UnusableBatch if the mixers disagree or sums are no counts."""
    first = shares[0]
    for share in shares:
        if (share["count"], share["checksum"]) != (first["count"], first["checksum"]) or share["bad"]:
            raise UnusableBatch("the mixers have not added the same reports")
        if share["count"] != users or len(share["parts"]) != len(parts):
            raise UnusableBatch(f"a batch of {share['count']} users where {users} were announced")
    try:
        views = _decode_parts(shares, parts, queries, opener, info)
        _check_users(views, parts, users)
        return views
    except UnusableBatch:
        raise
    except (BandannaError, AttributeError, TypeError, ValueError) as error:  # whatever a mixer may have signed
        raise UnusableBatch(f"shares that hold no views ({type(error).__name__})") from error


def _decode_parts(
    shares: Sequence[Share], parts: Sequence[Part], queries: Sequence[SumQuery], opener: Opener | None, info: bytes
) -> list[tuple[Any, ...]]:
    made = []
    seals: set[bytes] = set()  # of the round: each was drawn for one report
    for place, (part, query) in enumerate(zip(parts, queries, strict=True)):
        texts = [share["parts"][place] for share in shares]
        if part.form == "sealed":
            made.append(_open_reports(texts[0], part, query.protocol.mixer, opener, info, seals))
            continue
        first, *others = (make_mixer_encoding().loads(text) for text in texts)
        for other in others:
            if len(other) != len(first):
                raise UnusableBatch("the mixers have closed different batches")
            first = tuple(_add_modular(left, right) for left, right in zip(first, other, strict=True))
        made.append(first)
        if not isinstance(made[-1], tuple) or not made[-1]:
            raise UnusableBatch("a share without a view of one of its parts")
        for view in made[-1]:
            _check_view(view, query.protocol.mixer)
    return made


def _check_users(views: Sequence[tuple[Any, ...]], parts: Sequence[Part], users: int) -> None:
    """Refuse views of other users than announced: all users for each part, or the users of its arm.

    Views of streams cover all users so far and are compared with what their mixers hold.
    """
    counts = [[view.users for view in each] for each, part in zip(views, parts, strict=True) if part.stream is None]
    if any(len(each) != 1 for each in counts):
        raise UnusableBatch("a part of a round with other than one view")
    if parts[0].arm is not None:
        counts = [[sum(each[0] for each in counts)]]
    if any(each != [users] for each in counts):
        raise UnusableBatch(f"views of other than the {users} users who were announced")


def rows_from_share(share: Share) -> np.ndarray[Any, Any]:
    """Return rows as devices sent them, (n, length)."""
    rows = make_mixer_encoding().loads(share["parts"][0])
    if not isinstance(rows, np.ndarray) or rows.ndim != 2:
        raise InvalidStatistic("share", rows, "rows of numbers")
    return rows


def _open_reports(
    text: str, part: Part, mixer: Mixer, opener: Opener | None, info: bytes, seals: set[bytes]
) -> tuple[Any, ...]:
    """Open reports that were sealed for the analyzer, in the order of ciphertexts.

    An invalid report counts as a zero without noise: its sender must not decide whether others are counted.
    """
    assert opener is not None
    plain = Part(form="plain", dtype=part.dtype, length=part.length)
    sealed = make_mixer_encoding().loads(text)
    if not isinstance(sealed, list):
        raise UnusableBatch("sealed reports that are none")
    _check_once(sealed, seals)
    bodies = [_open_body(each, plain, mixer, opener, info) for each in sealed]
    return mix_messages(mixer, mixer.empty(), plain.numbers(bodies))[1]


def _check_once(sealed: list[Any], seals: set[bytes]) -> None:
    """Refuse a round in which two reports were sealed with the same key.

    A device draws a new key for each report. Copies are the shuffler's, which could give one user's report the weight
    of the whole batch.
    """
    for each in sealed:
        try:
            seal = decode_base64url(each)[:ENCAPSULATION]
        except BandannaError:  # it cannot be opened
            continue
        if seal in seals:
            raise UnusableBatch("a sealed report that is there twice")
        seals.add(seal)


def _open_body(text: Any, plain: Part, mixer: Mixer, opener: Opener, info: bytes) -> bytes:
    """Return the contents of a sealed report, or zeros."""
    try:
        body = opener.open(decode_base64url(text), info)
        if len(body) == plain.size:
            mixer.check(plain.numbers([body]))
            return body
    except BandannaError:
        pass
    return bytes(plain.size)


def _add_modular(left: Any, right: Any) -> Any:
    if isinstance(left, FullBatches) and left.users == right.users:
        pairs = zip(left.levels, right.levels, strict=True)
        return FullBatches(users=left.users, levels=tuple(_add_modular(a, b) for a, b in pairs))
    if left.users != right.users or left.numbers.shape != right.numbers.shape:
        raise UnusableBatch("the mixers have added different numbers of reports")
    return MixerState(users=left.users, numbers=_wrap_to_int64(left.numbers) + _wrap_to_int64(right.numbers))


def _wrap_to_int64(numbers: Any) -> Ints:
    return np.asarray(numbers, dtype=np.int64)


def _check_view(view: Any, mixer: Mixer) -> None:
    """Refuse a view that the mixer cannot have forwarded."""
    levels = isinstance(mixer, LevelMixer)
    if isinstance(view, FullBatches) != levels or isinstance(view, MixerState) == levels or view.users < mixer.least:
        raise UnusableBatch("views that this mixer does not forward")
    if isinstance(mixer, LevelMixer):
        if tuple(held.users for held in view.levels) != mixer.sizes[: mixer.full(view.users)]:
            raise UnusableBatch("views of other levels than are full")
        for level, held in zip(mixer.levels, view.levels, strict=False):
            _check_view(held, level)
    elif isinstance(mixer, SummingMixer):
        totals, most = view.numbers, view.users * mixer.largest
        if totals.dtype != np.int64 or totals.shape != most.shape or np.any((totals < 0) | (totals > most)):
            raise UnusableBatch("totals that no sum of counts can have")
    else:
        mixer.check(view.numbers)
