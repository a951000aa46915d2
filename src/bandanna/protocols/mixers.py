"""Mixers and analyzers: base classes, mixers that several protocols share, and what mixers forward.

The path of a batch:

    messages = protocol.device.message(statistic, source)                    # device
    held     = protocol.mixer.add(held, protocol.mixer.check(messages))      # shuffler, or server
    view     = protocol.mixer.close(protocol.mixer.drawn(held, source))      # once for each batch
    state, estimate = protocol.analyzer.analyze(state, view, source)         # server

All of these are immutable values. `check` is needed only for messages from other processes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Domain, Estimate, read_numeric_array
from bandanna.device.noise import NoiseSource
from bandanna.errors import InvalidArgument, InvalidStatistic
from bandanna.numeric import exact_sums
from bandanna.privacy.calibration import BinomialNoise, likely_coins, likely_reach
from bandanna.storage.encoding import stored_as
from bandanna.types import Bools, Floats, Ints

COIN_SOURCES = ("device", "checked", "mixer")  # who draws those of shuffled counts, see `CountingMixer`


# Mixers


@stored_as("HeldMessages")
@dataclass(frozen=True, kw_only=True, eq=False)
class MixerState:
    """The mixer's record of `users` messages, which the analyzer sees: totals (..., dim) or rows (..., users, dim).

    `drawn` is True after the mixer has added its own noise. It forwards nothing before, and adds no user afterwards.
    """

    users: int
    numbers: Ints | Floats
    drawn: bool = False


@stored_as("HeldLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class LevelMixerState:
    """Each level's open batch after `users` users, never published.

    `owed` counts the users of each level whose coins are added only when the batch is full.
    """

    users: int
    totals: tuple[Ints, ...]  # k times (*R, dim)
    owed: tuple[int, ...]


@stored_as("FullLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class FullBatches:
    """The view of a tree's analyzer: totals of the now full batches, lowest level first."""

    users: int
    levels: tuple[MixerState, ...]


@dataclass(frozen=True, kw_only=True)
class Mixer(ABC):
    """Takes messages in portions of any size, and forwards a batch only when it has at least `least` users.

    Only mixers with coins="mixer" draw noise.
    """

    domain: Domain
    least: int = 1

    @property
    def length(self) -> int:
        """Numbers in a message."""
        return self.domain.dim

    def check(self, messages: Any) -> Messages:
        """Return another process's messages (..., users, length); raise `InvalidStatistic` if malformed."""
        array = read_numeric_array("messages", messages, "integers (reals from a fast source)", kinds="if")
        if array.ndim < 2 or array.shape[-1] != self.length:
            raise InvalidStatistic("messages", array, f"shape (..., users, {self.length})")
        if array.dtype not in (np.int64, np.float64):
            raise InvalidStatistic("messages", array, "64-bit integers")
        self.check_range(array)
        return array

    @abstractmethod
    def check_range(self, messages: Messages) -> None:
        """Refuse numbers that no honest device sends."""

    @abstractmethod
    def empty(self, replicates: tuple[int, ...] = ()) -> Any:
        """Return the state before the first message."""

    @abstractmethod
    def add(self, held: Any, messages: Messages) -> Any:
        """Return the state with more messages."""

    def drawn(self, held: Any, source: NoiseSource) -> Any:
        """Return the state with the mixer's own noise, if any. Call it once, before `close`."""
        return held

    @abstractmethod
    def close(self, held: Any) -> Any:
        """Return what the analyzer sees, the same each time."""

    @abstractmethod
    def forget(self, held: Any) -> Any:
        """Return what later views need after a view was forwarded."""

    def split_portions(self, held: Any, messages: Messages) -> Iterator[Messages]:
        """Yield the messages, cut where the mixer must close."""
        yield messages


