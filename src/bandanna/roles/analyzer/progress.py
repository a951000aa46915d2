"""Where the analyzer is, as one row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bandanna.agent.rows import as_columns, from_columns
from bandanna.policies.base import Played
from bandanna.storage.database import Transaction
from bandanna.storage.encoding import Encoding


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Before round `round` of batch `epoch`.

    state       of the policy, before the batch's episode;  streams: of stream protocols (raw sums in the central model)
    next_epoch  the number of the batch after it
    kept        rows that later asks may be about, of servers that are trusted with rows
    source      where seeded noise is; None for secure noise
    """

    task: str
    status: str
    state: Any
    source: Any
    epoch: int = 0
    next_epoch: int = 1
    round: int = 0
    streams: Mapping[int, Any] = field(default_factory=dict)
    kept: Mapping[str, tuple[Played, ...]] = field(default_factory=dict)


def read(rows: Transaction, encoding: Encoding) -> Progress | None:
    """The row; None before the first."""
    columns = "task, status, epoch, next_epoch, round, state, streams, kept, source"
    found = rows.execute(f"select {columns} from progress")
    if not found:
        return None
    task, status, epoch, next_epoch, round_, *texts = found[0]
    state, streams, kept, source = map(encoding.loads, texts)
    return Progress(
        task=task,
        status=status,
        epoch=epoch,
        next_epoch=next_epoch,
        round=round_,
        state=state,
        streams=streams,
        kept={name: tuple(map(from_columns, each)) for name, each in kept.items()},
        source=source,
    )


def write(rows: Transaction, progress: Progress, encoding: Encoding) -> None:
    """Replace the row."""
    kept = {name: [as_columns(each) for each in some] for name, some in progress.kept.items()}
    texts = map(encoding.dumps, (progress.state, dict(progress.streams), kept, progress.source))
    rows.execute("delete from progress")
    rows.execute(
        "insert into progress values (0, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        progress.task, progress.status, progress.epoch, progress.next_epoch, progress.round, *texts,
    )  # fmt: skip
