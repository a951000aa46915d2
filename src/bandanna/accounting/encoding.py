"""Events and estimates by name: what the file of a ledger may contain."""

from __future__ import annotations

from bandanna.accounting import events
from bandanna.accounting.factorisation import BLT, BinaryTree
from bandanna.core.estimate import Estimate
from bandanna.storage.declared import by_name

EVENTS = by_name(
    events.NothingEvent,
    events.ClearEvent,
    events.GaussianEvent,
    events.DiscreteGaussianEvent,
    events.LaplaceEvent,
    events.DiscreteLaplaceEvent,
    events.CapEvent,
    events.BinomialEvent,
    events.ShuffledGaussianEvent,
    events.ContinualEvent,
    events.RecordEvent,
    events.CompositionEvent,
    events.RepetitionEvent,
    BLT,
    BinaryTree,
    Estimate,
)