@dataclass(frozen=True, kw_only=True)
class SummingMixer(Mixer):
    """Adds counts and forwards totals. Shuffled single counts would not be private."""

    @property
    @abstractmethod
    def largest(self) -> Ints:
        """Largest count of each coordinate."""

    def check_range(self, messages: Messages) -> None:
        if messages.dtype != np.int64:
            raise InvalidStatistic("messages", messages, "64-bit integers")
        wrong = (messages < 0) | (messages > self.largest)
        if wrong.any():
            raise_invalid_message("messages", messages, wrong, f"counts from 0 to {_format_largest(self.largest)}")

    def empty(self, replicates: tuple[int, ...] = ()) -> MixerState:
        return MixerState(users=0, numbers=np.zeros((*replicates, self.domain.dim), dtype=np.int64))

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        check_replicates(messages, held.numbers.shape[:-1])
        return MixerState(users=held.users + messages.shape[-2], numbers=held.numbers + np.sum(messages, axis=-2))

    def close(self, held: MixerState) -> MixerState:
        check_enough_users(self.least, held.users)
        return held

    def forget(self, held: MixerState) -> MixerState:
        return self.empty(held.numbers.shape[:-1])


@dataclass(frozen=True, kw_only=True)
class CountingMixer(SummingMixer):
    """Adds counts on a lattice that are hidden by binomial noise ("coins") with b = `noise.trials` for each user.

    Parameters
    ----------
    coins
        "device": each device adds its own. "checked": as "device", but counts that an honest device sends with
        probability below 2^-60 are refused (proofs.md A.9). "mixer": devices add none; the mixer draws n b of them when
        it closes a batch of n users.
    """

    noise: BinomialNoise
    coins: str = "device"

    def __post_init__(self) -> None:
        validation.one_of("coins", self.coins, COIN_SOURCES)

    @property
    @abstractmethod
    def encoded(self) -> Ints:
        """Largest counts without coins."""

    @cached_property
    def largest(self) -> Ints:
        return self.encoded if self.coins == "mixer" else self.encoded + self.noise.trials

    def check_range(self, messages: Messages) -> None:
        super().check_range(messages)
        if self.coins == "checked":
            low, high = self.likely
            raise_invalid_message(
                "messages",
                messages,
                (messages < low) | (messages > high),
                f"counts from {low} to {_format_largest(high)}, as devices send them: stay with the zero report",
            )

    def flag_unlikely(self, messages: Messages) -> Bools:
        """Flag users with counts outside of `likely`: (..., users, dim) -> (..., users)."""
        low, high = self.likely
        return np.asarray(np.any((messages < low) | (messages > high), axis=-1))

    @cached_property
    def likely(self) -> tuple[int, Ints]:
        """Return each coordinate's least and largest count, but for 2^-60 of honest counts."""
        if self.coins == "mixer":
            return 0, self.encoded
        low, high = likely_coins(self.noise)
        return low, self.encoded + high

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        """Add messages; refuse them after the noise, which would lack their share."""
        if held.drawn:
            raise InvalidArgument("held", "a batch with its noise", "one that is open: the next batch")
        return super().add(held, messages)

    def drawn(self, held: MixerState, source: NoiseSource) -> MixerState:
        """Add Bin(n b, p), the coins of n devices, from a random stream of their own."""
        if self.coins != "mixer":
            return held
        check_enough_users(self.least, held.users)
        if held.drawn:
            raise InvalidArgument("held", "a batch with its noise", "one without: noise is drawn once")
        coins = draw_batch_coins(self.noise, held.users, held.numbers.shape, source)
        return MixerState(users=held.users, numbers=held.numbers + coins, drawn=True)

    def close(self, held: MixerState) -> MixerState:
        if self.coins == "mixer" and not held.drawn:
            raise InvalidArgument("held", "a batch without its noise", "what `drawn` returned: this mixer draws it")
        return super().close(held)


