"""Values as JSON, bit for bit, and the explicit names of all that is saved or sent."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass, make_dataclass
from inspect import isabstract
from typing import Any, get_type_hints

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import bandanna as bd
from bandanna.device.base import Device
from bandanna.device.domain import Domain
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.registry import ALGORITHMS, UNLISTED_POLICIES, make_encoding
from bandanna.privacy import events
from bandanna.privacy.events import EVENTS, Event
from bandanna.privacy.factorisation import BLT, BinaryTree
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.protocols.factory import PROTOCOLS, make_mixer_encoding
from bandanna.protocols.mixers import Mixer
from bandanna.storage import encoding
from bandanna.storage.encoding import Encoding, dataclasses_in, find_stored_name, has_name, stored_as

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
    "text", ['{"kind": "os.system", "fields": {}}', '{"else": 1}', '{"array": "|O", "shape": [1], "data": ""}', "{"]
)
def test_texts_with_unknown_values_are_refused(text: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        ENCODING.loads(text)


POLICY_ENCODING = make_encoding()

ROOTS = (
    BatchProtocol,
    StreamProtocol,
    Mixer,
    Device,
    Domain,
    *EVENTS.values(),
    *PROTOCOLS.values(),
    *POLICY_ENCODING._kinds.values(),
    *make_mixer_encoding()._kinds.values(),
)


@dataclass(frozen=True)
class Inner:
    total: float


@dataclass(frozen=True)
class Mine:
    inner: Inner


def reached() -> Iterator[type]:
    """Yield every concrete dataclass of the package that a policy, a protocol, a mixer or a device can hold."""
    policies = [*(each.kind for each in ALGORITHMS.values()), *UNLISTED_POLICIES]
    made = [get_type_hints(method).get("return") for kind in policies for method in (kind.init, kind.publish)]
    waiting: list[Any] = [*ROOTS, *policies, *(part for hint in made for part in encoding._iterate_types(hint))]
    seen = set[type]()
    while waiting:
        kind = waiting.pop()
        if kind in seen or not kind.__module__.startswith("bandanna.") or kind.__module__.startswith("bandanna.audit"):
            continue
        seen.add(kind)
        waiting += [*encoding._parts(kind), *kind.__subclasses__()]
        if is_dataclass(kind) and not isabstract(kind) and kind is not Event:
            yield kind


def test_every_kind_that_can_be_saved_or_sent_has_a_name_of_its_own() -> None:
    kinds = list(reached())
    assert [kind for kind in kinds if not has_name(kind)] == []
    names = [find_stored_name(kind) for kind in kinds]
    assert sorted(set(names)) == sorted(names)
    assert len(names) > 130


def test_a_kind_without_a_name_is_refused() -> None:

    words = r'Mine cannot be saved or sent without a name: write @bd.stored_as\("Mine"\) above the class'
    for refused in (
        lambda: find_stored_name(Mine),
        lambda: dataclasses_in(Mine),
        lambda: Encoding({}).dumps(Mine(Inner(1.0))),
    ):
        with pytest.raises(BandannaError, match=words):
            refused()
    stored_as("MineWithAName")(Mine)
    with pytest.raises(BandannaError, match=r"Inner cannot be saved or sent .*stored_as\(\"Inner\"\)"):
        dataclasses_in(Mine | None)
    assert dataclasses_in(Mine, stored_as("InnerWithAName")(Inner)) == {"MineWithAName": Mine, "InnerWithAName": Inner}


def test_an_agent_refuses_a_policy_without_a_name() -> None:

    @dataclass(frozen=True, kw_only=True)
    class Unnamed(bd.LinUCB):  # type: ignore[misc]
        pass

    policy: Policy[Any] = Unnamed(dim=2, horizon=20, privacy=bd.none())
    with pytest.raises(BandannaError, match=r'Unnamed cannot be .* @bd.stored_as\("Unnamed"\)'):
        bd.Agent(policy=policy, test=True, seed=0)
    assert (
        bd.simulate(policy, bd.environments.LinearContextual(dim=2, n_arms=2), n_seeds=1).setting["policy"] == "Unnamed"
    )


def test_two_kinds_with_one_name_are_refused() -> None:
    first = stored_as("TakenOnce")(make_dataclass("First", []))
    with pytest.raises(InvalidArgument, match=r"name must be a name that is not taken, got 'TakenOnce'. .*First has"):
        stored_as("TakenOnce")(make_dataclass("Second", []))
    with pytest.raises(InvalidArgument, match=r"LinUCB has this one"):
        stored_as("LinUCB")(make_dataclass("Second", []))
    again = stored_as("TakenOnce")(make_dataclass("First", []))
    assert (find_stored_name(first), find_stored_name(again)) == ("TakenOnce", "TakenOnce")
    assert encoding._KINDS["TakenOnce"] is again


def test_a_class_in_a_script_is_the_one_that_is_imported_from_it() -> None:
    for module in ("__main__", "__mp_main__", "my_policy", "__main__"):
        kind = make_dataclass("Scripted", [])
        kind.__module__ = module
        assert find_stored_name(stored_as("Scripted")(kind)) == "Scripted"


@pytest.mark.parametrize("name", ["", "linTS", "lints.State", "A b", "A" * 65, None, 3])
def test_names_are_nouns_in_camel_case(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="name must be letters and digits"):
        stored_as(name)


def test_a_subclass_needs_a_name_of_its_own() -> None:
    kind = stored_as("BaseWithAName")(make_dataclass("Base", []))
    made = make_dataclass("Derived", [], bases=(kind,))
    assert not has_name(made)
    assert dataclasses_in(kind) == {"BaseWithAName": kind}
    stored_as("DerivedWithAName")(made)
    assert dataclasses_in(kind) == {"BaseWithAName": kind, "DerivedWithAName": made}


def test_kinds_of_mixers_are_found_once_for_each_set_of_classes() -> None:
    before = make_mixer_encoding()
    assert make_mixer_encoding() is before
    kind = stored_as("BallOfATest")(type("Mine", (bd.device.Ball,), {}))
    assert make_mixer_encoding().loads(make_mixer_encoding().dumps(kind(dim=2, bound=1.0))) == kind(dim=2, bound=1.0)
    assert make_mixer_encoding() is not before
    assert make_mixer_encoding() is make_mixer_encoding()
