"""Shuffler of the bit sum: bits in random order say as much as their number, and that is all that is forwarded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandanna.core.arrays import Ints
from bandanna.device import Messages
from bandanna.protocols.roles import Counting, refuse
from bandanna.storage.declared import stored_as


@stored_as("BitMixer")
@dataclass(frozen=True, kw_only=True)
class BitMixer(Counting):
    """Adds the users' ones."""

    @property
    def encoded(self) -> Ints:
        """c."""
        return np.array([int(self.noise.scale)], dtype=np.int64)

    def check_range(self, messages: Messages) -> None:
        """Without coins, all copies of a bit or none."""
        super().check_range(messages)
        if self.coins == "mixer":
            copies = int(self.noise.scale)
            refuse(
                "messages", messages, (messages != 0) & (messages != copies), f"counts from 0 to {copies}: one of both"
            )
