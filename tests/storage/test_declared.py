"""Everything that is saved or sent has an explicit name of its own, which no module or class decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass, make_dataclass
from inspect import isabstract
from typing import Any, get_type_hints

import pytest

import bandanna as bd
from bandanna.device.base import Device
from bandanna.device.domain import Domain
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.registry import ALGORITHMS, UNLISTED_POLICIES, make_encoding
from bandanna.privacy.events import EVENTS, Event
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.protocols.factory import PROTOCOLS, make_mixer_encoding
from bandanna.protocols.mixers import Mixer
from bandanna.storage import encoding
from bandanna.storage.encoding import Encoding, dataclasses_in, find_stored_name, has_name, stored_as

ENCODING = make_encoding()

ROOTS = (
    BatchProtocol,
    StreamProtocol,
    Mixer,
    Device,
    Domain,
    *EVENTS.values(),
    *PROTOCOLS.values(),
    *ENCODING._kinds.values(),
    *make_mixer_encoding()._kinds.values(),
)


@dataclass(frozen=True)
class Inner:
    """Without a name."""

    total: float


@dataclass(frozen=True)
class Mine:
    """Without a name until it has one."""

    inner: Inner


def reached() -> Iterator[type]:
    """Every concrete dataclass of the package that a policy, a protocol, a mixer or a device can hold."""
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
