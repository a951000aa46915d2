"""Deterministic adversaries of Interactive DP, one by one: the plain route beside backward induction."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna.accounting.definitions.policy import ExplicitPolicy

Adversary = tuple[NDArray[np.int64], ...]  # q_t = adversary[t - 1][o_1, ..., o_t], t = 1, ..., T - 1


def adversaries(*, rounds: int, arms: int) -> Iterator[Adversary]:
    """Every deterministic adversary: prod_{t<T} K^(K^t) of them; 64 for T = 3, K = 2 and 27 for T = 2, K = 3."""
    shapes = [(arms,) * t for t in range(1, rounds)]
    sizes = [arms**t for t in range(1, rounds)]
    for questions in product(range(arms), repeat=sum(sizes)):
        parts = np.split(np.array(questions, dtype=np.int64), np.cumsum(sizes)[:-1]) if sizes else []
        yield tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def identity(*, rounds: int, arms: int) -> Adversary:
    """The adversary who asks for what is recommended: Interactive DP against him is Table DP."""
    return tuple(np.indices((arms,) * t, dtype=np.int64)[-1] for t in range(1, rounds))


def pretending(policy: ExplicitPolicy, adversary: Adversary) -> ExplicitPolicy:
    """pi^B of [004], Proposition 2(b): plays on its own, but believes that q_t = B(o_1, ..., o_t) was played.

    Its rewards are x_{t,o_t}, those of its own arms, where the adversary's view has x_{t,q_t}.
    """
    arms, rewards, lead = policy.arms, policy.rewards, policy.paths.shape[: policy.replicates]
    own = np.indices(policy.paths.shape[policy.replicates :])  # axes o_1, q_1, r_1, ..., o_T; now q_t is its own arm
    index: list[NDArray[np.int64]] = list(own)
    for t, rule in enumerate(adversary):
        index[3 * t + 1] = rule[tuple(own[3 * s + 1] for s in range(t + 1))]
    place: tuple[Any, ...] = (..., *index)
    paths = policy.paths[place].reshape(*lead, *(arms, arms, rewards) * (policy.rounds - 1), arms)
    return ExplicitPolicy(paths=paths, replicates=policy.replicates)
