"""Events are values: complete, hashable, and refused when malformed."""

from __future__ import annotations

import math
import pickle
from dataclasses import fields, replace
from typing import Any

import pytest

from bandanna.errors import InvalidArgument
from bandanna.privacy.events import (
    BinomialEvent,
    CapEvent,
    ClearEvent,
    CompositionEvent,
    ContinualEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    NothingEvent,
    RepetitionEvent,
    ShuffledGaussianEvent,
    format_event,
)
from bandanna.privacy.factorisation import BinaryTree

GAUSSIAN = GaussianEvent(std=2.0, sensitivity=1.0, dim=3, grid=0.5)
EVENTS: list[Event] = [
    NothingEvent(),
    ClearEvent(),
    GAUSSIAN,
    DiscreteGaussianEvent(std=2.0, shift=3.0, dim=2),
    LaplaceEvent(scale=2.0, sensitivity=1.0, dim=3, grid=0.5),
    DiscreteLaplaceEvent(scale=2.0, shift=3.0, dim=2),
    CapEvent(cosine=0.25, chance=0.75, candidates=3, dim=2, steps=64),
    BinomialEvent(trials=100, shift=3.0, reach=4, dim=2, probability=0.25, rounded=False),
    ShuffledGaussianEvent(std=2.0, sensitivity=1.0, users=30, dim=2, tail=0.25),
    ContinualEvent(factorisation=BinaryTree(horizon=8), std=2.0, sensitivity=1.0, participations=2, dim=3, grid=0.5),
    CompositionEvent(events=(GAUSSIAN, ClearEvent())),
    RepetitionEvent(event=GAUSSIAN, times=4),
]
NUMBERS: list[Any] = [0, -1.0, math.nan, math.inf, True, "1", None]

POSITIVE = {"std", "sensitivity", "shift", "scale"}
WHOLE = {"dim", "trials", "reach", "users", "participations", "times", "candidates", "steps"}


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_events_are_equal_hashable_and_frozen_values(event: Event) -> None:
    again = pickle.loads(pickle.dumps(event))
    assert again == event
    assert hash(again) == hash(event)
    assert format_event(again) == format_event(event) == repr(event)  # the ledger's fingerprint is made of it
    for field in fields(event):
        with pytest.raises(AttributeError):
            setattr(event, field.name, 1)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_every_parameter_tells_events_apart(event: Event) -> None:
    for field in fields(event):
        value = getattr(event, field.name)
        other: Any = {
            "factorisation": BinaryTree(horizon=9),
            "rounded": True,
            "probability": 0.5,
            "cosine": 0.5,
            "chance": 0.5,
            "events": (ClearEvent(),),
            "event": ClearEvent(),
        }.get(field.name, value + 1 if isinstance(value, int | float) else None)
        changed = replace(event, **{field.name: other})
        assert changed != event
        assert repr(changed) != repr(event)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_malformed_events_are_refused_by_the_name_of_the_parameter(event: Event) -> None:
    for field in fields(event):
        bad: list[Any] = []
        if field.name in POSITIVE:
            bad = NUMBERS
        elif field.name in WHOLE:
            bad = [*NUMBERS, 1.5]
        elif field.name in ("grid", "tail"):
            bad = [value for value in NUMBERS if value != 0 or value is True]
        elif field.name == "probability":
            bad = [0, 0.0, 1, 1.0, -0.5, 1.5, math.nan, True]
        for value in bad:
            with pytest.raises(InvalidArgument) as caught:
                replace(event, **{field.name: value})
            assert caught.value.argument == field.name
            assert caught.value.value is value


def test_whole_floats_and_a_grid_of_zero_are_accepted() -> None:
    assert GaussianEvent(std=1, sensitivity=1, dim=1.0, grid=0) == GaussianEvent(std=1.0, sensitivity=1.0)
    assert RepetitionEvent(event=ClearEvent(), times=1e3).times == 1000
