"""Mixers and analyzers: their base classes, and what mixers forward."""

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

# The roles behind a device: mixers gather or add what arrives, analyzers turn what mixers forward into estimates.
#
#     messages = protocol.device.message(statistic, source)                    with the user
#     held     = protocol.mixer.add(held, protocol.mixer.check(messages))      shuffler, or server
#     view     = protocol.mixer.close(protocol.mixer.drawn(held, source))      once for each batch
#     state, estimate = protocol.analyzer.analyze(state, view, source)         server
#
# Whoever receives messages from outside checks them; in one process they come from our own devices, and are not.
# They are frozen values that exchange integers, and what they hold in between are values too: the simulator
# (`path="messages"`), an agent and separate processes run the same code.


COIN_SOURCES = ("device", "checked", "mixer")  # who draws those of shuffled counts, see `CountingMixer`


@stored_as("HeldMessages")
@dataclass(frozen=True, kw_only=True, eq=False)
class MixerState:
    """What a mixer has of `users` users, and the analyzer's view: totals, (..., dim), or rows, (..., users, dim).

    `drawn`: whether a mixer that draws the noise has added it. Before, nothing leaves it; after, nobody comes in.
    """

    users: int
    numbers: Ints | Floats
    drawn: bool = False


@dataclass(frozen=True, kw_only=True)
class Mixer(ABC):
    """Takes messages in any portions and forwards them when at least `least` users are in: fewer never leave it.

    Privacy: it draws nothing, so what it forwards is priced whatever it does in between; but for `CountingMixer` with
    coins="mixer", which is trusted with the noise, and forwards nothing that it was not `drawn` for.
    """

    domain: Domain
    least: int = 1

    @property
    def length(self) -> int:
        """Numbers in a message."""
        return self.domain.dim

    def check(self, messages: Any) -> Messages:
        """Messages from outside, (..., users, length), as they came; or an error that says what is wrong with them."""
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
        """Nothing has arrived."""

    @abstractmethod
    def add(self, held: Any, messages: Messages) -> Any:
        """What is held with some more users."""

    def drawn(self, held: Any, source: NoiseSource) -> Any:
        """What is held with the mixer's own noise, where it is the one to draw it: once, by whoever closes, before."""
        return held

    @abstractmethod
    def close(self, held: Any) -> Any:
        """What the analyzer gets to see; closing once more gives the same."""

    @abstractmethod
    def forget(self, held: Any) -> Any:
        """What is still held when the view has been forwarded."""

    def split_portions(self, held: Any, messages: Messages) -> Iterator[Messages]:
        """Messages cut where the mixer closes in between."""
        yield messages


@dataclass(frozen=True, kw_only=True)
class SummingMixer(Mixer):
    """Adds counts and forwards their totals. Permuting the users' counts instead would not be private."""

    @property
    @abstractmethod
    def largest(self) -> Ints:
        """The largest count of each coordinate."""

    def check_range(self, messages: Messages) -> None:
        """Integers from 0 to the largest count."""
        if messages.dtype != np.int64:
            raise InvalidStatistic("messages", messages, "64-bit integers")
        wrong = (messages < 0) | (messages > self.largest)
        if wrong.any():
            raise_invalid_message("messages", messages, wrong, f"counts from 0 to {_format_largest(self.largest)}")

    def empty(self, replicates: tuple[int, ...] = ()) -> MixerState:
        """Zeros."""
        return MixerState(users=0, numbers=np.zeros((*replicates, self.domain.dim), dtype=np.int64))

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        """Totals: (..., dim) and (..., users, dim) -> (..., dim)."""
        check_replicates(messages, held.numbers.shape[:-1])
        return MixerState(users=held.users + messages.shape[-2], numbers=held.numbers + np.sum(messages, axis=-2))

    def close(self, held: MixerState) -> MixerState:
        """The totals."""
        check_enough_users(self.least, held.users)
        return held

    def forget(self, held: MixerState) -> MixerState:
        """Nothing."""
        return self.empty(held.numbers.shape[:-1])


