"""What is evaluated: with which probability a policy gives every arm to everybody in the log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.calling import result_of
from bandanna.core.domain import all_finite, numbers, reals
from bandanna.core.spelling import did_you_mean
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary, raise_alone
from bandanna.features.map import Map
from bandanna.logs.log import Log
from bandanna.logs.parts import listed
from bandanna.logs.showing import all_chances, check_fits
from bandanna.policies.base import Policy

_ROUNDING = 1e-6
_ALLOWED = (
    '"uniform", "arm:NAME", an agent, a pair (policy, snapshot), probabilities of the arms, or a function of contexts '
    "to probabilities (n, arms)"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """`chances` (n, K), whose rows add up to 1; `constant` (K,): the same for everybody, and therefore public."""

    name: str
    chances: Floats
    constant: Floats | None = None

    @property
    def largest(self) -> float:
        """No probability is larger: public."""
        return 1.0 if self.constant is None else float(self.constant.max())

    @property
    def arm(self) -> int | None:
        """The arm that everybody is given, if there is one."""
        if self.constant is None or self.constant.max() < 1:
            return None
        return int(np.argmax(self.constant))


@dataclass(frozen=True, kw_only=True, eq=False)
class Learned:
    """A policy and what it has learned; the names of its arms, and the map of its records, where it has them."""

    policy: Policy[Any]
    snapshot: Any
    arms: tuple[Any, ...] | None = None
    features: Map | None = None

    def seen(self, log: Log) -> Log:
        """The log with its arms in the policy's order: by name, or as they are where nobody has named the policy's."""
        known = getattr(self.policy, "n_arms", None)
        if known is None or self.arms is None or self.arms == tuple(range(known)) != log.names:
            return log
        return log.ordered(self.arms)


def target_of(
    log: Log, given: Any, name: str = "target", progress: Callable[[int, int, str], None] | None = None
) -> Target:
    """The target that somebody means, for the people in a log; `progress` is told of how many of them it is known."""
    if isinstance(given, Target):
        return given
    if isinstance(given, str):
        return _named(log, given, name)
    if isinstance(given, Policy):
        allowed = "with what it has learned: an agent, or a pair (policy, snapshot)"
        raise InvalidArgument(name, type(given).__name__, allowed)
    if isinstance(getattr(given, "policy", None), Policy) and hasattr(given, "snapshot"):  # an agent
        arms = getattr(given, "arms", None)
        return _of_policy(log, Learned(policy=given.policy, snapshot=given.snapshot, arms=arms), name, progress)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Policy):
        return _of_policy(log, Learned(policy=given[0], snapshot=given[1]), name, progress)
    if callable(given):
        return Target(name=getattr(given, "__name__", name).strip("<>"), chances=_called(log, given, name))
    chances = reals(name, given, _ALLOWED)
    if chances.shape == (log.n_arms,):
        if chances.min() < -_ROUNDING or not abs(chances.sum() - 1) <= _ROUNDING:
            raise InvalidArgument(name, chances.tolist(), "probabilities >= 0 that add up to 1, one for each arm")
        constant = _checked(log, np.broadcast_to(chances, (len(log), log.n_arms)), name)[0].copy()
        return Target(name=name, chances=np.broadcast_to(constant, (len(log), log.n_arms)), constant=constant)
    return Target(name=name, chances=_checked(log, chances, name))


def _named(log: Log, given: str, name: str) -> Target:
    """Always one arm, or any of those that could be given."""
    n, arms = len(log), log.n_arms
    if given == "uniform":
        if log.eligible is not None:
            return Target(name="uniform", chances=log.eligible / log.eligible.sum(axis=1, keepdims=True))
        constant = np.full(arms, 1 / arms)
        return Target(name="uniform", chances=np.broadcast_to(constant, (n, arms)), constant=constant)
    known = [str(each) for each in log.names]
    if not given.startswith("arm:") or given[4:] not in known:
        near = did_you_mean(given, ["uniform", *(f"arm:{each}" for each in known if not log.found)])
        allowed = "arm:NAME" if given.startswith("arm:") else _ALLOWED
        raise InvalidArgument(name, given, f"{near}{allowed}, for one of {listed(known[:20], found=log.found)}")
    constant = np.zeros(arms)
    constant[known.index(given[4:])] = 1.0
    chances = _checked(log, np.broadcast_to(constant, (n, arms)), name)
    return Target(name=f"always {given[4:]}", chances=chances, constant=constant)


def _of_policy(log: Log, learned: Learned, name: str, progress: Callable[[int, int, str], None] | None) -> Target:
    called = type(learned.policy).__name__
    check_fits(learned.policy, log)
    seen = learned.seen(log)
    try:
        chances = all_chances(learned.policy, learned.snapshot, seen, progress)
    except TypeError:  # whose text may hold a user's value
        raise_alone(InvalidArgument(name, called, "a policy whose devices choose by its snapshot"))
    return Target(name=called, chances=chances[:, [seen.names.index(each) for each in log.names]])


def _called(log: Log, function: Any, name: str) -> Floats:
    made = result_of(name, function, log.contexts, _ALLOWED)
    arms = numbers(f"{name}(contexts)", made, _ALLOWED)
    if arms.shape == (len(log),) and arms.dtype.kind in "iu":
        if arms.min() < 0 or arms.max() >= log.n_arms:
            raise InvalidStatistic(f"{name}(contexts)", arms, f"arms from 0 to {log.n_arms - 1}")
        return _checked(log, np.eye(log.n_arms)[arms], f"{name}(contexts)")
    return _checked(log, reals(f"{name}(contexts)", arms, _ALLOWED), f"{name}(contexts)")


def _checked(log: Log, chances: Floats, name: str) -> Floats:
    """Probabilities, rows that add up to 1, nothing for arms that could not be given."""
    if chances.shape != (len(log), log.n_arms):
        raise InvalidStatistic(
            f"shape of {name}", Summary(chances.shape), f"({len(log)}, {log.n_arms}), events and arms"
        )
    all_finite(name, chances)
    sums = chances.sum(axis=1)
    least, fine = chances.min(axis=1), np.abs(sums - 1) <= _ROUNDING
    if least.min() < -_ROUNDING:
        row = int(np.argmax(least < -_ROUNDING))
        raise InvalidStatistic(f"{name}, row {row}", Summary("a number below 0"), "probabilities, none below 0")
    if not fine.all():
        row = int(np.argmin(fine))
        raise InvalidStatistic(f"{name}, row {row}", Summary("another sum"), "probabilities that add up to 1")
    if log.eligible is not None and np.any(chances[~log.eligible] > _ROUNDING):
        row = int(np.argmax(np.any((chances > _ROUNDING) & ~log.eligible, axis=1)))
        raise InvalidStatistic(f"{name}, row {row}", Summary("an arm that was not eligible"), "eligible arms only")
    return np.maximum(chances, 0.0)
