"""The tree of batches of concurrent shufflers: what is full on each level, and what fills."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.known import Known
from bandanna.policies.base import RunningSums
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.tasks.document import Task

_MOST = 48  # batches of a level that are drawn one by one


def tree_of(task: Task, known: Known) -> dict[str, Any] | None:
    """None for other tasks. Levels from the top down; on each, the batches inside the one above that fills.

    What is full was released; what fills counts the open slots of the running batch too, as its collector tells them.
    """
    if task.trust != "concurrent" or not isinstance(task.policy, RunningSums) or not known.points:
        return None
    stream = next(iter(task.policy.calibrated().values())).stream
    if not isinstance(stream, ConcurrentShuffle):
        return None
    tree, users = stream.tree, known.latest.users or 0
    told, running = known.filling, known.points[-1].epoch
    waiting = min(told.slots, tree.sizes[0]) if told is not None and told.epoch == running else 0
    digits = tree.covering(users).tolist()  # full batches of each level beside the full ones above
    levels = []
    for level in reversed(range(tree.levels)):
        size = tree.sizes[level]
        siblings = tree.degrees[level + 1] if level + 1 < tree.levels else tree.batches[level]
        inside = min(users % size + waiting, size)
        levels.append(
            {
                "level": level + 1,
                "users": size,
                "full": users // size,
                "batches": tree.batches[level],
                "siblings": siblings,
                "beside": digits[level],
                "filled": inside / size,
                "drawn": siblings <= _MOST,
            }
        )
    return {"levels": levels, "users": users}
