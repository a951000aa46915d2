"""All prefix sums of a stream with Gaussian noise: sampler and price as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.events import ContinualEvent
from bandanna.accounting.factorisation import BLT, BinaryTree, Factorisation
from bandanna.accounting.grid import fine_grid
from bandanna.core import require, sums
from bandanna.device.noise import finite, noise_source
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.mechanisms.continual import blt, tree
from bandanna.mechanisms.sources import NoiseSource

State = blt.BLTState | tree.TreeState


@dataclass(frozen=True, kw_only=True)
class ContinualGaussian:
    """Releases y = C x + z with z_i ~ N(0, std^2) as the stream x arrives, and estimates every prefix sum by B y.

    Symbols: A = B C `factorisation`; x_t in R^dim one element of the stream (a user's clipped statistic); Delta
    `sensitivity`, the l2 change of one element; M0 `participations`, the different elements that one user can change.

    Privacy: everything that can be computed from y (all prefixes at once) is mu-GDP for one user's replacement, with

        mu = Delta C.sensitivity(M0) / std                                                  (ideal noise, grid = 0),

    also if elements are chosen after seeing earlier releases, because C is lower triangular (Denisov et al. 2022). With
    grid > 0 released numbers are multiples of the grid; the accountant adds the rounding to the sensitivity. Each
    number is noised once and never again. The state holds raw sums: publish prefixes, never states.

    The caller clips: this class does not know the domain, and relies on `sensitivity`. The price takes C x as computed
    exactly; sums are pairs of floats (`core/sums.py`), so that it is within some parts in 2^100.

    `grid`: None for a `fine_grid`, which raises mu by less than 1 part in 10^4; 0.0 for ideal noise, which only a
    fast source accepts. Rounding moves each released number by at most grid / 2 and is not in `prefix_variance`.
    """

    factorisation: Factorisation
    std: float
    sensitivity: float
    dim: int = 1
    participations: int = 1
    grid: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.factorisation, BLT | BinaryTree):
            allowed = "a BLT or BinaryTree: others have no stream of bounded memory"
            raise InvalidArgument("factorisation", self.factorisation, allowed)
        require.store(self, require.positive, "std", "sensitivity")
        require.store(self, require.whole, "dim", "participations")
        if self.grid is not None:
            require.store(self, require.non_negative, "grid")
        if not self.event.grid <= self.std:  # stating the event checks every other parameter
            raise InvalidArgument("grid", self.grid, f"at most std = {self.std!r}")

    @cached_property
    def spacing(self) -> float:
        """The grid that is used: the given one, or the default for this noise; 0 is the ideal without a grid."""
        if self.grid is not None:
            return self.grid
        change = self.participations * self.sensitivity * self.factorisation.sensitivity()
        return fine_grid(self.std, change, self.dim * self.factorisation.releases(self.participations))

    @cached_property
    def event(self) -> ContinualEvent:
        """What the whole stream releases, to be priced before its first step."""
        return ContinualEvent(
            factorisation=self.factorisation,
            std=self.std,
            sensitivity=self.sensitivity,
            participations=self.participations,
            dim=self.dim,
            grid=self.spacing,
        )

    @cached_property
    def variances(self) -> NDArray[np.float64]:
        """`prefix_variance` of every step."""
        return self.prefix_variance(np.arange(1, self.factorisation.horizon + 1))

    def prefix_variance(self, steps: ArrayLike) -> NDArray[np.float64]:
        """Variance of the noise in each coordinate of the prefix sums at the (1-based) steps."""
        return np.asarray((self.std * self.factorisation.prefix_std(steps)) ** 2)

    def begin(self, replicates: tuple[int, ...] = ()) -> State:
        """The state before the first element, for independent streams side by side."""
        shape = (*replicates, self.dim)
        return blt.begin(self.factorisation, shape) if isinstance(self.factorisation, BLT) else tree.begin(shape)

    def step(
        self, state: State, value: ArrayLike, source: NoiseSource, *, rest: ArrayLike = 0.0
    ) -> tuple[State, NDArray[np.float64]]:
        """Take the next element, (*R, dim); return the next state and the noisy prefix sum, (*R, dim).

        `rest`: what an element that is an exact sum has beyond its float.

        The given state stays as it is. Stepping twice from one state would release the same data twice, with fresh
        noise: whoever restarts a stream must return the stored release instead (the ledger does).
        """
        if state.step >= self.factorisation.horizon:
            allowed = f"at most the horizon {self.factorisation.horizon}: the noise is priced for no more steps"
            raise InvalidArgument("step", state.step + 1, allowed)
        element = finite(value).copy()  # (*R, dim)
        if element.shape != state.total.shape:
            raise InvalidStatistic("value", element, f"shape {state.total.shape}")
        pair = element, np.broadcast_to(finite(rest), element.shape).copy()
        following = self._advance(state, pair, partial(self._release, noise_source(source)))
        return following, following.total.copy()

    def _release(self, source: NoiseSource, exact: sums.Pair) -> NDArray[np.float64]:
        """Exact numbers plus noise; on the grid point nearest to them where the source is secure."""
        centre = sums.nearest(exact, self.spacing) if source.secure and self.spacing > 0 else exact[0]
        return source.gaussian(centre, std=self.std, grid=self.spacing)

    def prefix_noise(self, source: NoiseSource, replicates: tuple[int, ...] = ()) -> Iterator[NDArray[np.float64]]:
        """What noise alone makes of the prefix sums, step by step: prefix = exact sum + this, in the law of `step`.

        For simulation with a fast source, which ignores the grid; a secure source is refused.
        """
        for block in self.noise_blocks(source, replicates):
            yield from np.moveaxis(block, -2, 0)

    def noise_blocks(self, source: NoiseSource, replicates: tuple[int, ...] = ()) -> Iterator[NDArray[np.float64]]:
        """The same, some steps at a time: (*R, steps, dim)."""
        if noise_source(source).secure:
            raise InsecureSource("noise without its data is a shortcut for simulation; a secure source runs every step")
        if not isinstance(self.factorisation, BLT):
            state, nothing = self.begin(replicates), np.zeros((*replicates, self.dim))
            for _ in range(self.factorisation.horizon):
                state, prefix = self.step(state, nothing, source)
                yield prefix[..., None, :]
            return

        def draw(steps: int) -> NDArray[np.float64]:
            return source.gaussian(np.zeros((*replicates, steps, self.dim)), std=self.std, grid=0.0)

        yield from blt.noise_blocks(self.factorisation, draw)

    def _advance(self, state: State, element: sums.Pair, release: Callable[[sums.Pair], blt.Array]) -> State:
        """By the factorisation's own stream."""
        if isinstance(self.factorisation, BLT) and isinstance(state, blt.BLTState):
            return blt.advance(self.factorisation, state, element, release)
        if isinstance(self.factorisation, BinaryTree) and isinstance(state, tree.TreeState):
            return tree.advance(state, element, release)
        raise InvalidArgument(
            "state", type(state).__name__, f"a state that begin() made for {self.factorisation.name!r}"
        )
