"""Small policies written out in full, and what View, Table and Interactive DP say about them.

    View DP          neighbours are two lists of rewards r_1, ..., r_T that differ in one place
    Table DP         neighbours are two tables of potential rewards x_{t,a} that differ in one row, a user's
    Interactive DP   as Table DP, but an adversary answers each recommendation o_t by an arm q_t of his choice, and the
                     policy learns x_{t,q_t}; what he sees are the recommendations

Symbols: T `rounds`, K `arms`, R `rewards` (how many values a reward may take), o_t recommended, q_t asked, r_t reward.
Reference: Azize and Basu 2024 [004], Definitions 2 to 4. The last reward influences nothing and is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.definitions.losses import Definition
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument

Wholes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ExplicitPolicy:
    """A policy as the probability of every sequence of recommendations, given what it was told.

    paths       P(o_1, ..., o_T | q_1, r_1, ..., q_{T-1}, r_{T-1}), axes (..., o_1, q_1, r_1, o_2, ..., r_{T-1}, o_T)
    replicates  leading axes, for many policies at once

    A policy whose noise is kept from round to round (AdaC-UCB) has such an array too, though it is no product of rules.
    """

    paths: Floats
    replicates: int = 0

    def __post_init__(self) -> None:
        paths = np.asarray(self.paths, dtype=float)
        object.__setattr__(self, "paths", paths)
        require.store(self, require.whole, "replicates", least=0)
        if paths.shape[self.replicates :] != self._shape(self.rounds, self.arms, self.rewards):
            raise InvalidArgument("shape of paths", paths.shape, "(..., K, K, R, K, K, R, ..., K)")
        if not np.all(paths >= 0):
            raise InvalidArgument("paths", float(np.min(paths)), "probabilities >= 0")
        while paths.ndim > self.replicates + 1:  # what is recommended first does not know what is told later
            total = np.sum(paths, axis=-1)
            paths = total[..., 0, 0]
            if np.max(np.abs(total - paths[..., None, None])) > 1e-9:
                raise InvalidArgument("paths", "they look ahead", "recommendations that do not depend on later rewards")
        if np.max(np.abs(np.sum(paths, axis=-1) - 1)) > 1e-9:
            raise InvalidArgument("paths", float(np.max(np.sum(paths, axis=-1))), "probabilities that sum to 1")

    @classmethod
    def from_rules(cls, rules: Sequence[Any], *, rewards: int = 2) -> ExplicitPolicy:
        """pi_1, ..., pi_T: rule t is (..., (K R)^(t-1), K), one row of probabilities for every history.

        Histories (a_1, r_1, ..., a_{t-1}, r_{t-1}) are counted in lexicographic order, the latest reward fastest.
        """
        tables = [_table(t + 1, rule) for t, rule in enumerate(rules)]
        if not tables:
            raise InvalidArgument("rules", rules, "at least one rule")
        arms, width = tables[0].shape[-1], require.whole("rewards", rewards)
        paths = np.ones(())
        for t, table in enumerate(tables):
            if table.ndim != tables[0].ndim or table.shape[-2:] != ((arms * width) ** t, arms):
                raise InvalidArgument(f"shape of rule {t + 1}", table.shape, f"(..., {(arms * width) ** t}, {arms})")
            if not (np.all(table >= 0) and np.allclose(np.sum(table, axis=-1), 1, atol=1e-9)):
                raise InvalidArgument(f"rule {t + 1}", rules[t], "rows of probabilities that sum to 1")
            told = (slice(None), slice(None)) if t else ()
            split = table.reshape(*table.shape[:-2], *(arms, width) * t, arms)
            split = split[(..., *(None, *told) * t, slice(None))]  # the rule does not look at its own recommendations
            paths = paths[(..., *(None,) * (3 if t else 1))] * split
        return cls(paths=paths, replicates=tables[0].ndim - 2)

    @property
    def rounds(self) -> int:
        """T."""
        return (self.paths.ndim - self.replicates + 2) // 3

    @property
    def arms(self) -> int:
        """K."""
        return int(self.paths.shape[-1]) if self.paths.ndim else 0

    @property
    def rewards(self) -> int:
        """R."""
        return int(self.paths.shape[-2]) if self.rounds > 1 else 1

    @cached_property
    def view(self) -> Definition:
        """View DP: lists of rewards."""
        lists = np.array(list(product(range(self.rewards), repeat=self.rounds - 1)), dtype=np.int64)  # (n, T - 1)
        laws = self._read(np.broadcast_to(lists[..., None], (*lists.shape, self.arms)), self._played)
        return Definition(laws=laws, pairs=_neighbours(lists))

    @cached_property
    def table(self) -> Definition:
        """Table DP: tables of potential rewards."""
        return Definition(laws=self._read(self._tables, self._played), pairs=self._pairs)

    @cached_property
    def interactive(self) -> Definition:
        """Interactive DP: tables, and the best of all deterministic adversaries."""
        grid = np.indices((self.arms,) * (2 * self.rounds - 1))  # o_1, q_1, o_2, ..., o_T
        laws = self._read(self._tables, (list(grid[0::2]), list(grid[1::2])))
        return Definition(laws=laws, pairs=self._pairs, asked=(False, *(True, False) * (self.rounds - 1)))

    def seen_by(self, adversary: Sequence[Any]) -> Definition:
        """What one deterministic adversary sees: `q_t = adversary[t - 1][o_1, ..., o_t]` for t < T."""
        recommended, _ = self._played
        asked = [np.asarray(rule)[tuple(recommended[: t + 1])] for t, rule in enumerate(adversary)]
        return Definition(laws=self._read(self._tables, (recommended, asked)), pairs=self._pairs)

    @cached_property
    def _tables(self) -> Wholes:
        """All tables of potential rewards: (n, T - 1, K)."""
        rows = np.array(list(product(range(self.rewards), repeat=self.arms)), dtype=np.int64)  # (R^K, K)
        return rows[self._rows]

    @cached_property
    def _rows(self) -> Wholes:
        """Which row each user of each table has: (n, T - 1)."""
        return np.array(list(product(range(self.rewards**self.arms), repeat=self.rounds - 1)), dtype=np.int64)

    @cached_property
    def _pairs(self) -> Wholes:
        return _neighbours(self._rows)

    @cached_property
    def _played(self) -> tuple[list[Wholes], list[Wholes]]:
        """Recommendations that are followed: every sequence of T arms, in one axis."""
        sequences = np.indices((self.arms,) * self.rounds).reshape(self.rounds, -1)
        return list(sequences), list(sequences[:-1])

    def _read(self, tables: Wholes, path: tuple[list[Wholes], list[Wholes]]) -> Floats:
        """Probabilities of the outputs under each table (n, T - 1, K): (..., n, *outputs)."""
        recommended, asked = path
        index: list[Wholes] = []
        for t, q in enumerate(asked):
            index += [recommended[t], q, tables[:, t, :][:, q]]  # reward x_{t,q}: (n, *outputs)
        place: tuple[Any, ...] = (..., *index, recommended[-1])
        found: Floats = self.paths[place]
        return found.reshape(*self.paths.shape[: self.replicates], len(tables), *recommended[-1].shape)

    @staticmethod
    def _shape(rounds: int, arms: int, rewards: int) -> tuple[int, ...]:
        return (arms, arms, rewards) * (rounds - 1) + (arms,)


def _table(round: int, rule: Any) -> Floats:
    """Its rows of probabilities, or an error that names it."""
    try:
        table = np.asarray(rule, dtype=float)
    except (TypeError, ValueError):
        raise InvalidArgument(f"rule {round}", rule, "rows of probabilities, all of one length") from None
    if table.ndim < 2:
        raise InvalidArgument(f"rule {round}", rule, "a list of rows, one for every history; round 1 has one row")
    return table


def _neighbours(datasets: Wholes) -> Wholes:
    """Ordered pairs of rows (n, T - 1) that differ in at most one place: (2, pairs)."""
    apart = np.sum(datasets[:, None] != datasets[None], axis=-1)
    return np.array(np.nonzero(apart <= 1), dtype=np.int64)
