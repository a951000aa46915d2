"""The simulator's shortcuts have the law of the messages.

Final regrets say that the whole run has one law, but are blunt: the noise of the first release is compared too, whose
rows are the same along both paths.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import bandanna as bd

from .catalogue import BY_MESSAGES, CASES, Case, every_case
from .driving import SEEDS, Seen, Way, again, drive, simulated
from .laws import one_law

RELEASES = 100
DRAWN_OTHERWISE = {"UCB-episodes", "GOPE"}  # although there is no privacy; PE is among those by messages
PRIVATE = [key for key, case in CASES.items() if case.policy.privacy.noisy]


@pytest.mark.often(of=lambda case: case.key in BY_MESSAGES | DRAWN_OTHERWISE)
@every_case
def test_aggregates_have_the_law_of_messages(case: Case) -> None:
    law, messages = (simulated(case.key, path, seeds=SEEDS) for path in ("law", "messages"))
    assert one_law(law.regret[:, -1], messages.regret[:, -1])
    assert law.bits_per_user == messages.bits_per_user
    assert law.guarantee == messages.guarantee


@cache
def begun(key: str) -> Seen:
    """The first episode of a run."""
    return drive(CASES[key].policy, CASES[key], Way(enough=1))


@cache
def noise(key: str, path: str) -> Any:
    """Of releases of a first episode less their exact sums: (releases, dim)."""
    first = [again(CASES[key].policy, begun(key), seed, path) for seed in range(RELEASES)]
    return np.array([asked.estimate.total - asked.exact for asked in first])


def differ(one: Any, two: Any) -> bool:
    """Whether noise has another mean or spread, by 4.9 standard errors of means over releases (1e-6 each).

    Releases are independent; the coordinates of one need not be, nor are they normal (random directions).
    """

    def apart(first: Any, second: Any) -> float:
        error = math.sqrt((np.var(first) + np.var(second)) / RELEASES)
        return abs(float(np.mean(first) - np.mean(second))) / error

    means, squares = ([part.mean(axis=1) for part in pair] for pair in ((one, two), (one**2, two**2)))
    return max(apart(*means), apart(*squares)) > 4.9


@pytest.mark.often(of=lambda key: key in BY_MESSAGES | {"LinTS-SDP", "LinTS per arm", "SDP-DPE", "DP-SE"})
@pytest.mark.parametrize("key", PRIVATE)
def test_the_noise_of_a_release_has_one_law(key: str) -> None:
    assert not differ(noise(key, "law"), noise(key, "messages"))


def test_a_fifth_less_noise_is_noticed() -> None:
    assert differ(0.8 * noise("LinUCB-SDP-Vec", "law"), noise("LinUCB-SDP-Vec", "messages"))
    case = CASES["CDP-DPE"]
    less = replace(case.policy, privacy=bd.central(epsilon=500.0, delta=1e-3))
    law = bd.simulate(less, case.env, n_seeds=SEEDS, seed=4, path="law", checkpoints=2)
    messages = simulated(case.key, "messages", seeds=SEEDS)
    assert not one_law(law.regret[:, -1], messages.regret[:, -1])
