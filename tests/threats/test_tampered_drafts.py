"""Who drafts a task, and who joins one, may be hostile: nobody accepts what does not keep the promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bandanna.cli.main import app
from bandanna.deployment.messages.canonical import encode_base64url, verify
from bandanna.deployment.task.creation import create_draft
from bandanna.deployment.task.document import Secrets, Task, accept_task, join_all, join_role
from bandanna.errors import BandannaError

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


def run(*arguments: str) -> None:
    done = CliRunner().invoke(app, ["task", *arguments])
    if done.exception is not None:
        raise done.exception


def fewer_coins(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: 1 if name == "trials" else fewer_coins(each) for name, each in value.items()}
    return [fewer_coins(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Task:
    file = tmp_path_factory.mktemp("draft") / "tea.toml"
    file.write_text(TEXT)
    return create_draft(file, expect=False)


@pytest.fixture(params=["coins", "promise"])
def tampered(drafted: Task, request: Any) -> Task:
    """A draft whose devices draw less noise than its policy, or that promises more than its policy keeps."""
    content = dict(drafted.content)
    if request.param == "coins":
        content["device"] = fewer_coins(content["device"])
        assert content["device"] != drafted.content["device"]
    else:
        content["guarantee"] = {**content["guarantee"], "epsilon": 0.01}
    return Task.made(content)


def test_a_tampered_draft_is_joined_by_nobody(tampered: Task, tmp_path: Path) -> None:
    file = tmp_path / "tea.draft.json"
    file.write_bytes(tampered.document)
    with pytest.raises(BandannaError, match="Do not use it"):
        run("join", str(file), "--role", "helper", "--operator", "A", "--out", str(tmp_path / "helper"))
    assert not list(tmp_path.glob("helper/*"))


def test_a_tampered_task_is_accepted_by_nobody(tampered: Task, tmp_path: Path) -> None:
    joined = {role: join_role(tampered, role, role) for role in tampered.roles}
    task = join_all(tampered, [said for _, said in joined.values()])
    file, own = tmp_path / "task.json", tmp_path / "helper.secret.json"
    file.write_bytes(task.document)
    joined["helper"][0].write_to(own)
    with pytest.raises(BandannaError, match="Do not use it"):
        run("accept", str(file), "--secret", str(own))
    assert not Secrets.of_file(own).task
    with pytest.raises(BandannaError, match="has not accepted a task"):
        Secrets.read(own, "helper", task)


NOBODYS = {
    "zero": bytes(32),
    "one": bytes([1, *bytes(31)]),
    "order 8": bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    "short": bytes(16),
}


def test_anyone_can_sign_for_a_key_without_an_owner(drafted: Task) -> None:
    one = encode_base64url(NOBODYS["one"])
    assert verify(one, drafted.id, "share", b"anything", encode_base64url(NOBODYS["one"] + bytes(32)))


@pytest.mark.parametrize("kind", ["agree", "seal"])
@pytest.mark.parametrize("key", NOBODYS)
def test_a_key_without_an_owner_is_refused(kind: str, key: str, drafted: Task) -> None:
    joined = {role: join_role(drafted, role, role) for role in drafted.roles}
    own, said = joined["helper"]
    made = replace(said, keys={**said.keys, kind: encode_base64url(NOBODYS[key])}).signed(own.sign)
    with pytest.raises(BandannaError, match="has no owner"):
        join_all(drafted, [made if role == "helper" else each for role, (_, each) in joined.items()])


def test_a_key_for_which_anyone_can_sign_is_refused(drafted: Task) -> None:
    joined = {role: join_role(drafted, role, role)[1] for role in drafted.roles}
    said, nobodys = joined["helper"], NOBODYS["one"]
    signature = encode_base64url(nobodys + bytes(32))
    joined["helper"] = replace(said, keys={**said.keys, "sign": encode_base64url(nobodys)}, signature=signature)
    assert joined["helper"].genuine
    with pytest.raises(BandannaError, match="has no owner"):
        join_all(drafted, list(joined.values()))


def test_a_role_cannot_join_with_the_key_of_another(drafted: Task) -> None:
    joined = {role: join_role(drafted, role, role) for role in drafted.roles}
    own, said = joined["helper"]
    taken = joined["shuffler"][1].keys["agree"]
    copied = replace(said, keys={**said.keys, "agree": taken}).signed(own.sign)
    names = {"sign": "helper", "agree": "agree helper", "seal": "seal helper"}
    task = join_all(drafted, [each for _, each in joined.values()])
    keys = {**task.content["keys"], **{name: copied.keys[kind] for kind, name in names.items()}}
    told = {**task.content["joins"], "helper": {"operator": "helper", "signature": copied.signature}}
    tampered = Task.made({**task.content, "keys": keys, "joins": told})
    for role in ("registrar", "analyzer", "shuffler"):
        with pytest.raises(BandannaError, match="another's"):
            accept_task(tampered, joined[role][0])
