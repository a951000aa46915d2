"""Work in several processes."""

from __future__ import annotations

import numpy as np

from reproductions.figure import gather


def test_several_processes_give_the_same_values() -> None:
    seen: list[tuple[int, int]] = []
    tasks = [{"start": start, "stop": start + 3, "num": 4} for start in range(5)]
    one = gather(np.linspace, tasks)
    two = gather(np.linspace, tasks, jobs=2, progress=lambda done, total, what: seen.append((done, total)))
    np.testing.assert_array_equal(one, two)
    assert seen == [(done, 5) for done in range(6)]


def test_progress_says_what_ended() -> None:
    said: list[str] = []
    tasks = [{"algorithm": "DPE", "alpha": 0.5, "epsilon": None, "n_seeds": 2, "seed": 7}]
    gather(dict, tasks, progress=lambda done, total, what: said.append(what))
    assert said == ["", "DPE, alpha = 0.5"]
