"""Shuffler of the vector sum: it forwards totals, or bits in random order, and nothing about single users."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandanna.core.arrays import Bools, Ints
from bandanna.device import lattice
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.roles import Counting
from bandanna.storage.declared import stored_as


@stored_as("VectorMixer")
@dataclass(frozen=True, kw_only=True)
class VectorMixer(Counting):
    """Adds the users' counts, coordinate by coordinate."""

    @cached_property
    def encoded(self) -> Ints:
        """ceil(s (upper - lower))."""
        return lattice.largest(self.noise.scale, self.domain).astype(np.int64)


def shuffle_bits(bits: list[Bools], source: NoiseSource) -> list[Bools]:
    """All bits of a batch with one label, (..., users, length) -> (..., users * length), in random order."""
    mixed = []
    for labelled in bits:
        flat = labelled.reshape(*labelled.shape[:-2], -1)
        order = source.permutation(flat.shape[-1], size=flat.shape[:-1])
        mixed.append(np.take_along_axis(flat, order, axis=-1))
    return mixed
