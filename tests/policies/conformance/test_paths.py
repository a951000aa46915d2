"""The simulator's shortcuts have the law of the messages.

Final regrets say that the whole run has one law, but are blunt: the noise of the first release is compared too, whose
rows are the same along both paths.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import bandanna as bd

from .catalogue import BY_MESSAGES, CASES, Case, every_case
from .driving import Way, again, drive
from .laws import one_law

SEEDS = 25
RELEASES = 100
DRAWN_OTHERWISE = {"UCB-episodes", "GOPE"}  # although there is no privacy; PE is among those by messages
PRIVATE = [key for key, case in CASES.items() if case.policy.privacy.noisy]


@pytest.mark.often(of=lambda case: case.key in BY_MESSAGES | DRAWN_OTHERWISE)
@every_case
def test_aggregates_have_the_law_of_messages(case: Case) -> None:
    """Regret along path="law" is another than along the messages (false alarms: 1e-5 for each algorithm)."""
    law, messages = (
        bd.simulate(case.policy, case.env, n_seeds=SEEDS, seed=20, path=path, horizon=case.rounds, checkpoints=2)
        for path in ("law", "messages")
    )
    assert one_law(law.regret[:, -1], messages.regret[:, -1])
    assert law.bits_per_user == messages.bits_per_user
    assert law.guarantee == messages.guarantee


def noise(case: Case, path: str) -> Any:
    """Of releases of a first episode less their exact sums: (releases, dim)."""
    policy = case.policy
    begun = drive(policy, case, Way(enough=1))
    first = [again(policy, begun, seed, path) for seed in range(RELEASES)]
    return np.array([asked.estimate.total - asked.exact for asked in first])


def differ(one: Any, two: Any) -> bool:
    """Whether noise has another mean or spread, by 4.9 standard errors of nearly normal numbers (1e-6 each)."""
    mean = (np.mean(one) - np.mean(two)) / math.sqrt((np.var(one) + np.var(two)) / one.size)
    spread = math.log(np.mean(one**2) / np.mean(two**2)) / math.sqrt(4 / one.size)
    return max(abs(mean), abs(spread)) > 4.9


@pytest.mark.parametrize("key", PRIVATE)
def test_the_noise_of_a_release_has_one_law(key: str) -> None:
    """Noise along path="law" has another mean or spread than along messages (false alarms: 4e-6 for each)."""
    assert not differ(noise(CASES[key], "law"), noise(CASES[key], "messages"))


def test_other_noise_is_noticed() -> None:
    """The comparisons would pass a shortcut with a fifth less noise, or a run with hardly any."""
    case = CASES["LinUCB-SDP-Vec"]
    assert differ(0.8 * noise(case, "law"), noise(case, "messages"))
    case = CASES["CDP-DPE"]
    less = replace(case.policy, privacy=bd.central(epsilon=500.0, delta=1e-3))
    law = bd.simulate(less, case.env, n_seeds=SEEDS, seed=20, path="law", checkpoints=2)
    messages = bd.simulate(case.policy, case.env, n_seeds=SEEDS, seed=20, path="messages", checkpoints=2)
    assert not one_law(law.regret[:, -1], messages.regret[:, -1])
