"""Who sees what in this task, and what is left of somebody's privacy against each of them."""

from __future__ import annotations

import math
from typing import NamedTuple

from bandanna.accounting.guarantee import Guarantee, rounded_up
from bandanna.protocols.mixing import mixers
from bandanna.protocols.roles import Gathering
from bandanna.tasks.batches import sends_rows
from bandanna.tasks.beginning import first_batches
from bandanna.tasks.document import Task
from bandanna.wire.plan import Batch
from bandanna.wire.record import HEADER

_LENGTH = 4  # bytes before each record of a request
_TRACES = "the ticket, address and time of every report, and who gave a final one"
_PART = "that one takes part is not hidden"


class Sight(NamedTuple):
    """One line of the table."""

    role: str
    sees: str
    left: str


def sight(task: Task) -> list[Sight]:
    """The table of this task: device, network, registrar, mixers, analyzer, everybody."""
    stated = task.policy.guarantee
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    return [
        Sight("device", "the own context, reward and noise", "-"),
        Sight("network", _sent(batches), _wire(task)),
        Sight("registrar", "who takes part in which batch, and no report", f"the data: it sees none; {_PART}"),
        *_mixers(task, stated, batches),
        _analyzer(task, stated, batches),
        *(Sight(who, what, promise(stated)) for who, what in _everybody(stated)),
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


def _mixers(task: Task, stated: Guarantee, batches: tuple[Batch, ...]) -> list[Sight]:
    if task.mixers == 0:
        return []
    if task.mixers == 2:
        alone = "everything, as long as the helper keeps its part to itself; with it: "
        return [
            Sight("shuffler", f"a uniform share of every report; {_TRACES}", alone + against_mixer(stated)),
            Sight("helper", "the other uniform share of every report, and its ticket", "the same, with the shuffler"),
        ]
    if _sealed(batches):
        left = f"everything, as long as the analyzer opens nothing for it; with it: {against_mixer(stated)}"
        return [Sight("shuffler", f"sealed reports, which it cannot open; {_TRACES}", left)]
    if _drawn_by_mixer(task):
        return [Sight("shuffler", f"every report without noise, which it adds; {_TRACES}", "nothing: it is trusted")]
    levels = " of every level" if task.trust == "concurrent" else ""
    return [Sight("shuffler", f"the noisy counts{levels} of every report; {_TRACES}", against_mixer(stated))]


def _analyzer(task: Task, stated: Guarantee, batches: tuple[Batch, ...]) -> Sight:
    if sends_rows(task.policy):
        trusted = "nothing: it is trusted" if task.trust == "central" else "nothing"
        return Sight("analyzer", f"every user's features, arm and reward; {_TRACES}", trusted)
    if task.mixers == 0:
        return Sight("analyzer", f"every noisy report; {_TRACES}", promise(stated))
    if _sealed(batches):
        return Sight("analyzer", "the noisy reports of a batch, sorted: not whose they are", promise(stated))
    totals = "the totals of every full batch of every level" if task.trust == "concurrent" else "the totals of a batch"
    if _public(batches):
        totals += "; the public features of those who gave a final report, sorted, and so who they may be"
    return Sight("analyzer", totals, promise(stated))


def _everybody(stated: Guarantee) -> list[tuple[str, str]]:
    """What is public: releases and snapshots, and what the policy says that it makes public."""
    public = [what for who, what in stated.observers if who == "everybody"]
    return [("everybody", "; ".join(["releases and snapshots", *public]))]


def _sealed(batches: tuple[Batch, ...]) -> bool:
    return any(part.form == "sealed" for batch in batches for each in batch.rounds for part in each.parts)


def _public(batches: tuple[Batch, ...]) -> bool:
    """Whether there are parts of which rows are forwarded, because they are public."""
    parts = [part for batch in batches for each in batch.rounds for part in each.parts if part.form == "plain"]
    return any(isinstance(mixers().loads(part.mixer or ""), Gathering) for part in parts)


def _drawn_by_mixer(task: Task) -> bool:
    return getattr(task.policy.privacy, "noise", "device") == "mixer"


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
