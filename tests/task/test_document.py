"""Roles that join a task, each in a folder of its own, and what is refused of a join, a task and a dealer."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.messages.canonical import COLLECTOR, HELPER, sealing_key, signing_key
from bandanna.deployment.task.creation import create_draft, create_task
from bandanna.deployment.task.description import task_facts
from bandanna.deployment.task.document import RoleJoin, Secrets, Task, accept_task, check_joins, join_all, join_role
from bandanna.errors import BandannaError

from ..drawn import examples
from .files import DP, LINEAR, file

TEXT = """
title = "Which tea"
algorithm = "LinTS-SDP"
[policy]
dim = 2
horizon = 400
batch = 40
epsilon = 1.0
delta = 1e-3
[rules]
mixers = 2
"""

POLICY = {"dim": 2, "horizon": 400, "batch": 40, "epsilon": 1.0, "delta": 1e-3}
DEALT: dict[str, Any] = {"title": "Which tea", "algorithm": "LinTS-SDP", "policy": POLICY}


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("draft") / "tea.toml"
    file.write_text(TEXT)
    return create_draft(file, expect=False)


def joined(drafted: Task) -> dict[str, tuple[Secrets, RoleJoin]]:
    return {role: join_role(drafted, role, f"who runs the {role}") for role in drafted.roles}


def test_four_roles_that_joined_share_no_secret(drafted: Task, tmp_path: Path) -> None:
    made = joined(drafted)
    files = [said.write(tmp_path / role) for role, (_, said) in made.items() if (tmp_path / role).mkdir() is None]
    task = join_all(drafted, [RoleJoin.read(file) for file in files])
    public = task.document.decode() + "".join(file.read_text() for file in files)
    held = []
    for role, (own, _) in made.items():
        accept_task(task, own).write(tmp_path / role)
        path = tmp_path / role / f"{role}.secret.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        read = Secrets.read(path, role, task)
        held.append({read.sign, read.seal, read.agree, read.person, read.token} - {""})
        assert not any(secret in public for secret in held[-1])
    assert sum(map(len, held)) == len(set().union(*held)) == 4 * 3 + 1 + 1  # to sign, to agree, tokens; a seal, people
    registrar, shuffler, helper = (accept_task(task, made[role][0]) for role in ("registrar", "shuffler", "helper"))
    assert registrar.ticket_key(task, COLLECTOR) == shuffler.ticket_key(task, COLLECTOR)
    assert registrar.ticket_key(task, HELPER) == helper.ticket_key(task, HELPER)
    assert shuffler.ticket_key(task, HELPER) != helper.ticket_key(task, HELPER) != shuffler.ticket_key(task, COLLECTOR)


def test_a_task_says_who_knew_its_keys(drafted: Task) -> None:
    dealt, _ = create_task(DEALT, expect=False)
    assert dealt.content["dealer"]
    assert any("One machine drew the keys of all roles" in note for note in task_facts(dealt)["notes"])
    task = join_all(drafted, [said for _, said in joined(drafted).values()])
    assert not task.content["dealer"]
    said = task_facts(task)
    assert said["operators"] == {role: f"who runs the {role}" for role in task.roles}
    assert not any("One machine" in note or "one party" in note for note in said["notes"])
    same = [join_role(drafted, role, "the same")[1] for role in drafted.roles]
    notes = " ".join(task_facts(join_all(drafted, same))["notes"])
    assert "shuffler and helper have the same operator" in notes
    assert "registrar and analyzer have the same operator" in notes
    assert any("This is a draft" in note for note in task_facts(drafted)["notes"])


def test_a_task_of_other_joins_is_refused(drafted: Task) -> None:
    made = {role: said for role, (_, said) in joined(drafted).items()}
    others = [each for role, each in made.items() if role != "helper"]
    own, helper = join_role(drafted, "helper", "x")[0], made["helper"]
    wrong = {
        "another draft": replace(helper, draft="x" * 43).signed(own.sign),
        "another operator": replace(helper, operator="somebody else"),
        "other keys": replace(helper, keys={**helper.keys, "agree": sealing_key()[1]}),
        "another's signature": helper.signed(own.sign),
        "no signature": replace(helper, signature=""),
        "another role": made["shuffler"],
        "fewer keys": replace(helper, keys={k: v for k, v in helper.keys.items() if k != "seal"}).signed(own.sign),
    }
    for each in wrong.values():
        with pytest.raises(BandannaError):
            join_all(drafted, [*others, each])
    for some in (others, [*others, helper, helper]):
        with pytest.raises(BandannaError, match="one of each"):
            join_all(drafted, some)
    assert join_all(drafted, [*others, helper])


def test_a_role_accepts_its_own_draft_and_keys_alone(drafted: Task) -> None:
    made = joined(drafted)
    said = [each for _, each in made.values()]
    task, (own, _) = join_all(drafted, said), made["analyzer"]
    assert accept_task(task, own).task == task.id
    another = join_role(drafted, "analyzer", "somebody else")
    with pytest.raises(BandannaError, match="other keys"):
        accept_task(join_all(drafted, [each for each in said if each.role != "analyzer"] + [another[1]]), own)
    for name in ("agree", "seal"):  # signed by its own key, and with a half of somebody else's
        (helper, told) = made["helper"]
        swapped = replace(told, keys={**told.keys, name: sealing_key()[1]}).signed(helper.sign)
        with pytest.raises(BandannaError, match="other keys"):
            accept_task(join_all(drafted, [each for each in said if each.role != "helper"] + [swapped]), helper)
    changed = Task.made({**task.content, "grace": 1.0})
    with pytest.raises(BandannaError, match="another draft"):
        accept_task(changed, own)
    with pytest.raises(BandannaError, match="has not signed"):
        check_joins(changed)
    with pytest.raises(BandannaError, match="another draft"):
        accept_task(task, replace(own, draft=""))


def test_secrets_that_accepted_no_task_serve_none(drafted: Task, tmp_path: Path) -> None:
    own, _ = join_role(drafted, "helper", "somebody")
    own.write(tmp_path)
    task = join_all(drafted, [said for _, said in joined(drafted).values()])
    with pytest.raises(BandannaError, match="task accept"):
        Secrets.read(tmp_path, "helper", task)


@pytest.mark.parametrize(
    "wrong", [{"role": "host"}, {"role": ""}, {"operator": ""}, {"operator": "x" * 201}, {"operator": "a\nb"}]
)
def test_a_join_names_role_and_operator(wrong: dict[str, str], drafted: Task) -> None:
    with pytest.raises(BandannaError):
        join_role(drafted, **{"role": "helper", "operator": "somebody", **wrong})


def test_a_task_with_keys_cannot_be_joined(drafted: Task) -> None:
    dealt, _ = create_task(DEALT, expect=False)
    for task in (dealt, join_all(drafted, [said for _, said in joined(drafted).values()])):
        with pytest.raises(BandannaError, match="its keys already"):
            join_role(task, "registrar", "somebody")


@pytest.mark.parametrize("odd", [b"", b"[]", b"{}", b'{"draft": 1}', b"\xff"])
def test_a_file_that_is_no_join_is_refused(odd: bytes, tmp_path: Path) -> None:
    file = tmp_path / "helper.join.json"
    file.write_bytes(odd)
    with pytest.raises(BandannaError):
        RoleJoin.read(file)
    with pytest.raises(BandannaError, match="cannot be read"):
        RoleJoin.read(tmp_path / "nothing")


def test_a_document_with_spoilt_joins_is_refused(drafted: Task) -> None:
    task = join_all(drafted, [said for _, said in joined(drafted).values()])
    content: dict[str, Any] = dict(task.content)
    spoilt: list[dict[str, Any]] = [
        {**content, "joins": {}},
        {**content, "joins": {**content["joins"], "helper": {"operator": "x"}}},
        {**content, "joins": {**content["joins"], "helper": 3}},
        {**content, "keys": {**content["keys"], "helper": signing_key()[1]}},
        {**content, "keys": {**content["keys"], "agree analyzer": sealing_key()[1]}},
        {**content, "keys": {**content["keys"], "seal host": sealing_key()[1]}},
    ]
    for each in spoilt:
        with pytest.raises(BandannaError):
            task_facts(Task.made(each))


# Whatever a document says that somebody else has written: a page, or a BandannaError


ARMS = {"features": {"a": [1.0, 0.0], "b": [0.0, 1.0]}}
ODD = [None, 0, -1, 2, 1.5, "", "x", "[]", "{}", "null", [], {}, [1], {"a": 1}, True, 1e308, 2**70, "[1,2,3]"]


@cache
def document() -> bytes:
    policy = {**LINEAR, **DP, "batch": 20, "protocol": "gaussian"}
    return create_task(file(policy=policy, arms=ARMS))[0].document


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield (*path, key)
        yield from places(part, (*path, key))


def spoilt(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    if isinstance(value, dict):
        return {**value, path[0]: spoilt(value[path[0]], path[1:], odd)}
    return [spoilt(part, path[1:], odd) if place == path[0] else part for place, part in enumerate(value)]


@examples(60, full=500)
@given(st.data(), st.sampled_from(["", "policy", "calibrations", "arms"]), st.sampled_from(ODD))
def test_an_odd_value_in_a_document_is_our_error(data: st.DataObject, within: str, odd: Any) -> None:
    content = json.loads(document())
    inner = json.loads(content[within]) if within else content
    changed = spoilt(inner, data.draw(st.sampled_from([*places(inner)])), odd)
    content = {**content, within: json.dumps(changed)} if within else changed
    said = "a page"
    try:
        task_facts(Task.from_bytes(json.dumps(content).encode()))
    except BandannaError as error:
        said = str(error)
    assert 0 < len(said) < 2_000