@stored_as("GatheringMixer")
@dataclass(frozen=True, kw_only=True)
class GatheringMixer(Mixer):
    """Keeps every user's row, for servers that may see the rows.

    Parameters
    ----------
    std, grid
        Standard deviation and step of the devices' Gaussian noise; 0 if they add none.
    """

    std: float = 0.0
    grid: float = 0.0

    def check_range(self, messages: Messages) -> None:
        if not self.std:
            self.domain.check(decode_plain_statistics(messages, self.domain))
            return
        low, high = self.likely_steps if messages.dtype == np.int64 else self.likely
        allowed = "numbers within reach of the noise, as devices send them: stay with the zero report"
        raise_invalid_message("messages", messages, ~((messages >= low) & (messages <= high)), allowed)

    @cached_property
    def likely(self) -> tuple[Floats, Floats]:
        """Return each coordinate's bounds: t std and a step beyond the domain."""
        more = likely_reach(self.domain.dim) * self.std + self.grid
        return self.domain.lower - more, self.domain.upper + more

    @cached_property
    def likely_steps(self) -> tuple[Ints, Ints]:
        """Return these bounds in grid steps from the origin, as sent."""
        more = math.ceil(likely_reach(self.domain.dim) * self.std / self.grid)
        ends = (np.floor((self.domain.lower - self.domain.origin) / self.grid),
                np.ceil((self.domain.upper - self.domain.origin) / self.grid))  # fmt: skip
        low, high = (np.clip(end, -(2.0**61), 2.0**61).astype(np.int64) for end in ends)  # below 2^62 with the noise
        return low - more, high + more

    def empty(self, replicates: tuple[int, ...] = ()) -> MixerState:
        return MixerState(users=0, numbers=np.zeros((*replicates, 0, self.domain.dim), dtype=np.int64))

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        check_replicates(messages, held.numbers.shape[:-2])
        if not held.users:
            return MixerState(users=messages.shape[-2], numbers=messages)
        if held.numbers.dtype != messages.dtype:
            raise InvalidStatistic("messages", messages, f"{held.numbers.dtype}, as before")
        rows = np.concatenate([held.numbers, messages], axis=-2)
        return MixerState(users=rows.shape[-2], numbers=rows)

    def close(self, held: MixerState) -> MixerState:
        check_enough_users(self.least, held.users)
        return held

    def forget(self, held: MixerState) -> MixerState:
        return self.empty(held.numbers.shape[:-2])


def decode_plain_statistics(messages: Messages, domain: Domain) -> Floats:
    """Return plain statistics as reals, sent as reals or as steps."""
    if messages.dtype != np.int64:
        return np.asarray(messages)
    return np.asarray(messages * exact_sums.finest_step(domain.reach) + domain.origin)


def draw_batch_coins(noise: BinomialNoise, users: int, shape: tuple[int, ...], source: NoiseSource) -> Ints:
    """Draw Bin(n b, p) for each total, on behalf of the mixer."""
    trials = users * noise.trials
    return source.named("mixer").binomial(trials=trials, probability=noise.probability, size=shape)


def describe_shuffler_view(coins: str, counts: str, statistic: str, *, who: str = "user") -> str:
    """Return what the shuffler sees, in the words of a guarantee."""
    if coins == "mixer":
        return f"every {who}'s rounded {statistic} without noise (it draws the noise of the batch itself)"
    return f"every {who}'s noisy {counts}"


def check_enough_users(calibrated: int, users: int) -> None:
    """Refuse fewer users than calibrated for; noise for B is enough for n >= B (proofs.md A.6)."""
    if validation.integer("users", users) < calibrated:
        allowed = f"at least {calibrated} users, for whom the noise is calibrated: wait for more, or recalibrate"
        raise InvalidArgument("batch", users, allowed)


def raise_invalid_message(argument: str, messages: Messages, wrong: Any, allowed: str) -> None:
    """Raise an error with the position of the first wrong number, if any."""
    if np.any(wrong):
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InvalidStatistic(f"{argument}[{', '.join(map(str, place))}]", messages[place], allowed)


def check_replicates(messages: Messages, replicates: tuple[int, ...]) -> None:
    """Refuse messages with other replicates than the mixer's."""
    if messages.shape[:-2] != replicates:
        allowed = f"replicates {replicates}, as it began with"
        raise InvalidStatistic("statistics", messages, allowed)


def _format_largest(largest: Ints) -> str:
    return str(largest[0]) if np.all(largest == largest[0]) else str(largest.tolist())


# Analyzers


class Analyzer(ABC):
    """Turns views into estimates. A batch's analyzer has no state; a stream's holds released numbers only."""

    def begin(self, replicates: tuple[int, ...] = ()) -> Any:
        """Return the state before the first view."""
        return None

    @abstractmethod
    def analyze(self, state: Any, view: Any, source: NoiseSource) -> tuple[Any, Estimate]:
        """Return the next state and the estimate; a server's noise comes from `source`."""


def sum_plain_statistics(rows: Messages, domain: Domain) -> exact_sums.Pair:
    """Return the exact sum of plain statistics over users, relative to the domain's origin."""
    if rows.dtype == np.int64:
        return exact_sums.sum_steps(np.asarray(rows, dtype=np.int64), exact_sums.finest_step(domain.reach))
    return exact_sums.exact_sum(rows - domain.origin, domain.reach)
