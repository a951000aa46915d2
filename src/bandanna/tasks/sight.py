"""Who sees what in this task, and what is left of somebody's privacy against each of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

from bandanna.accounting.guarantee import SHUFFLER, Guarantee, rounded_up
from bandanna.policies.base import Policy
from bandanna.protocols.mixing import mixers
from bandanna.protocols.roles import Gathering
from bandanna.tasks.batches import sends_rows
from bandanna.tasks.beginning import first_batches
from bandanna.tasks.document import Task
from bandanna.wire.plan import Batch
from bandanna.wire.record import HEADER

_LENGTH = 4  # bytes before each record of a request
_TRACES = "the slot, address and time of every report, and who gave a final one"
_TRUSTED = "nothing: it is trusted"
_PART = "that one takes part is not hidden"


class Sight(NamedTuple):
    """One line of the table."""

    role: str
    sees: str
    left: str


def guarantee_of_task(task: Task) -> Guarantee:
    """What the task promises: the policy's guarantee, with the observers of the table of this very task."""
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    return deployed_guarantee(task.policy, batches, mixers=task.mixers)


def deployed_guarantee(policy: Policy[Any], batches: tuple[Batch, ...], *, mixers: int) -> Guarantee:
    """What a policy promises as separate roles with so many mixers; `batches`: at least its first.

    Parameters
    ----------
    policy
        What runs.
    batches
        Its first batches, as they are announced.
    mixers
        How many there are between devices and analyzer: 0, 1 or 2.

    Returns
    -------
    Guarantee
        The numbers of the policy's guarantee; its observers are the rows of the table for mixers, analyzer, everybody.
    """
    stated = policy.guarantee
    rows = [*_mixers(policy, mixers, stated, batches), _analyzer(policy, mixers, stated, batches), _everybody(stated)]
    against = SHUFFLER
    if mixers == 2:
        against = "the shuffler and the helper together"
    elif mixers == 1 and _sealed(batches):
        against = "the shuffler and the analyzer together"
    observers = tuple((_called(row), row.sees.removesuffix(f"; {_TRACES}")) for row in rows)
    return replace(stated, observers=observers, against=against, one_process=False)


def _called(row: Sight) -> str:
    """A role in a sentence."""
    if row.role == "everybody":
        return row.role
    return f"the {'trusted ' * (row.left == _TRUSTED)}{row.role}"