@dataclass(frozen=True, kw_only=True)
class CountingMixer(SummingMixer):
    """Adds counts of statistics on a lattice among coins: b = `noise.trials` of each user, or as many from the mixer.

    coins  "device": every device adds its own. "checked": so it does, and counts that honest devices send with
           probability below 2^-60 are refused (calibration.md A.9). "mixer": devices send none, and n b of them are
           drawn when a batch of n users is closed.
    """

    noise: BinomialNoise
    coins: str = "device"

    def __post_init__(self) -> None:
        validation.one_of("coins", self.coins, COIN_SOURCES)

    @property
    @abstractmethod
    def encoded(self) -> Ints:
        """The largest count of each coordinate without coins."""

    @cached_property
    def largest(self) -> Ints:
        """Coins of the device included."""
        return self.encoded if self.coins == "mixer" else self.encoded + self.noise.trials

    def check_range(self, messages: Messages) -> None:
        """Integers from 0 to the largest count; where improbable ones are refused, all of a likely size."""
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
        """Whose counts an honest device hardly ever sends, below 2^-60 each: (..., users, dim) -> (..., users).

        Never with the mixer's coins, where a count is possible or not. Refusing them is priced with coins="checked".
        """
        low, high = self.likely
        return np.asarray(np.any((messages < low) | (messages > high), axis=-1))

    @cached_property
    def likely(self) -> tuple[int, Ints]:
        """The least and the largest count of each coordinate but for 2^-60 of those that any statistic has."""
        if self.coins == "mixer":
            return 0, self.encoded
        low, high = likely_coins(self.noise)
        return low, self.encoded + high

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        """Totals; after the noise was drawn nobody is added, whose coins would be missing."""
        if held.drawn:
            raise InvalidArgument("held", "a batch with its noise", "one that is open: the next batch")
        return super().add(held, messages)

    def drawn(self, held: MixerState, source: NoiseSource) -> MixerState:
        """Totals of n users plus Bin(n b, p): the coins that n devices would have added, from a stream of their own."""
        if self.coins != "mixer":
            return held
        check_enough_users(self.least, held.users)
        if held.drawn:
            raise InvalidArgument("held", "a batch with its noise", "one without: noise is drawn once")
        coins = draw_batch_coins(self.noise, held.users, held.numbers.shape, source)
        return MixerState(users=held.users, numbers=held.numbers + coins, drawn=True)

    def close(self, held: MixerState) -> MixerState:
        """The totals, with their noise."""
        if self.coins == "mixer" and not held.drawn:
            raise InvalidArgument("held", "a batch without its noise", "what `drawn` returned: this mixer draws it")
        return super().close(held)


@stored_as("GatheringMixer")
@dataclass(frozen=True, kw_only=True)
class GatheringMixer(Mixer):
    """Keeps every user's row: for servers that may see them, with or without noise.

    std, grid  of the Gaussian noise that devices add, and of their steps; 0 without noise
    """

    std: float = 0.0
    grid: float = 0.0

    def check_range(self, messages: Messages) -> None:
        """Points of the domain; of noisy reports, what noise makes of one but for 2^-60 of the reports."""
        if not self.std:
            self.domain.check(decode_plain_statistics(messages, self.domain))
            return
        low, high = self.likely_steps if messages.dtype == np.int64 else self.likely
        allowed = "numbers within reach of the noise, as devices send them: stay with the zero report"
        raise_invalid_message("messages", messages, ~((messages >= low) & (messages <= high)), allowed)

    @cached_property
    def likely(self) -> tuple[Floats, Floats]:
        """The least and the largest number of each coordinate: t std beyond the domain, and a step for rounding."""
        more = likely_reach(self.domain.dim) * self.std + self.grid
        return self.domain.lower - more, self.domain.upper + more

    @cached_property
    def likely_steps(self) -> tuple[Ints, Ints]:
        """The same as steps of the grid from the domain's origin, as reports are sent."""
        more = math.ceil(likely_reach(self.domain.dim) * self.std / self.grid)
        ends = (np.floor((self.domain.lower - self.domain.origin) / self.grid),
                np.ceil((self.domain.upper - self.domain.origin) / self.grid))  # fmt: skip
        low, high = (np.clip(end, -(2.0**61), 2.0**61).astype(np.int64) for end in ends)  # below 2^62 with the noise
        return low - more, high + more

    def empty(self, replicates: tuple[int, ...] = ()) -> MixerState:
        """No rows."""
        return MixerState(users=0, numbers=np.zeros((*replicates, 0, self.domain.dim), dtype=np.int64))

    def add(self, held: MixerState, messages: Messages) -> MixerState:
        """One row after the other."""
        check_replicates(messages, held.numbers.shape[:-2])
        if not held.users:
            return MixerState(users=messages.shape[-2], numbers=messages)
        if held.numbers.dtype != messages.dtype:
            raise InvalidStatistic("messages", messages, f"{held.numbers.dtype}, as before")
        rows = np.concatenate([held.numbers, messages], axis=-2)
        return MixerState(users=rows.shape[-2], numbers=rows)

    def close(self, held: MixerState) -> MixerState:
        """The rows."""
        check_enough_users(self.least, held.users)
        return held

    def forget(self, held: MixerState) -> MixerState:
        """Nothing."""
        return self.empty(held.numbers.shape[:-2])


