"""The very instances on which paper 000's authors ran their figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.environments.published import PublishedLinear

_SEED = 2  # of NumPy's legacy generator, set once before the first instance is drawn


@dataclass(frozen=True, kw_only=True)
class AuthorsInstances(PublishedLinear):
    """Seed s has the authors' instance number s (s modulo `cycle` where that is given); rewards and noise are our own.

    The authors draw their fifty instances one after another from one legacy NumPy generator: for each the K (d-1)
    normal numbers of the arms, then the d-1 of theta. That stream is frozen by NumPy's policy, so these are the same
    arms and the same theta, bit by bit up to rounding. Seeds from 50 on continue the sequence.

    Reference: Chowdhury and Zhou 2022 [000], section 5; seed and order as in its authors' public code.
    """

    cycle: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cycle is not None:
            require.whole("cycle", self.cycle)

    def normals(self, streams: Streams) -> tuple[Floats, Floats]:
        """The authors' numbers for v and u."""
        numbers = np.array([seed if self.cycle is None else seed % self.cycle for seed in streams.seeds])
        legacy = np.random.RandomState(_SEED)
        drawn = legacy.standard_normal((int(numbers.max()) + 1, self.n_arms + 1, self.dim - 1))[numbers]
        return drawn[:, -1], drawn[:, :-1]