def sight(task: Task) -> list[Sight]:
    """The table of this task: device, network, registrar, mixers, analyzer, everybody."""
    stated, policy = task.policy.guarantee, task.policy
    batches = first_batches(policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    return [
        Sight("device", "the own context, reward and noise", "-"),
        Sight("network", _sent(batches), _wire(task)),
        Sight("registrar", "who takes part in which batch, and no report", _registrar(policy, stated)),
        *_mixers(policy, task.mixers, stated, batches),
        _analyzer(policy, task.mixers, stated, batches),
        _everybody(stated),
    ]


def record_bytes(batches: tuple[Batch, ...]) -> list[int]:
    """What a report of each round has on the wire: the same for everybody."""
    return [HEADER + each.size + _LENGTH for batch in batches for each in batch.rounds]


def _sent(batches: tuple[Batch, ...]) -> str:
    sizes = list(map(str, dict.fromkeys(record_bytes(batches))))
    length = f"{sizes[0]} bytes" if len(sizes) == 1 else f"{', '.join(sizes[:-1])} or {sizes[-1]} bytes"
    return f"that an address sent a record of {length}, the same for everybody" if sizes else "no records"


def _wire(task: Task) -> str:
    """Of reports on their way to the collector."""
    if task.url(task.collector).startswith("https:"):
        return f"the data: the connection is encrypted; {_PART}"
    return f"as against the {task.collector}: http is not encrypted; for one machine only"


def _registrar(policy: Policy[Any], stated: Guarantee) -> str:
    """Whoever gives tickets may give them to nobody: of a batch of inventions and one person the totals are public."""
    left = f"the data: it sees none; {_PART}"
    if policy.privacy.model not in ("shuffle", "concurrent") or _drawn_by_mixer(policy):
        return left
    return f"{left}. If it invents all others of a batch: {against_mixer(stated)}"


def _mixers(policy: Policy[Any], count: int, stated: Guarantee, batches: tuple[Batch, ...]) -> list[Sight]:
    if count == 0:
        return []
    if count == 2:
        alone = "everything, as long as the helper keeps its part to itself; with it: "
        return [
            Sight("shuffler", f"a uniform share of every report; {_TRACES}", alone + against_mixer(stated)),
            Sight(
                "helper",
                "the other uniform share of every report, and its slot",
                "the same, with the shuffler",
            ),
        ]
    if _sealed(batches):
        honest = "it adds no reports of its own and the analyzer opens nothing for it"
        left = f"everything, as long as {honest}; else: {against_mixer(stated)}"
        return [Sight("shuffler", f"sealed reports, which it cannot open; {_TRACES}", left)]
    if _drawn_by_mixer(policy):
        return [Sight("shuffler", f"every report without noise, which it adds; {_TRACES}", _TRUSTED)]
    levels = " of every level" if policy.privacy.model == "concurrent" else ""
    return [Sight("shuffler", f"the noisy counts{levels} of every report; {_TRACES}", against_mixer(stated))]


def _analyzer(policy: Policy[Any], count: int, stated: Guarantee, batches: tuple[Batch, ...]) -> Sight:
    concurrent = policy.privacy.model == "concurrent"
    if sends_rows(policy):
        trusted = _TRUSTED if policy.privacy.model == "central" else "nothing"
        return Sight("analyzer", f"every user's features, arm and reward; {_TRACES}", trusted)
    if count == 0:
        return Sight("analyzer", f"every noisy report; {_TRACES}", promise(stated))
    if _sealed(batches):
        return Sight("analyzer", "the noisy reports of a batch, sorted: not whose they are", promise(stated))
    totals = "the totals of every full batch of every level" if concurrent else "the totals of a batch"
    if _public(batches):
        totals += "; the public features of those who gave a final report, sorted, and so who they may be"
    return Sight("analyzer", totals, promise(stated))


def _everybody(stated: Guarantee) -> Sight:
    """What is public: releases and snapshots, and what the policy says that it makes public."""
    public = [what for who, what in stated.observers if who == "everybody"]
    return Sight("everybody", "; ".join(["releases and snapshots", *public]), promise(stated))


def _sealed(batches: tuple[Batch, ...]) -> bool:
    return any(part.form == "sealed" for batch in batches for each in batch.rounds for part in each.parts)


def _public(batches: tuple[Batch, ...]) -> bool:
    """Whether there are parts of which rows are forwarded, because they are public."""
    parts = [part for batch in batches for each in batch.rounds for part in each.parts if part.form == "plain"]
    return any(isinstance(mixers().loads(part.mixer or ""), Gathering) for part in parts)


def _drawn_by_mixer(policy: Policy[Any]) -> bool:
    return policy.privacy.noise == "mixer"


def promise(stated: Guarantee) -> str:
    """The numbers against those who see what is released."""
    if stated.trust == "none" or math.isinf(stated.epsilon):
        return "nothing: no privacy is promised"
    return f"epsilon = {rounded_up(stated.epsilon)}, delta = {rounded_up(stated.delta, 3)}"


def against_mixer(stated: Guarantee) -> str:
    """The numbers against a mixer that keeps single reports."""
    if stated.shuffler is not None:
        numbers = f"epsilon = {rounded_up(stated.shuffler.epsilon)}, delta = {rounded_up(stated.shuffler.delta, 3)}"
        return f"{numbers}, if single reports are kept"
    if stated.exposed <= stated.delta:
        return "nothing is proven"
    odds = math.floor(1000 * stated.exposed) / 1000
    return f"nothing: two reports are told apart with probability at least {odds:g}"
