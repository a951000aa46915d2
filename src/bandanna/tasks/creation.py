"""Makes a task from its file: all is checked and calibrated; keys are drawn here, or by each role that joins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.tables import inside, read_toml
from bandanna.errors import BandannaError
from bandanna.storage import files
from bandanna.tasks.beginning import first_batches
from bandanna.tasks.document import ROLES, Secrets, Task, content_of
from bandanna.tasks.forecast import forecast
from bandanna.tasks.keyring import Keys, seals_reports
from bandanna.tasks.rules import arms_of, calibrate, max_age_of, mixers_of, policy_of, schema_of, urls_of
from bandanna.tasks.sight import deployed_guarantee
from bandanna.tasks.toml import Wanted, wanted


def create(
    source: str | PathLike[str] | Mapping[str, Any], *, expect: bool = True, keys: Keys | None = None
) -> tuple[Task, list[Secrets]]:
    """The task of a file (or of what would stand there), and the secrets of its roles.

    expect  whether the expected regret is simulated
    keys    of tests that want the same document again; else new ones are drawn
    """
    if isinstance(source, Mapping):
        return _created(wanted(source), expect, keys)
    path = require.path("file", source)
    document = {"title": path.stem, **read_toml(path)}
    with inside(f"{path}: "):
        return _created(wanted(document), expect, keys)


def draft(source: str | PathLike[str], *, expect: bool = True) -> Task:
    """The task of a file without any keys, for its roles to join (`tasks.join`)."""
    path = require.path("file", source)
    with inside(f"{path}: "):
        return Task.made(_content(wanted({"title": path.stem, **read_toml(path)}), expect))


def _created(want: Wanted, expect: bool, keys: Keys | None) -> tuple[Task, list[Secrets]]:
    content = _content(want, expect)
    made = Task.made(content)
    keys = Keys.drawn(mixers=made.mixers, sealed=seals_reports(made)) if keys is None else keys
    task = Task.made({**content, "keys": keys.public(), "dealer": True})
    task = Task.from_bytes(task.document, task.id)  # as every party will have it
    return task, [keys.of(role, task) for role in task.roles]


def _content(want: Wanted, expect: bool) -> dict[str, Any]:
    """The parts of a task's document, but for its keys."""
    policy = policy_of(want)
    mixers, max_age, arms = mixers_of(want, policy), max_age_of(want, policy), arms_of(want, policy)
    urls, schema = urls_of(want, mixers), schema_of(want, policy)
    with _numbers():
        calibrate(policy)
        batches = first_batches(policy, arms, mixers=mixers, seeded=want.seed is not None)
    stated = deployed_guarantee(policy, batches[:1], mixers=mixers)
    return content_of(
        policy,
        arms=arms,
        title=want.title,
        algorithm=want.algorithm,
        mixers=mixers,
        grace=want.grace,
        close=want.close,
        max_age=max_age,
        urls=urls,
        seed=want.seed,
        test=want.test,
        guarantee=stated.to_dict(),
        promise=str(stated),
        expected=forecast(policy, arms) if expect else None,
        schema=schema,
    )


@contextmanager
def _numbers() -> Iterator[None]:
    """What floats or the memory cannot hold is refused as any other argument."""
    try:
        with np.errstate(all="ignore"):
            yield
    except BandannaError:
        raise
    except (ArithmeticError, MemoryError, ValueError) as error:
        said = f"{type(error).__name__}: {error}"
        raise BandannaError(f"policy: its first batches cannot be planned with these numbers ({said})") from error


def write(folder: str | PathLike[str], task: Task, secrets: Sequence[Secrets]) -> None:
    """The document and a file of secrets for each role; a folder that has another task is left as it is."""
    place = require.path("folder", folder, folder=True)
    check_free(place, task)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BandannaError(f"{place} cannot be made: {error.strerror or error}") from error
    for each in secrets:
        each.write(place)
    files.write(place / "task.json", task.document.decode("ascii"))  # last: a folder with a task is whole


def check_free(folder: Path, task: Task | None = None) -> None:
    """Refuse a folder in which a task is that is not this one, or secrets of one."""
    held = [each for each in ("task.json", *(f"{role}.secret.json" for role in ROLES)) if (folder / each).exists()]
    if not held or (task is not None and held[0] == "task.json" and _same(folder, task)):
        return
    raise BandannaError(f"{folder} has a task already ({', '.join(held)}): take another folder, or remove it")


def _same(folder: Path, task: Task) -> bool:
    try:
        return Task.read(folder).id == task.id
    except BandannaError:
        return False
