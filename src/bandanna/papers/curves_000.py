"""One curve of paper 000, what its noise really gives, and how many of them are computed side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from bandanna.accounting import accountant
from bandanna.accounting.events import ContinualEvent, RepetitionEvent
from bandanna.core import require
from bandanna.experiments.workers import call_all
from bandanna.policies.linucb import LinUCB
from bandanna.simulation.result import Result

Value = TypeVar("Value")
Progress = Callable[[int, int, str], None]  # done, total, what ended last


def silent(done: int, total: int, what: str) -> None:
    """No progress is shown."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One algorithm in one panel: what was run, and what its noise really gives.

    true_epsilon is stated at the nominal delta, true_delta at the nominal epsilon; true_kind is "exact", "upper" (the
    truth is at most this), "lower" (at least this), "none" (nothing is protected), or None without privacy.
    result is None where there was nothing to run, and `note` then says why. participations is None in figures 1 and 2,
    whose users come once.
    """

    algorithm: str
    variant: str
    dim: int
    epsilon: float
    delta: float
    true_epsilon: float | None = None
    true_delta: float | None = None
    true_kind: str | None = None
    result: Result | None
    participations: int | None = None
    note: str = ""

    def row(self) -> dict[str, Any]:
        """Plain values for JSON; infinities, and what is not known, are None."""
        epsilon = self.true_epsilon
        row = {
            "algorithm": self.algorithm,
            "variant": self.variant,
            "dim": self.dim,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "true_epsilon": None if epsilon is None or math.isinf(epsilon) else epsilon,
            "true_delta": self.true_delta,
            "true_kind": self.true_kind,
            **ending(self.result),
        }
        if self.participations is not None:
            row |= {"participations": self.participations, "note": self.note}
        return row


def ending(result: Result | None) -> dict[str, Any]:
    """Mean and standard error at the horizon; None where there is none."""
    if result is None:
        return {"mean": None, "stderr": None, "n_seeds": None, "horizon": None}
    stderr = float(result.stderr()[-1])
    return {
        "mean": float(result.mean()[-1]),
        "stderr": None if math.isnan(stderr) else stderr,  # a single seed
        "n_seeds": result.n_seeds,
        "horizon": result.horizon,
    }


def true_numbers(policy: LinUCB, epsilon: float, delta: float) -> dict[str, Any]:
    """true_epsilon, true_delta and true_kind of a policy of ours, for all participations of a user together.

    Exact for Gaussian noise on one report after the other; an upper bound where users are shuffled, and in the central
    model for returning users, whose changes are added up by the triangle inequality.
    """
    if not policy.privacy.noisy:
        return {}
    protocol, times = policy.channel.protocols[policy.channel.sizes[0]], policy.privacy.participations
    continual = isinstance(protocol.event, ContinualEvent)  # covers all participations already
    whole = protocol.event if continual or times == 1 else RepetitionEvent(event=protocol.event, times=times)
    exact = policy.privacy.model == "local" or (continual and times == 1)
    return {
        "true_epsilon": policy.guarantee.epsilon,
        "true_delta": accountant.delta_near(whole, epsilon, delta),
        "true_kind": "exact" if exact else "upper",
    }


def gather(
    function: Callable[..., Value],
    tasks: Sequence[Mapping[str, Any]],
    *,
    jobs: int = 1,
    progress: Progress = silent,
    label: Callable[[Mapping[str, Any]], str] = lambda task: "",
) -> list[Value]:
    """`function(**task)` for every task, in their order; in processes of their own where there are `jobs` > 1."""
    jobs, found = require.whole("jobs", jobs), dict[int, Value]()
    progress(0, len(tasks), "")
    here = ((index, function(**task)) for index, task in enumerate(tasks))
    with closing(here if jobs == 1 else call_all(function, dict(enumerate(tasks)), jobs=jobs)) as ended:
        for index, value in ended:
            found[index] = value
            progress(len(found), len(tasks), label(tasks[index]))
    return [found[index] for index in range(len(tasks))]
