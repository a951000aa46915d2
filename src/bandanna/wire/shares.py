"""What a mixer tells the analyzer of a round of a batch: totals, of how many, of which set, and what it has seen."""

from __future__ import annotations

from collections.abc import Sequence

from bandanna.wire import canonical


def write_share(
    *,
    task_id: str,
    epoch: int,
    round_: int,
    mixer: str,
    count: int,
    checksum: str,
    bad: int,
    parts: Sequence[str],
    witness: tuple[int, str] | None,
) -> bytes:
    """The document that a mixer signs.

    bad      how many users' seeds could not be opened: if there are any, the sum means nothing
    parts    of each part of the round, the views that its mixer forwards, as text
    witness  number and chain of the newest release that the mixer has a receipt for
    """
    return canonical.dumps(
        {
            "task": task_id,
            "epoch": epoch,
            "round": round_,
            "mixer": mixer,
            "count": count,
            "checksum": checksum,
            "bad": bad,
            "parts": list(parts),
            "witness": None if witness is None else {"number": witness[0], "chain": witness[1]},
        }
    )
