"""The body of one part of a report: numbers as they are, sealed for the analyzer, or split for two mixers."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.errors import BandannaError
from bandanna.wire.keys import draw_seed, mask, seal
from bandanna.wire.plan import Batch
from bandanna.wire.sealing import report_info, sealing_info


def body_of(
    numbers: np.ndarray[Any, Any], *, task: bytes, batch: Batch, round_: int, part: int, slot: bytes, key: str | None
) -> bytes:
    """Of one user's message (length,) for a part of a round; `key`: for whom it, or its seed, is sealed."""
    wanted = batch.rounds[round_].parts[part]
    if wanted.form in ("plain", "row"):
        return wanted.to_bytes(numbers)
    if key is None:
        raise BandannaError("a report that must be sealed, and no key to seal it with")
    if wanted.form == "sealed":
        return seal(key, wanted.to_bytes(numbers), report_info(task, batch.epoch, round_))
    seed = draw_seed()
    share = np.asarray(numbers, dtype=np.int64) - mask(seed, wanted.length)  # modulo 2^64
    place = 0 if batch.rounds[round_].by_arm else part  # a place has one part; which one, its arm says
    return wanted.to_bytes(share) + seal(key, seed, sealing_info(task, batch, round_, place, slot))
