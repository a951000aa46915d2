"""Values as JSON: the same value comes back, bit for bit, and nothing that is not on the list."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bandanna.errors import InvalidArgument
from bandanna.privacy import events
from bandanna.privacy.events import EVENTS
from bandanna.privacy.factorisation import BLT, BinaryTree
from bandanna.storage.encoding import Encoding

from ..drawn import examples

ENCODING = Encoding(EVENTS)
BLT_16 = BLT(horizon=16, theta=(0.9, 0.3), theta_hat=(0.5, 0.1))
EXAMPLES = [
    events.NothingEvent(),
    events.ClearEvent(),
    events.GaussianEvent(std=1 / 3, sensitivity=2.0, dim=4, grid=2.0**-20),
    events.DiscreteGaussianEvent(std=3.0, shift=1.0),
    events.LaplaceEvent(scale=0.1, sensitivity=1.0),
    events.DiscreteLaplaceEvent(scale=4.0, shift=1.0, dim=2),
    events.CapEvent(cosine=1 / 3, chance=0.75, candidates=3, dim=2, steps=64),
    events.BinomialEvent(trials=100, shift=3.0, reach=4, dim=2),
    events.ShuffledGaussianEvent(std=1.0, sensitivity=1.0, users=20, tail=1e-30),
    *(
        events.ContinualEvent(factorisation=factors, std=1.1, sensitivity=1.0, participations=2)
        for factors in (BLT_16, BinaryTree(horizon=7))
    ),
]


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_events_are_read_as_they_were_written(event: events.Event) -> None:
    twice = events.CompositionEvent(events=(event, events.RepetitionEvent(event=event, times=3)))
    for one in (event, twice):
        again = ENCODING.loads(ENCODING.dumps(one))
        assert again == one
        assert hash(again) == hash(one)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)


@examples(40, full=200)
@given(values)
def test_plain_values_keep_value_and_type(value: object) -> None:
    again = ENCODING.loads(ENCODING.dumps(value))
    assert again == value
    assert repr(again) == repr(value)


@given(hnp.arrays(st.sampled_from([np.float64, np.int64, np.bool_, ">f4"]), hnp.array_shapes(min_dims=0, max_dims=3)))
def test_arrays_keep_every_bit_and_shape_and_are_writable(array: np.ndarray) -> None:
    again = ENCODING.loads(ENCODING.dumps(array))
    assert again.shape == array.shape
    np.testing.assert_array_equal(again, array)
    assert again.flags.writeable


def test_nan_and_infinities_are_written_as_strict_json() -> None:
    assert "NaN" not in ENCODING.dumps(math.nan)
    assert math.isnan(ENCODING.loads(ENCODING.dumps(math.nan)))


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, np.array([object()]), np.array(["a"]), 1j], ids=lambda value: type(value).__name__
)
def test_values_that_could_not_be_read_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="store"):
        ENCODING.dumps(value)


@pytest.mark.parametrize(
    "text",
    ['{"kind": "os.system", "fields": {}}', '{"else": 1}', '{"array": "|O", "shape": [1], "data": ""}', "{"],
)
def test_texts_with_unknown_values_are_refused(text: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        ENCODING.loads(text)
