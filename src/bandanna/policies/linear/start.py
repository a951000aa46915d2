"""What a policy begins with: released sums of the reports of earlier people."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import stored_as


@stored_as("Start")
@dataclass(frozen=True, kw_only=True)
class Start:
    """The sum of `users` reports, released before, with noise of this variance in each coordinate: public numbers.

    epsilon, delta, trust  what was promised to those people, who are others than the policy's own
    """

    total: tuple[float, ...] = field(repr=False)
    users: int
    variance: float
    epsilon: float
    delta: float
    trust: str

    def __post_init__(self) -> None:
        require.store(self, require.whole, "users")
        require.store(self, require.non_negative, "variance")
        total = require.several("total", self.total, "the numbers of a released sum")
        object.__setattr__(self, "total", tuple(require.finite("total", each) for each in total))

    def check(self, dim: int) -> None:
        """Refuse sums of other reports than the policy's, and such as no sum of people has."""
        if len(self.total) != dim:
            raise InvalidArgument("start.total", f"{len(self.total)} numbers", f"{dim}, as a report of the policy has")
        if max(map(abs, self.total)) > 1e30 or self.variance > 1e60 or math.isnan(self.delta):
            raise InvalidArgument("start", "numbers of extreme size", "a sum of reports")

    def plus(self, total: Floats) -> Floats:
        """With the sums (*R, dim) of the policy's own users."""
        return np.asarray(total + np.array(self.total))
