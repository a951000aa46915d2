"""What the devices of a call choose, by the snapshot in force: checked, because a policy may be one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from bandanna.agent.plan import Batch
from bandanna.agent.release import coins_for
from bandanna.core.arrays import Floats
from bandanna.device.choice import Choice, Sampled, certain
from bandanna.errors import InvalidArgument, Summary
from bandanna.policies.base import Assigned, Policy

Chosen = tuple[int, float | Callable[[], float], int]  # an action, its probability or what computes it, a group or -1


def choices(
    policy: Policy[Any], snapshot: Any, batch: Batch, seen: Sequence[Floats], *, number: int, seed: int | None
) -> list[Chosen]:
    """Of decisions `number`, `number` + 1, ... with these `seen` features, (1, K, d) each; each by its own coins."""
    if len(seen) == 1:
        return alike(policy, snapshot, batch, seen[0], number=number, seed=seed)
    chosen: list[Chosen] = []
    for _, some in groupby(seen, key=_arms):
        contexts = np.concatenate(list(some))  # (users, K, d)
        chosen += alike(policy, snapshot, batch, contexts, number=number + len(chosen), seed=seed)
    return chosen


def _arms(each: Floats) -> int:
    """How many arms a set has."""
    return int(each.shape[1])


def alike(
    policy: Policy[Any], snapshot: Any, batch: Batch, contexts: Floats, *, number: int, seed: int | None
) -> list[Chosen]:
    """Of users with as many arms, (users, K, d)."""
    if isinstance(batch.episode, Assigned):
        places = (number - batch.begin + np.arange(len(contexts))) % batch.users
        return checked(policy, certain(batch.episode.arms_at(places)), contexts)
    return checked(policy, policy.act(snapshot, contexts, coins_for(seed, number)), contexts)


def checked(policy: Policy[Any], choice: Any, contexts: Floats) -> list[Chosen]:
    """Arms that are there, with probabilities that are some: what a policy of one's own says is not believed."""
    if (type(choice) is Choice or type(choice) is Sampled) and (one := _one(policy, choice, contexts.shape[1])):
        return [one]
    if not isinstance(choice, Choice):
        raise InvalidArgument(_name(policy), type(choice).__name__, "a Choice: actions and their probabilities")
    users, arms = contexts.shape[0], contexts.shape[1]
    actions = np.asarray(choice.actions)
    if actions.shape != (users,) or actions.dtype.kind not in "iu":
        given = f"{actions.dtype} {actions.shape}"
        raise InvalidArgument(f"{_name(policy)}: actions", given, f"{users} whole numbers")
    chosen: list[int] = actions.tolist()
    if min(chosen) < 0 or max(chosen) >= arms:
        raise InvalidArgument(f"{_name(policy)}: actions", Summary("some outside"), f"numbers of arms, 0 to {arms - 1}")
    groups = [-1] * users if choice.groups is None else choice.groups.tolist()
    if isinstance(choice, Sampled):  # whose probabilities are computed when somebody looks
        later = [partial(_chance, policy, choice, place) for place in range(users)]
        return list(zip(chosen, later, groups, strict=True))
    return list(zip(chosen, _chances(policy, choice), groups, strict=True))


def _one(policy: Policy[Any], choice: Choice, arms: int) -> Chosen | None:
    """What one device has chosen, if it is what it should be; None: it has to be looked at."""
    actions = choice.actions
    if type(actions) is not np.ndarray or actions.shape != (1,) or actions.dtype.kind not in "iu":
        return None
    action = actions.item()
    if choice.groups is not None or not 0 <= action < arms:
        return None
    if type(choice) is Sampled:  # whose probability is computed when somebody looks
        return action, partial(_chance, policy, choice, 0), -1
    chances = choice.probabilities
    if type(chances) is not np.ndarray or chances.shape != (1,):
        return None
    chance = chances.item()
    return (action, chance, -1) if 0 < chance <= 1 + 1e-9 else None


def _chances(policy: Policy[Any], choice: Choice) -> list[float]:
    """The probabilities of a choice."""
    array = np.asarray(choice.probabilities)
    chances: list[float] = array.tolist()
    users = len(choice.actions)
    if array.shape != (users,) or [chance for chance in chances if not 0 < chance <= 1 + 1e-9]:
        raise InvalidArgument(f"{_name(policy)}: probabilities", Summary.of(array), f"{users} numbers in (0, 1]")
    return chances


def _chance(policy: Policy[Any], choice: Choice, place: int) -> float:
    """One of them."""
    return _chances(policy, choice)[place]


def _name(policy: Policy[Any]) -> str:
    return f"{type(policy).__name__}.act"
