"""Whether two ways to run the same worlds have one law: by the final regrets of their seeds, paired."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-5  # of one comparison, if the laws are one


def one_law(one: Any, two: Any) -> bool:
    """Whether a t-test of the seeds' differences (S,), which are the same worlds, finds none."""
    differences = np.asarray(one) - np.asarray(two)
    if np.ptp(differences) == 0:
        return bool(differences[0] == 0)
    return bool(stats.ttest_1samp(differences, 0.0).pvalue > FALSE_ALARM)
