"""What a policy is shown of logged events, and with which probability it chooses what was given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import GeneratorCoins, NumberedCoins
from bandanna.device.choice import Choice
from bandanna.errors import InvalidArgument
from bandanna.logs.coins import SlotCoins
from bandanna.logs.log import Log
from bandanna.policies.base import Policy

_DRAWS, _MOST = 64, 1024  # of a policy that does not state all probabilities: every arm of a tie of as many is seen
_PART = 1024  # events whose probabilities are computed at once


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Some events as a policy sees them: features of every arm, and which arms could be given."""

    contexts: Floats  # (n, K, d)
    eligible: Bools | None  # (n, K)

    def groups(self) -> Iterator[tuple[Ints, Ints]]:
        """Events that have the same arms: their rows, and those arms."""
        n, arms = self.contexts.shape[:2]
        if self.eligible is None:
            yield np.arange(n), np.arange(arms)
            return
        patterns, which = np.unique(self.eligible, axis=0, return_inverse=True)
        for place, pattern in enumerate(patterns):
            yield np.flatnonzero(which.ravel() == place), np.flatnonzero(pattern)

    def act(self, policy: Policy[Any], snapshot: Any, coins: SlotCoins) -> Choice:
        """The arm of every event, among those that could be given, and its probability.

        Coins are the slots' own: which arms somebody else could be given moves nobody's.
        """
        n = len(self.contexts)
        actions, chances = np.zeros(n, dtype=np.int64), np.ones(n)
        groups: Ints | None = None
        for rows, arms in self.groups():
            own = coins if self.eligible is None else coins.at(rows, n)
            choice = policy.act(snapshot, policy.seen(self.contexts[np.ix_(rows, arms)]), own)
            actions[rows] = arms[choice.actions]
            if not hasattr(policy, "probabilities"):  # those that state them all are asked when somebody wants them
                chances[rows] = choice.probabilities
            if choice.groups is not None:
                groups = np.zeros(n, dtype=np.int64) if groups is None else groups
                groups[rows] = choice.groups
        return Choice(actions=actions, probabilities=chances, groups=groups)


def shown_to(policy: Policy[Any], log: Log, part: slice) -> Shown:
    """Features where the policy has any, else arms without features."""
    contexts = log.arm_contexts()[part]
    if not hasattr(policy, "dim"):
        contexts = np.zeros((*contexts.shape[:2], 0))
    return Shown(contexts=np.ascontiguousarray(contexts), eligible=None if log.eligible is None else log.eligible[part])


def check_fits(policy: Policy[Any], log: Log) -> None:
    """Refuse a log with other arms or features than the policy has."""
    wanted = getattr(policy, "n_arms", None)
    if wanted is not None and wanted != log.n_arms:
        raise InvalidArgument("log", f"{log.n_arms} arms", f"{wanted}, as many as the policy has")
    dim = getattr(policy, "dim", None)
    if dim is not None and dim != log.dim:
        raise InvalidArgument("log", f"{log.dim} features", f"{dim}, as many as the policy has (context= of the log)")
    if wanted is not None and log.eligible is not None:
        allowed = "one in which all arms are eligible: this policy knows its arms by number, and plays any of them"
        raise InvalidArgument("log", "a log with eligible arms", allowed)
    if wanted is None and dim is not None and log.of_users:
        allowed = "features of arms, as this policy's; for features of users: LinTS(n_arms=, features=)"
        raise InvalidArgument("log", "features of users", allowed)


def chances_of(policy: Policy[Any], snapshot: Any, shown: Shown, arms: Ints, choice: Choice) -> Floats:
    """With which probability the policy gives these arms, (n,): stated, or 1 where its own draw agrees, else 0.

    The second has the first as its mean, so that weights made of it are unbiased too.
    """
    if not hasattr(policy, "probabilities"):
        return np.asarray(choice.actions == arms, dtype=float)
    chances = np.zeros(len(arms))
    for rows, able in shown.groups():
        place = np.searchsorted(able, arms[rows])
        chances[rows] = policy.probabilities(snapshot, policy.seen(shown.contexts[np.ix_(rows, able)]), place)[0]
    return np.clip(chances, 0.0, 1.0)


def all_chances(
    policy: Policy[Any], snapshot: Any, log: Log, progress: Callable[[int, int, str], None] | None = None
) -> Floats:
    """With which probability the policy gives every arm, (n, K); rows add up to 1.

    Policies that state them are asked. Of others the choice and its stated probability are drawn until all of the
    probability has been seen: exact for one arm, or up to 1,024 that are tied. A row depends on nobody else's.
    `progress` is told how many events of how many are done.
    """
    found = np.zeros((len(log), log.n_arms))
    for begin in range(0, len(log), _PART):
        shown = shown_to(policy, log, slice(begin, begin + _PART))
        for rows, able in shown.groups():
            contexts = policy.seen(shown.contexts[np.ix_(rows, able)])
            stated = _stated(policy, snapshot, contexts) if hasattr(policy, "probabilities") else None
            part = _drawn(policy, snapshot, contexts) if stated is None else stated
            found[np.ix_(begin + rows, able)] = part
        if progress is not None:
            progress(min(begin + _PART, len(log)), len(log), type(policy).__name__)
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _stated(policy: Any, snapshot: Any, contexts: Floats) -> Floats:
    """Arm by arm."""
    n, arms = contexts.shape[:2]
    columns = [policy.probabilities(snapshot, contexts, np.full(n, k))[0] for k in range(arms)]
    return np.asarray(np.clip(np.stack(columns, axis=1), 0.0, 1.0))


def _drawn(policy: Policy[Any], snapshot: Any, contexts: Floats) -> Floats:
    n, arms = contexts.shape[:2]
    chances, rows = np.zeros((n, arms)), np.arange(n)
    for draw in range(min(max(_DRAWS, 1 << (arms - 1).bit_length()), _MOST)):
        some = policy.act(snapshot, contexts[rows], _SameCoins(draw))
        chances[rows, some.actions] = some.probabilities
        rows = rows[chances[rows].sum(axis=1) < 1 - 1e-9]
        if not len(rows):
            break
    return chances


class _SameCoins(NumberedCoins):
    """The same for everybody: what one person weighs must not depend on who else is in the log, nor on their places.

    Between tied arms they go through van der Corput's numbers, so that 2^k draws see every arm of a tie of 2^k.
    """

    def __init__(self, draw: int) -> None:
        super().__init__(draw, 0)
        self._share = sum(2.0 ** -(bit + 1) for bit in range(draw.bit_length()) if draw >> bit & 1)

    def _of(self, device: int) -> GeneratorCoins:
        return super()._of(0)

    def below(self, counts: Ints) -> Ints:
        """An arm of a tie."""
        return np.asarray(self._share * counts, dtype=np.int64)
