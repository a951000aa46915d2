"""Shuffler of the shuffled Gaussian protocol: it forgets the order, and knows nothing else.

A sorted batch says exactly as much as one in random order: both are made from the multiset of reports alone, and each
from the other. So the shuffler needs no randomness, and none that could be used twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bandanna.device import Messages
from bandanna.protocols.roles import Gathering, Held
from bandanna.storage.declared import stored_as


@stored_as("SortingMixer")
@dataclass(frozen=True, kw_only=True)
class Sorting(Gathering):
    """Forwards the reports of a batch in an order that only they decide."""

    def close(self, held: Held) -> Held:
        """Sorted by the first number, then by the second, and so on."""
        return replace(super().close(held), numbers=in_order(held.numbers))


def in_order(reports: Messages) -> Messages:
    """Rows in lexicographic order, (..., users, dim), in every replicate by itself."""
    order = np.lexsort(np.moveaxis(reports, -1, 0)[::-1])  # (..., users)
    return np.take_along_axis(reports, order[..., None], axis=-2)