class Analyzer(ABC):
    """Turns views into estimates. A batch's has no state; a stream's is what it has released and may be published."""

    def begin(self, replicates: tuple[int, ...] = ()) -> Any:
        """Before the first view."""
        return None

    @abstractmethod
    def analyze(self, state: Any, view: Any, source: NoiseSource) -> tuple[Any, Estimate]:
        """The next state and the estimate; `source` is for servers that add noise themselves."""


def decode_plain_statistics(messages: Messages, domain: Domain) -> Floats:
    """Plain statistics as reals, however they were sent."""
    if messages.dtype != np.int64:
        return np.asarray(messages)
    return np.asarray(messages * exact_sums.finest_step(domain.reach) + domain.origin)


def sum_plain_statistics(rows: Messages, domain: Domain) -> exact_sums.Pair:
    """The exact sum over users of plain statistics minus the domain's public origin, however they were sent."""
    if rows.dtype == np.int64:
        return exact_sums.sum_steps(np.asarray(rows, dtype=np.int64), exact_sums.finest_step(domain.reach))
    return exact_sums.exact_sum(rows - domain.origin, domain.reach)


def draw_batch_coins(noise: BinomialNoise, users: int, shape: tuple[int, ...], source: NoiseSource) -> Ints:
    """The coins of a batch, drawn by its mixer: Bin(n b, p) in each of the totals."""
    trials = users * noise.trials
    return source.named("mixer").binomial(trials=trials, probability=noise.probability, size=shape)


def describe_shuffler_view(coins: str, counts: str, statistic: str, *, who: str = "user") -> str:
    """Of everybody, in the words of a guarantee."""
    if coins == "mixer":
        return f"every {who}'s {statistic}, rounded and without noise, which it draws itself for the whole batch"
    return f"every {who}'s noisy {counts}"


def check_enough_users(calibrated: int, users: int) -> None:
    """Noise that belongs to a batch of B users is enough for n >= B of them (calibration.md A.6); fewer are refused."""
    if validation.integer("users", users) < calibrated:
        allowed = f"at least {calibrated} users, for whom the noise is calibrated: wait for more, or recalibrate"
        raise InvalidArgument("batch", users, allowed)


def raise_invalid_message(argument: str, messages: Messages, wrong: Any, allowed: str) -> None:
    """An error that names the first number that is wrong, and its place."""
    if np.any(wrong):
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InvalidStatistic(f"{argument}[{', '.join(map(str, place))}]", messages[place], allowed)


def check_replicates(messages: Messages, replicates: tuple[int, ...]) -> None:
    """Messages of as many replicates as the mixer began with."""
    if messages.shape[:-2] != replicates:
        allowed = f"replicates {replicates}, as it began with"
        raise InvalidStatistic("statistics", messages, allowed)


def _format_largest(largest: Ints) -> str:
    """One number where all are equal."""
    return str(largest[0]) if np.all(largest == largest[0]) else str(largest.tolist())


# What the tree's shufflers hold, and what they forward.


@stored_as("HeldLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class LevelMixerState:
    """After `users` users: what each level's shuffler holds of its present batch; never published.

    `owed`: of how many users the coins are not yet in it, since path="law", and a mixer that draws them itself, draws
    those of a batch when it is full.
    """

    users: int
    totals: tuple[Ints, ...]  # k times (*R, dim)
    owed: tuple[int, ...]


@stored_as("FullLevels")
@dataclass(frozen=True, kw_only=True, eq=False)
class FullBatches:
    """What the analyzer sees after `users` users: totals of the batches that are full then, lowest level first."""

    users: int
    levels: tuple[MixerState, ...]
