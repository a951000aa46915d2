"""Seeds of a simulation side by side are the same runs as one by one."""

from __future__ import annotations

import numpy as np
import pytest

import bandanna as bd

from .catalogue import BY_MESSAGES, OF_EVERY_CLASS, Case, every_case, every_path
from .driving import simulated


@pytest.mark.often(of=lambda case, path: case.key in (OF_EVERY_CLASS if path == "law" else BY_MESSAGES))
@every_path
@every_case
def test_a_seed_gives_the_same_run_in_any_company(case: Case, path: str) -> None:
    together, options = simulated(case.key, path, seeds=2), {"path": path, "horizon": case.rounds, "checkpoints": 30}
    for place in range(2):
        single = bd.simulate(case.policy, case.env, n_seeds=1, seed=4 + place, **options)
        np.testing.assert_array_equal(together.regret[place], single.regret[0])
        np.testing.assert_allclose(together.rewards[place], single.rewards[0], rtol=0, atol=1e-9)
        assert {name: int(each[place]) for name, each in together.counts.items()} == {
            name: int(each[0]) for name, each in single.counts.items()
        }
