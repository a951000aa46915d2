"""A hostile shuffler signs shares whose views no mixer forwards: the batch is burned, and the analyzer goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.messages.batch_plan import Batch, Part
from bandanna.deployment.messages.canonical import encode_base64url, loads
from bandanna.deployment.messages.share import write_share
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.mixers import FullBatches, MixerState

from ..deployment.inside import Inside, a_task
from ..deployment.simulated import case

Views = Callable[[Batch, Part], Any]


def counts(users: int, length: int) -> MixerState:
    """A total of nobody's counts, of so many users."""
    return MixerState(users=users, numbers=np.zeros(length, dtype=np.int64))


VIEWS: dict[str, Views] = {
    "none": lambda batch, part: (),
    "a list of none": lambda batch, part: [],
    "numbers": lambda batch, part: (3,),
    "two": lambda batch, part: (counts(batch.slots, part.length),) * 2,
    "of one person": lambda batch, part: (counts(1, part.length),),
    "of nobody": lambda batch, part: (counts(0, part.length),),
    "of a billion": lambda batch, part: (counts(10**9, part.length),),
    "rows": lambda batch, part: (MixerState(users=1, numbers=np.zeros((1, part.length), dtype=np.int64)),),
    "no level": lambda batch, part: (FullBatches(users=batch.slots, levels=()),),
    "too many levels": lambda batch, part: (FullBatches(users=batch.slots, levels=(counts(1, 8),) * 20),),
    "a sealed text": lambda batch, part: [encode_base64url(bytes(64))],
}


@pytest.mark.parametrize("name", ["LinTS-SDP", "LinTS-CSDP", "GLM-SDP", "SDP-SE", "LinUCB-SDP-Amp"])
def test_views_that_no_mixer_forwards_burn_their_batch(name: str, tmp_path: Path) -> None:
    """A share with views of other people than were announced, of another kind or of none is answered by a receipt:
    nothing is learned from it, what was seen is paid for, and the next batch is announced or the task ends.
    """
    policy, _, arms, _ = case(name)
    task, roles = a_task(policy, seed=None, arms=arms, mixers=1)
    for number, views in enumerate(VIEWS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        inside = Inside(task, roles, folder)
        batch, state = inside.learner.now.batches[0], loads(inside.learner.published.document)["state"]
        share = write_share(
            task_id=task.id, epoch=0, round_=0, mixer="shuffler", count=batch.slots, checksum="", bad=0,
            parts=[make_mixer_encoding().dumps(views(batch, part)) for part in batch.rounds[0].parts],
        )  # fmt: skip
        taken = inside.learner.take(share, "shuffler", 0, 0)
        assert taken.status == 422
        assert taken.receipt is not None
        assert loads(taken.receipt)["outcome"] == "burned"
        after = loads(inside.learner.published.document)
        assert after["state"] == state
        assert after["epoch"] > 0 or after["status"] == "exhausted"
