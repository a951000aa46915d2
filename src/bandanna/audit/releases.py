"""What holds the canary, as a script of releases: run it under either neighbour, and see what an observer sees.

A policy's asks, or a protocol alone, come down to some batches and streams whose statistics differ in one person. The
script runs them by the protocols' own message path. Where all noise is Gaussian, a spy sees the exact separation of
the neighbours (`audit.spy`); laws of counts, answers and directions are computed (`audit.counts`, `audit.directions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bandanna.accounting.events import ClearEvent, CompositionEvent, Event
from bandanna.audit import exact
from bandanna.audit.counts import count_pairs
from bandanna.audit.directions import message_pairs
from bandanna.audit.exact import Pair
from bandanna.audit.mixed import shuffled_pairs
from bandanna.audit.spy import Moves, Spy, bypassed, moves_of
from bandanna.core.arrays import Floats
from bandanna.core.domain import Statistic
from bandanna.mechanisms.sources import FastNoise
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian

_NUMBERS = 2_000_000  # that are held at once


def arrays(value: Any) -> Iterator[Any]:
    """All arrays and numbers of a value, in order."""
    if is_dataclass(value):
        value = tuple(getattr(value, each.name) for each in fields(value))
    if isinstance(value, tuple | list):
        for each in value:
            yield from arrays(each)
    elif value is not None:
        yield np.asarray(value)


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """One batch, or all steps of a stream, under both neighbours: statistics (users, dim) for each step."""

    protocol: Protocol
    one: tuple[Floats, ...]
    two: tuple[Floats, ...]

    def __post_init__(self) -> None:
        if self.protocol.trust == "local":  # the server sees every report: that of the person alone
            moved = [self._moved(step) for step in range(len(self.one))]
            for name, own in (("one", self.one), ("two", self.two)):
                object.__setattr__(self, name, tuple(each[mine] for each, mine in zip(own, moved, strict=True)))
        elif isinstance(self.protocol, ShuffleGaussian):  # among equal reports one that is not is seen best
            mine = self._moved(0)[:, None]
            other = self.two[0][mine[:, 0]][:1]  # of everybody else
            for name, batch in (("one", self.one[0]), ("two", self.two[0])):
                object.__setattr__(self, name, (np.where(mine, batch, other),))

    def _moved(self, step: int) -> NDArray[np.bool_]:
        moved = np.any(self.one[step] != self.two[step], axis=-1)
        return np.asarray(moved if moved.any() else np.arange(len(moved)) == 0)

    @cached_property
    def move(self) -> Floats:
        """By how much the person moves the sum, at the step where it is largest, (dim,)."""
        moves = [one.sum(axis=0) - two.sum(axis=0) for one, two in zip(self.one, self.two, strict=True)]
        return np.asarray(max(moves, key=lambda each: float(np.sum(each * each))))

    @property
    def size(self) -> int:
        """Numbers that one run takes."""
        return max(each.size for each in self.one) * (1 if isinstance(self.protocol, BatchProtocol) else 2)

    def totals(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Floats]:
        """The estimates after every step, (*R, dim) each, along the messages."""
        steps = self.two if swapped else self.one
        if isinstance(self.protocol, BatchProtocol):
            return [self.protocol.release(self._statistic(step, replicates), source).total for step in steps]
        assert isinstance(self.protocol, StreamProtocol)
        state, totals = self.protocol.begin(replicates), []
        for step in steps:
            state, estimate = self.protocol.release(state, self._statistic(step, replicates), source)
            totals.append(estimate.total)
        return totals

    def _statistic(self, values: Floats, replicates: tuple[int, ...]) -> Statistic:
        repeated = np.array(np.broadcast_to(values, (*replicates, *values.shape)))
        return self.protocol.domain.sealed(repeated, clipped=np.zeros(replicates, dtype=np.int64))

    @property
    def clear(self) -> bool:
        """Whether the person's statistic is seen as it is."""
        moved = any(not np.array_equal(one, two) for one, two in zip(self.one, self.two, strict=True))
        return moved and isinstance(self.protocol.event, ClearEvent)

    @cached_property
    def moves(self) -> Moves | None:
        """What is noised by Gaussians, and how far it moves; None where other noise is drawn, or reports are mixed, or
        what is seen is not made of it alone.
        """
        return None if self.beside else self._noised

    @cached_property
    def _noised(self) -> Moves | None:
        if isinstance(self.protocol, ShuffleGaussian):
            return None
        found = moves_of(lambda swapped, spy: self.totals(swapped, spy, ()))
        return None if found is None or found[1] else found[0]

    @cached_property
    def beside(self) -> bool:
        """Whether something is seen beside what is noised by Gaussians: then samples of all that is seen must tell."""
        return self._noised is not None and bypassed(self._shown)

    def _shown(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...] = ()) -> list[Floats]:
        """What an observer is shown: estimates, and in the local model every message."""
        if self.protocol.trust != "local" or not isinstance(self.protocol, BatchProtocol):
            return self.totals(swapped, source, replicates)
        steps = self.two if swapped else self.one
        sent = [self.protocol.device.message(self._statistic(step, replicates), source) for step in steps]
        return [np.asarray(each, dtype=float) for each in arrays(sent)] + self.totals(swapped, source, replicates)

    @cached_property
    def pairs(self) -> list[Pair] | None:
        """Independent parts of what is released, each by its exact laws; None where they are not known."""
        if self.moves is not None:
            return [exact.gaussian_pair(exact.separation(self.moves))]
        if isinstance(self.protocol, ShuffleGaussian):
            return shuffled_pairs(self.protocol, self.one[0], self.two[0])
        if self.protocol.trust == "local":
            return message_pairs(self.protocol, np.concatenate(self.one), np.concatenate(self.two))
        return count_pairs(self.protocol, np.concatenate(self.one), np.concatenate(self.two))

    @cached_property
    def pure(self) -> float | None:
        """The largest privacy loss of Laplace noise, |move|_1 / scale, in steps of its lattice; None for others."""
        if not isinstance(self.protocol, BatchProtocol) or self.protocol.laplace is None:
            return None
        scale, step = self.protocol.laplace
        one, two = (self.totals(swapped, FastNoise(np.random.default_rng(0)), ())[0] for swapped in (False, True))
        return float(np.sum(np.abs(np.rint((one - two) / step)))) / scale  # the same noise in both

    def seen(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """What tells the neighbours apart in `runs` runs, (runs, k)."""
        if isinstance(self.protocol, ShuffleGaussian):
            return self._shuffled(swapped, runs, rng)
        if self.moves is not None:
            spy = Spy(rng, weights=[move / std**2 for move, std in self.moves])
            self.totals(swapped, spy, (runs,))
            return np.asarray(spy.score)[:, None]
        if self.beside:
            shown = self._shown(swapped, FastNoise(rng), (runs,))
            return np.concatenate([(each @ self.move).reshape(runs, -1) for each in shown], axis=-1)
        if isinstance(self.protocol, BatchProtocol):
            (total,) = self.totals(swapped, FastNoise(rng), (runs,))
            return np.asarray(total @ self.move / self.protocol.std(len(self.one[0])) ** 2)[:, None]
        views = self._views(swapped, FastNoise(rng), (runs,))
        return np.stack([views[place] @ self.move for place in self._places], axis=-1)

    def _views(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Floats]:
        """All sums that shufflers forward to the analyzer of a stream, (*R, dim) each: more than its estimates tell."""
        protocol, views = self.protocol, list[Floats]()
        assert isinstance(protocol, StreamProtocol)
        held, _ = protocol.parted(protocol.begin(replicates))
        shape = (*replicates, protocol.domain.dim)
        for step in self.two if swapped else self.one:
            messages = protocol.device.message(self._statistic(step, replicates), source)
            for portion in protocol.mixer.portions(held, messages):
                held = protocol.mixer.drawn(protocol.mixer.add(held, portion), source)
                views += [each for each in arrays(protocol.mixer.close(held)) if each.shape == shape]
                held = protocol.mixer.forget(held)
        return views

    @cached_property
    def _places(self) -> list[int]:
        """Which of them hold the person: with the same noise, those that differ."""
        one, two = (self._views(swapped, FastNoise(np.random.default_rng(0)), ()) for swapped in (False, True))
        return [place for place, (a, b) in enumerate(zip(one, two, strict=True)) if not np.array_equal(a, b)]

    def _shuffled(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """The shuffled view: the likelihood that one of the reports, nobody knows which, is the person's."""
        protocol, source = self.protocol, FastNoise(rng)
        assert isinstance(protocol, ShuffleGaussian)
        sent = protocol.device.message(self._statistic((self.two if swapped else self.one)[0], (runs,)), source)
        mixer = protocol.mixer
        reports = mixer.close(mixer.add(mixer.empty((runs,)), sent)).numbers  # (runs, users, dim)
        return np.asarray(special.logsumexp(reports @ self.move / protocol.noise_std**2, axis=-1))[:, None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Script:
    """All releases that hold the canary."""

    releases: tuple[Release, ...]

    @property
    def event(self) -> Event:
        """What the person pays."""
        return CompositionEvent(events=tuple(each.protocol.event for each in self.releases))

    @property
    def leaks(self) -> float | None:
        """Surely, where one of them has no noise."""
        return 1.0 if any(each.clear for each in self.releases) else None

    @cached_property
    def mu(self) -> float | None:
        """The exact separation, where all noise is Gaussian."""
        moves = [each.moves for each in self.releases]
        if not moves or any(each is None for each in moves):
            return None
        return exact.separation([pair for each in moves if each is not None for pair in each])

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """The exact laws of all parts; nothing where one of them is not known."""
        parts = [each.pairs for each in self.releases]
        return () if any(each is None for each in parts) else tuple(pair for each in parts for pair in each or ())

    @cached_property
    def pure(self) -> float | None:
        """The exact pure loss, where all noise is Laplace."""
        losses = [each.pure for each in self.releases]
        return None if not losses or any(each is None for each in losses) else float(sum(filter(None, losses)))

    @property
    def chunk(self) -> int:
        """So many runs at once fit into a small memory."""
        return max(64, min(20_000, _NUMBERS // max(1, max(each.size for each in self.releases))))

    @cached_property
    def scored(self) -> bool:
        """Whether what is seen of each is about a logarithm of likelihoods, so that their sum says all."""
        return all(
            each.moves is not None or (isinstance(each.protocol, BatchProtocol) and not each.beside)
            for each in self.releases
        )

    def draw(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """What an observer of all of them sees, (runs, k)."""
        seen = np.concatenate([each.seen(swapped, runs, rng) for each in self.releases], axis=-1)
        return np.asarray(seen.sum(axis=-1, keepdims=True)) if self.scored else seen
