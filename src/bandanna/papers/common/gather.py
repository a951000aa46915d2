"""Many runs side by side: in this process, or in several."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, TypeVar

from bandanna.core import require
from bandanna.errors import WeakPrivacyWarning
from bandanna.experiments.workers import Progress, call_all, call_here, silent

Value = TypeVar("Value")


def gather(
    function: Callable[..., Value],
    tasks: Sequence[Mapping[str, Any]],
    *,
    jobs: int = 1,
    progress: Progress = silent,
) -> list[Value]:
    """`function(**task)` for every task, in their order; in processes of their own where there are `jobs` > 1."""
    jobs, found = require.whole("jobs", jobs), dict[int, Value]()
    progress(0, len(tasks), "")
    numbered = dict(enumerate(tasks))
    run = partial(_with_budgets_as_printed, function)
    with closing(call_here(run, numbered) if jobs == 1 else call_all(run, numbered, jobs=jobs)) as ended:
        for index, value in ended:
            found[index] = value
            progress(len(found), len(tasks), _words(tasks[index]))
    return [found[index] for index in range(len(tasks))]


def _with_budgets_as_printed(function: Callable[..., Value], **task: Any) -> Value:
    """Call `function` without warnings of weak budgets: papers chose them, and figures state what they give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", WeakPrivacyWarning)
        return function(**task)


def _words(task: Mapping[str, Any]) -> str:
    """What a task is about: words as they are, numbers with their names."""
    words = [value for value in task.values() if isinstance(value, str)]
    numbers = {name: value for name, value in task.items() if isinstance(value, int | float) and "seed" not in name}
    return ", ".join([*words, *(f"{name} = {value:g}" for name, value in numbers.items())])
