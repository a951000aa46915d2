"""What holds the canary, as a script of releases: run it under either neighbour, and see what an observer sees.

A policy's asks, or a protocol alone, come down to some batches and streams whose statistics differ in one person. The
script runs them by the protocols' own message path. Where all noise is Gaussian, a spy sees the exact separation of
the neighbours (`audit.spy`); laws of counts, answers and directions are computed (`audit.counts`, `audit.directions`).
"""

from __future__ import annotations

from dataclasses import dataclass
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
from bandanna.audit.spy import Moves, Spy, bypassed, frozen, moves_of, reused, uneven
from bandanna.audit.values import Leaf, arrays, columns_of, leaves
from bandanna.core.arrays import Floats
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import FastNoise
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian

_NUMBERS = 2_000_000  # that are held at once
_SINGLE = 256  # runs that are made one by one, in a block
SURE = 0.95  # that what all sources, or replays, show has a probability above delta
CLEAR = "something of the person is released as it is, without noise"
REUSED = "two releases have the same noise: their difference is known without noise"


def beside_total(estimates: list[Estimate]) -> list[Leaf]:
    """Every field of estimates but their totals."""
    found = [leaf for each in estimates for leaf in leaves(each)]
    return [(path, token) for path, token in found if not path.startswith(".total")]


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

    def estimates(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Estimate]:
        """The estimates after every step, along the messages."""
        steps = self.two if swapped else self.one
        if isinstance(self.protocol, BatchProtocol):
            return [self.protocol.release(self._statistic(step, replicates), source) for step in steps]
        assert isinstance(self.protocol, StreamProtocol)
        state, estimates = self.protocol.begin(replicates), []
        for step in steps:
            state, estimate = self.protocol.release(state, self._statistic(step, replicates), source)
            estimates.append(estimate)
        return estimates

    def totals(self, swapped: bool, source: FastNoise, replicates: tuple[int, ...]) -> list[Floats]:
        """Their totals, (*R, dim) each."""
        return [each.total for each in self.estimates(swapped, source, replicates)]

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
        return None if self.alone else self._noised

    @cached_property
    def _noised(self) -> Moves | None:
        if isinstance(self.protocol, ShuffleGaussian):
            return None
        found = moves_of(lambda swapped, spy: self.totals(swapped, spy, ()))
        return None if found is None or found[1] else found[0]

    @cached_property
    def beside(self) -> bool:
        """Whether something is seen beside what is noised: then samples of all that is seen must tell.

        Of Gaussian noise: what differs though all that was noised comes out the same. Of other noise: fields of the
        estimates beside the total that differ at all.
        """
        return bool(self._told) if self._noised is None else bypassed(self._shown)

    @cached_property
    def fixed(self) -> bool:
        """Whether other noise sources give the same estimates: then noise that is the same in all runs hides nothing.

        Answers of a few bits may agree by chance: samples of single runs tell.
        """
        return frozen(lambda source: self.estimates(False, source, ()))

    @property
    def alone(self) -> bool:
        """Whether every run is made by itself, as in a deployment, and all fields of what it shows are attacked."""
        return self.beside or self.fixed or self.uneven

    @cached_property
    def uneven(self) -> bool:
        """Whether the scale of the noise depends on the person: then no exact law that we know holds."""
        return uneven(lambda swapped, spy: self.estimates(swapped, spy, ()))

    @cached_property
    def reused(self) -> bool:
        """Whether a server adds the same noise to several releases: the difference of two of them has none.

        Answers of a few bits often agree by chance, so that this is asked of trusted servers alone.
        """
        batch = self.protocol.trust == "central" and isinstance(self.protocol, BatchProtocol)
        return batch and reused(lambda source: self.totals(False, source, ()))

    @cached_property
    def in_order(self) -> bool:
        """Whether a shuffler forwards reports in the order in which they come: then everybody's own is seen."""
        if not isinstance(self.protocol, ShuffleGaussian):
            return False
        sent = self.protocol.device.message(self._statistic(self.one[0], ()), FastNoise(np.random.default_rng(0)))
        mixer = self.protocol.mixer
        there, back = (np.array(mixer.close(mixer.add(mixer.empty(()), each)).numbers) for each in (sent, sent[::-1]))
        return bool(np.array_equal(there, back[::-1]))

    def _shown(self, swapped: bool, source: FastNoise) -> list[Any]:
        """What an observer is shown in one run: estimates, or in the local model every message, drawn once more."""
        return [self.estimates(swapped, source, ()), self._messages(swapped, source) if self._local else []]

    @property
    def _local(self) -> bool:
        return self.protocol.trust == "local" and isinstance(self.protocol, BatchProtocol)

    def _messages(self, swapped: bool, source: FastNoise) -> list[Any]:
        steps = self.two if swapped else self.one
        return list(arrays([self.protocol.device.message(self._statistic(step, ()), source) for step in steps]))

    @cached_property
    def _by_messages(self) -> bool:
        """Whether it is not the estimates that differ beside the noise, so that messages must."""
        return self._local and self.beside and not bypassed(lambda swapped, spy: self.estimates(swapped, spy, ()))

    @cached_property
    def _told(self) -> list[int]:
        """The places of those numbers beside the totals that differ for the neighbours, with the same noise."""
        one, two = (
            columns_of(beside_total(self.estimates(swapped, FastNoise(np.random.default_rng(0)), ())))
            for swapped in (False, True)
        )
        same = min(len(one), len(two))
        return [place for place in range(same) if one[place] != two[place]] + list(range(same, len(one)))

    def _single(self, swapped: bool, source: FastNoise) -> Floats:
        """What one run shows: every total along the move and other fields that differ, or messages along the move."""
        if self._by_messages:
            return np.concatenate([np.ravel(each @ self.move) for each in self._messages(swapped, source)])
        estimates = self.estimates(swapped, source, ())
        fields = columns_of(beside_total(estimates))
        columns = [float(np.sum(np.asarray(each.total) * self.move)) for each in estimates]
        return np.asarray(columns + [fields[place] if place < len(fields) else 0.0 for place in self._told])

    @cached_property
    def pairs(self) -> list[Pair] | None:
        """Independent parts of what is released, each by its exact laws; None where they are not known."""
        if self.moves is not None:
            return [exact.gaussian_pair(exact.separation(self.moves))]
        if self.in_order:
            assert isinstance(self.protocol, ShuffleGaussian)
            return [exact.gaussian_pair(float(np.linalg.norm(self.move)) / self.protocol.noise_std)]
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
        if self.alone:
            return np.stack([self._single(swapped, FastNoise(each)) for each in rng.spawn(runs)])
        if isinstance(self.protocol, ShuffleGaussian):
            return self._shuffled(swapped, runs, rng)
        if self.moves is not None:
            spy = Spy(rng, weights=[move / std**2 for move, std in self.moves])
            self.totals(swapped, spy, (runs,))
            return np.asarray(spy.score)[:, None]
        if isinstance(self.protocol, BatchProtocol):
            (total,) = self.totals(swapped, FastNoise(rng), (runs,))
            return np.asarray(total @ self.move / self.protocol.std(len(self.one[0])) ** 2)[:, None]
        views = self._views(swapped, FastNoise(rng), (runs,))
        return np.array([views[place] @ self.move for place in self._places]).reshape(-1, runs).T

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

    @cached_property
    def bare(self) -> tuple[str, float] | None:
        """Why no noise hides the person, and with which confidence, where that is so."""
        if any(each.clear for each in self.releases):
            return CLEAR, 1.0
        return (REUSED, SURE) if any(each.reused for each in self.releases) else None

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
        if self.alone:
            return _SINGLE
        return max(64, min(20_000, _NUMBERS // max(1, max(each.size for each in self.releases))))

    @cached_property
    def alone(self) -> bool:
        """Whether runs are made one by one: see `Release.alone`."""
        return any(each.alone for each in self.releases)

    @cached_property
    def scored(self) -> bool:
        """Whether what is seen of each is about a logarithm of likelihoods, so that their sum says all."""
        return all(
            each.moves is not None or (isinstance(each.protocol, BatchProtocol) and not each.alone)
            for each in self.releases
        )

    def draw(self, swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        """What an observer of all of them sees, (runs, k)."""
        seen = np.concatenate([each.seen(swapped, runs, rng) for each in self.releases], axis=-1)
        return np.asarray(seen.sum(axis=-1, keepdims=True)) if self.scored else seen
