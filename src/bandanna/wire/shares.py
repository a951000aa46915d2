"""What a mixer tells the analyzer of a round of a batch: totals, of how many, of which set; and what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.errors import Unreadable
from bandanna.wire import canonical
from bandanna.wire.keys import Signer, verify


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
    key: dict[str, Any] | None = None,
) -> bytes:
    """The document that a mixer signs.

    bad      how many users' seeds could not be opened, or came without their tickets: if there are any, there is no sum
    parts    of each part of the round, the views that its mixer forwards, as text; none where `bad` is not 0
    key      of the helper: for which of its keys devices seal from now on (`sealing.write_seal_key`)
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
            "key": key,
        }
    )


def write_receipt(
    *, task_id: str, epoch: int, round_: int, number: int, chain: str, outcome: str, sign: Signer
) -> dict[str, Any]:
    """State, for mixers, that a round was released, burned or refused, and in which publication; signed."""
    plain = {"task": task_id, "epoch": epoch, "round": round_, "number": number, "chain": chain, "outcome": outcome}
    return {**plain, "signature": sign("receipt", canonical.dumps(plain))}


def check_receipt(receipt: Any, *, task_id: str, epoch: int, round_: int, key: str) -> None:
    """Refuse, with Unreadable, what is not the analyzer's receipt of this round of this task.

    Parameters
    ----------
    receipt
        What the analyzer has sent.
    task_id, epoch, round_
        What it has to be a receipt of.
    key
        The analyzer's public key.
    """
    if not isinstance(receipt, dict):
        raise Unreadable("a receipt that is no document")
    plain = {name: value for name, value in receipt.items() if name != "signature"}
    if not verify(key, task_id, "receipt", canonical.dumps(plain), receipt.get("signature")):
        raise Unreadable("a receipt that the analyzer has not signed")
    if (plain.get("epoch"), plain.get("round")) != (epoch, round_):
        raise Unreadable("a receipt of another round")
