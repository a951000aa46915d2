"""Policies that have learned something, where they are: an exported task, its analyzer's address, an agent's save."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from bandanna.core import require
from bandanna.core.spelling import did_you_mean
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.ope.targets import Learned

_ALLOWED = (
    'a target is "uniform", "arm:NAME", the folder of `bandanna task export`, its analyzer\'s address, or a saved agent'
)


def learned_at(place: str) -> Learned:
    """Policy and newest snapshot, arms and features: signed and verified where a task has published them."""
    if place.startswith(("http://", "https://")):
        from bandanna.tasks.exporting import newest
        from bandanna.tasks.finding import analyzer_of, find_task

        task = find_task(place)
        return _of_task(task, newest(task, analyzer_of(task, place)).content)
    path = require.path("target", place, folder=True)
    if path.is_dir():
        return _exported(path)
    if path.is_file():
        from bandanna.agent import Agent

        agent = Agent.load(path, release="manual")
        return Learned(policy=agent.policy, snapshot=agent.snapshot, arms=agent.arms, features=agent.features)
    raise InvalidArgument("target", place, f"there is no such file; {did_you_mean(path.name, _beside(path))}{_ALLOWED}")


def _beside(path: Path) -> list[str]:
    """What else is in its folder, and the words that are no files."""
    names = ["uniform"]
    with suppress(OSError):
        names += [each.name for each in islice(path.absolute().parent.iterdir(), 1000) if each.suffix != ".journal"]
    return names


def _exported(folder: Path) -> Learned:
    from bandanna.tasks.exporting import verified

    task, published = verified(folder)
    if not published:
        raise BandannaError(f"{folder} has no publications: fetch them with `bandanna task export`")
    return _of_task(task, published[-1].content)


def _of_task(task: Any, content: dict[str, Any]) -> Learned:
    from bandanna.agent.kinds import encoding_of

    snapshot, arms = encoding_of().loads(content["snapshot"]), task.arms
    return Learned(
        policy=task.policy, snapshot=snapshot, arms=None if arms is None else arms.ids, features=task.features
    )
