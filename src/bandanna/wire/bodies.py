"""The body of a report: numbers as they are, sealed for the analyzer, or split for two mixers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bandanna.errors import BandannaError
from bandanna.wire.answers import Ticket
from bandanna.wire.keys import draw_seed, masks, seal
from bandanna.wire.plan import Batch
from bandanna.wire.sealing import report_info, sealing_info


def body_of(
    rows: Sequence[np.ndarray[Any, Any]], *, task: bytes, batch: Batch, round_: int, ticket: Ticket, key: str | None
) -> bytes:
    """The body of one user's record for a round.

    Parameters
    ----------
    rows : the user's message (length,) for each part that a user reports for
    key : for whom they, or the seed that splits them, are sealed
    """
    asked = batch.rounds[round_]
    if asked.own[0].form in ("plain", "row"):
        return b"".join(part.to_bytes(row) for part, row in zip(asked.own, rows, strict=True))
    if key is None:
        raise BandannaError("a report that must be sealed, and no key to seal it with")
    if not asked.split:
        info = report_info(task, batch.epoch, round_)
        return b"".join(seal(key, part.to_bytes(row), info) for part, row in zip(asked.own, rows, strict=True))
    if ticket.helper is None:
        raise BandannaError("a ticket without the helper's key, in a task of two mixers: the host must pass it on")
    seed = draw_seed()
    hidden = zip(asked.own, rows, masks(seed, asked.lengths), strict=True)
    shares = b"".join(part.to_bytes(np.asarray(row, dtype=np.int64) - mask) for part, row, mask in hidden)  # mod 2^64
    return shares + seal(key, seed + ticket.helper, sealing_info(task, batch, round_, ticket.slot))
