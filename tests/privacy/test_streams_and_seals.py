"""Streams beside batches in the ledger, seals of statistics, counts made by hand, printed deltas."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bandanna.device.domain import Ball, Statistic
from bandanna.errors import BandannaError, InvalidStatistic
from bandanna.privacy import accountant, events
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger

BALL = Ball(dim=2)
STREAM = events.ContinualEvent(factorisation=factorise("tree", horizon=4), std=100.0, sensitivity=1.0, participations=2)


def test_batches_beside_a_stream_are_charged_for_every_participation() -> None:
    one = events.GaussianEvent(std=1.0, sensitivity=1.0)
    mixed = events.CompositionEvent(events=(STREAM, one))
    person = events.CompositionEvent(events=(STREAM, one, one))
    assert accountant.compute_spent({"t": Counter({mixed: 5})}, 2, 1e-5) >= accountant.epsilon(person, 1e-5) * (
        1 - 1e-6
    )


def test_streams_have_no_more_steps_than_their_horizon() -> None:
    ledger = Ledger(budget=ApproxDP(epsilon=9.0, delta=1e-5), participations=2)
    for step in range(4):
        ledger.release(STREAM, task="t", batch=step, data=b"", draw=int)
    with pytest.raises(BandannaError):
        ledger.release(STREAM, task="t", batch=4, data=b"", draw=int)


def test_the_seal_does_not_survive_a_change() -> None:
    forged = replace(BALL.admit([[0.0, 0.0]]), values=np.full((1, 2), 1e6))
    with pytest.raises(InvalidStatistic, match="a point of"):
        BALL.check_statistic(forged)


@pytest.mark.parametrize("counts", [[-999, 1001], [1]], ids=["negative", "short"])
def test_counts_made_by_hand_are_checked(counts: list[int]) -> None:
    values = np.array([[0.0, 0.0], [1.0, 0.0]])
    with pytest.raises(BandannaError):
        BALL.check_statistic(Statistic(domain=BALL, values=values, clipped=np.array(0), counts=np.array(counts)))


def test_printed_numbers_are_not_below_the_computed_ones() -> None:
    text = str(Guarantee(trust="central", epsilon=1.0000000005, delta=1.2344e-5, protects="x"))
    found = re.search(r"epsilon = (\S+), delta = (\S+) ", text)
    assert found is not None
    assert float(found[1]) >= 1.0000000005
    assert float(found[2]) >= 1.2344e-5
