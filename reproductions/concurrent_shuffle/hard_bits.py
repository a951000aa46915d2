"""Hard inputs for counters: streams of bits on which every concurrent shuffle counter must err.

After a start of at most r equal bits, a single fair bit and r copies of another fair bit alternate, with

    r = rep_{n,k} = n^{1/(2k+1)} c^{2k/(2k+1)} / 2,      c = e^epsilon / (e^{2 epsilon} + 1).

A batch that is large enough to hide the single bits leaves the counter blind for r copies; smaller ones add up noise.
Reference: Tenenbaum, Kaplan, Mansour and Stemmer 2023 [002], section 4 and Theorem 4.1 (error Omega(rep_{n,k})).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import Streams

_FEW = 8


@dataclass(frozen=True, kw_only=True)
class HardBits:
    """The family Delta_{n,k}: n = `horizon`, k = `shufflers`, and a start of `start` bits that are all `first`."""

    horizon: int
    shufflers: int
    epsilon: float = 1.0
    start: int = 0
    first: int = 0

    def __post_init__(self) -> None:
        validation.integer("horizon", self.horizon)
        validation.integer("shufflers", self.shufflers)
        validation.epsilon(self.epsilon)
        if not 0 <= validation.integer("start", self.start, least=0) <= self.repeats:
            raise InvalidArgument("start", self.start, f"at most {self.repeats} bits")
        if self.first not in (0, 1):
            raise InvalidArgument("first", self.first, "0 or 1")

    @property
    def variance(self) -> float:
        """c_epsilon = e^epsilon / (e^{2 epsilon} + 1), written without overflow."""
        return 1 / (2 * math.cosh(min(self.epsilon, 700.0)))

    @property
    def lower_bound(self) -> float:
        """rep_{n,k}: the order of the error that no concurrent shuffle counter can avoid [002, Theorem 4.1]."""
        power = 1 / (2 * self.shufflers + 1)
        return float(0.5 * self.horizon**power * self.variance ** (2 * self.shufflers * power))  # [002, section 4]

    @property
    def repeats(self) -> int:
        """r as a whole number, at least 1."""
        return max(1, round(self.lower_bound))

    def proven(self, delta: float) -> bool:
        """Whether Theorem 4.1's conditions hold: delta < min(epsilon, 1)/(40 n (k+1)) and n c^2 > 200^2 Big_{n,k}."""
        n, k, c = self.horizon, self.shufflers, self.variance
        big = n ** ((2 * k - 1) / (2 * k + 1)) * c ** (2 / (2 * k + 1))  # Big_{n,k}
        return validation.delta(delta) < min(self.epsilon, 1.0) / (40 * n * (k + 1)) and n * c**2 > 200**2 * big

    def draw(self, streams: Streams) -> NDArray[np.float64]:
        """One stream of bits for each seed, from the stream "hard bits": (S, n)."""
        return self.bits(streams).astype(float)

    def bits(self, streams: Streams) -> NDArray[np.bool_]:
        """The same, an eighth as large."""
        fair = self._fair(streams)
        each = np.empty((*fair.shape[:2], 1 + self.repeats), dtype=bool)
        each[..., 0], each[..., 1:] = fair[..., 0], fair[..., 1:]
        return self._begun(np.full(self.start, bool(self.first)), each)

    def counts(self, streams: Streams) -> NDArray[np.int32]:
        """How many ones there are after every user, (S, n): in each block a one, or none, and then a slope."""
        fair = self._fair(streams).view(np.int8)
        single, copied = fair[..., 0], fair[..., 1].astype(np.int32)
        after = np.cumsum(single + self.repeats * copied, axis=1, dtype=np.int32)  # (S, blocks)
        after += self.first * self.start
        each = np.empty((*after.shape, 1 + self.repeats), dtype=np.int32)
        each[..., -1] = after
        for place in range(self.repeats if self.repeats < _FEW else 0, 0, -1):
            np.subtract(each[..., place], copied, out=each[..., place - 1])
        if self.repeats >= _FEW:  # broadcasting over few places takes several times as long
            missing = np.arange(self.repeats, -1, -1, dtype=np.int32)
            np.subtract(after[..., None], copied[..., None] * missing, out=each)
        return self._begun(self.first * np.arange(1, self.start + 1, dtype=np.int32), each)

    def _fair(self, streams: Streams) -> NDArray[np.bool_]:
        """(S, blocks, 2): the single bit, the copied one."""
        if not isinstance(streams, Streams):
            raise InvalidArgument("streams", streams, "Streams(seeds) of bandanna.numeric.rng, as Streams(range(20))")
        blocks = -(-self.horizon // (1 + self.repeats))
        words = np.ascontiguousarray(streams.sixteen_bits("hard bits", (-(-2 * blocks // 16),)))
        bits = np.unpackbits(words.view(np.uint8), axis=1, count=2 * blocks)
        return bits.view(bool).reshape(len(words), blocks, 2)

    def _begun(self, start: NDArray[Any], each: NDArray[Any]) -> NDArray[Any]:
        """After the start, the blocks, up to the horizon: (start,), (S, blocks, 1 + r) -> (S, n)."""
        rest = each.reshape(len(each), -1)
        if self.start:
            rest = np.concatenate([np.broadcast_to(start, (len(each), self.start)), rest], axis=1)
        return rest[:, : self.horizon]
