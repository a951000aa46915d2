"""A stream whose noise does not depend on the data: exact sums, and what makes them the releases."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.mechanisms.sources.replicated import ReplicatedNoise


class PrefixSums:
    """Of seeds that stand at rounds of their own; the noise of the rounds of a chunk is held, no more."""

    def __init__(self, stream: Any, source: ReplicatedNoise, seeds: int) -> None:
        dim = stream.domain.dim
        self.sums = np.zeros((seeds, dim))  # exact: the server's secret
        self.start, self.stop, self.noise = 0, 0, np.zeros((seeds, 1, dim))  # after start, ..., stop rounds
        self._prefixes = stream.mechanism.prefix_noise(source, (seeds,))

    def draw(self, stop: int) -> None:
        """The noise of the prefixes up to round `stop`, in the law of the steps."""
        last, self.start, self.stop = self.noise[:, -1], self.stop, stop
        self.noise = np.zeros((len(last), self.stop - self.start + 1, last.shape[-1]))
        self.noise[:, 0] = last
        for t in range(1, self.noise.shape[1]):
            self.noise[:, t] = next(self._prefixes)

    def before(self, seeds: Ints, rounds: Ints) -> Floats:
        """Releases before rounds (s, B) and after the last, if nothing is added: (s, B + 1, dim)."""
        after = np.concatenate([rounds, rounds[:, -1:] + 1], axis=1)
        noise = self.noise[seeds[:, None], np.minimum(after, self.stop) - self.start]
        return np.asarray(self.sums[seeds, None] + noise)

    def add(self, seeds: Ints, leaves: Floats) -> None:
        """What the seeds' rounds have added."""
        self.sums[seeds] += leaves
