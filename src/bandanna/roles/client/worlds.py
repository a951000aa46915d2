"""Which world simulated users live in."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import bandanna.environments as environments
from bandanna.core import require
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.tasks.document import Task
from bandanna.tasks.forecast import world_for


def world_of(task: Task, name: str | None = None) -> Environment:
    """A typical one that fits the task's policy, or the one of this name, with the policy's numbers."""
    policy = task.policy
    if name is None:
        found = world_for(policy, task.arms)
        if found is None:
            raise InvalidArgument("environment", None, "a class of bandanna.environments: none is known to fit")
        return found
    known = {
        each: kind
        for each, kind in vars(environments).items()
        if isinstance(kind, type) and issubclass(kind, Environment) and is_dataclass(kind)
    }
    kind: Any = known[require.one_of("environment", name, tuple(known))]
    wanted = {"dim": getattr(policy, "dim", None), "n_arms": getattr(policy, "n_arms", None) or _arms(task)}
    taken = {each.name for each in fields(kind)}
    made: Environment = kind(**{each: value for each, value in wanted.items() if each in taken and value is not None})
    return made


def _arms(task: Task) -> int:
    return 5 if task.arms is None else len(task.arms.ids)
