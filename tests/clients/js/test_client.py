"""The built client: small, typed, locked to the formats of this release; its sessions and stores, and its laws."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.deployment.client import device_logic
from bandanna.deployment.client.outbox import Outbox
from bandanna.deployment.client.session import AsyncSession, RegistrarClient
from bandanna.deployment.messages import batch_plan, report
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import encode_base64url, sealing_key
from bandanna.deployment.messages.report import Ticket
from bandanna.deployment.processes import RunningDeployment
from bandanna.deployment.task.document import VERSION
from bandanna.policies.registry import make_encoding
from bandanna.protocols.mixers import MixerState

from ...browser.conftest import Opening, chromium, client, opening
from ...deployment.test_processes import on_disk
from . import cases
from .cases import BUILT, CLIENT, ROOT, Words, answers, node

pytestmark = pytest.mark.browser

FALSE_ALARM = 1e-6  # of each law; entropy is the operating system's, so nothing is seeded


@pytest.mark.parametrize("script", sorted(path.name for path in (CLIENT / "test").glob("*.test.mjs")))
def test_the_node_tests_of_sessions_and_stores_pass(script: str) -> None:
    told = node(script, before=("--test", "--test-reporter=tap"))
    assert re.search(r"^# pass [1-9]", told, re.MULTILINE)
    assert re.search(r"^# (skipped|todo) [1-9]", told, re.MULTILINE) is None


def test_the_client_has_less_than_12_kb_compressed() -> None:
    assert node("about.mjs")  # is built
    assert len(gzip.compress(BUILT.read_bytes(), 9)) < 12_000


def test_the_client_has_no_dependencies() -> None:
    package = json.loads((CLIENT / "package.json").read_text())
    assert "dependencies" not in package
    assert not re.search(r"\bimport\b\s*[({\"'*]|\brequire\(", BUILT.read_text())
    lock = (CLIENT / "package-lock.json").read_text()
    assert "://" not in lock
    assert '"resolved"' not in lock


def test_types_name_what_the_client_exports() -> None:
    exported = set(json.loads(node("about.mjs"))["exports"])
    types = (CLIENT / "dist" / "bandanna.d.ts").read_text()
    typed = {
        name.strip().removeprefix("type ")
        for names in re.findall(r"export (?:type )?\{([^}]*)\}", types)
        for name in names.split(",")
    }
    assert exported <= typed
    page = (ROOT / "docs" / "reference" / "browser-api.md").read_text()
    assert {name for name in typed if f"`{name}" not in page} == set()


def test_the_page_about_it_runs(tmp_path: Path) -> None:
    told = node("page.mjs", after=(str(ROOT / "docs" / "how-to" / "clients.md"), str(tmp_path)))
    assert told.splitlines() == ["0 running", "5 blocks"]


def test_versions_are_those_of_this_release() -> None:
    assert json.loads(node("about.mjs"))["versions"] == {"task": VERSION, "device": batch_plan.VERSION}


def _agrees(seen: dict[str, int], law: dict[str, float]) -> bool:
    draws = sum(seen.values())
    common = [value for value, chance in law.items() if chance * draws >= 20]
    rest = 1 - sum(law[value] for value in common)
    found = [seen.get(value, 0) for value in common]
    if rest * draws >= 5:
        found, expected = [*found, draws - sum(found)], [*(law[value] * draws for value in common), rest * draws]
    else:
        expected = [law[value] * sum(found) / (1 - rest) for value in common]
    return bool(stats.chisquare(found, np.array(expected) * sum(found) / sum(expected)).pvalue > FALSE_ALARM)


@pytest.mark.parametrize(("trials", "probability", "value"), [(40, 0.5, 0.3), (7, 0.5, -1.0), (30, 0.25, 0.55)])
def test_counts_are_lattice_plus_coin_plus_binomial(trials: int, probability: float, value: float) -> None:
    """False alarm: 1 in a million."""
    scale, draws = 2.5, 40_000
    device = {"kind": "Counts", "domain": {"kind": "Ball", "dim": 1, "bound": 1.0}, "scale": scale, "trials": trials,
              "probability": probability}  # fmt: skip
    (found,) = answers([{"what": "law", "device": device, "values": [value], "draws": draws}])
    scaled = scale * (value + 1)
    whole, rest = int(scaled), scaled - int(scaled)
    binomial = stats.binom(trials, probability)
    law = {
        str(count): float((1 - rest) * binomial.pmf(count - whole) + rest * binomial.pmf(count - whole - 1))
        for count in range(trials + 10)
    }
    assert _agrees(found["seen"], law)
    other = stats.binom(trials + 3, probability)  # which the test must notice
    assert not _agrees(found["seen"], {str(count): float(other.pmf(count - whole)) for count in range(trials + 10)})


@pytest.mark.parametrize("kind", ["Answer", "Sign", "Copies", "Rounded"])
def test_bits_signs_and_rounded_numbers_have_their_laws(kind: str) -> None:
    """False alarm: 1 in a million."""
    bits, ball = {"kind": "Bits", "dim": 1, "low": 0.0, "high": 1.0}, {"kind": "Ball", "dim": 1, "bound": 1.0}
    cases: dict[str, tuple[dict[str, Any], float, dict[str, float]]] = {
        "Answer": ({"domain": bits, "lie": 0.3}, 1.0, {"1": 0.7, "0": 0.3}),
        "Sign": ({"domain": ball, "lie": 0.2}, 0.5, {str(2**60): 0.8, str(-(2**60)): 0.2}),
        "Copies": ({"domain": bits, "copies": 2, "trials": 2}, 1.0, {"2": 0.25, "3": 0.5, "4": 0.25}),
        "Rounded": ({"domain": ball, "scale": 1.0}, -0.4, {"0": 0.4, "1": 0.6}),
    }
    device, value, law = cases[kind]
    given = {"what": "law", "device": {"kind": kind, **device}, "values": [value], "draws": 20_000}
    (found,) = answers([given])
    assert set(found["seen"]) == set(law)
    assert _agrees(found["seen"], law)


def test_uniform_numbers_are_uniform() -> None:
    """False alarm: 1 in a million."""
    (found,) = answers([{"what": "uniforms", "draws": 50_000}])
    assert stats.kstest(found["drawn"], "uniform").pvalue > FALSE_ALARM
    assert len(set(found["drawn"])) > 49_990


# Browser clients (in Node) against real processes: totals are the sums of what devices drew, whatever happened


ARMS = 4
Record = dict[str, dict[int, list[list[int]]]]  # of every slot, by version: the messages of its parts


def users(count: int, dim: int, rng: np.random.Generator, prefix: str = "browser") -> list[dict[str, Any]]:
    """People with features of four arms, the last of them a constant, and a reward for each."""
    contexts = rng.uniform(-0.5, 0.5, (count, ARMS, dim))
    contexts[..., -1] = 1.0
    rewards = rng.integers(0, 2, (count, ARMS)).astype(float)
    return [
        {"name": f"{prefix} {number}", "contexts": contexts[number].tolist(), "rewards": rewards[number].tolist()}
        for number in range(count)
    ]


def config(task: Any, secrets: Any, people: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """For clients/js/test/crowd.mjs."""
    return {"analyzer": task.url("analyzer"), "registrar": task.url("registrar"), "task": task.id,
            "token": secrets["registrar"].token, "users": people, **more}  # fmt: skip


def drawn_by(record: dict[str, Any]) -> tuple[Record, dict[str, int]]:
    drawn: Record = {}
    for each in sorted(record["drawn"], key=lambda each: int(each["part"])):
        messages = drawn.setdefault(each["slot"], {}).setdefault(each["version"], [])
        assert len(messages) == each["part"]  # drawn once
        messages.append([int(number) for number in each["message"]])
    return drawn, {each["slot"]: each["epoch"] for each in record["drawn"]}


def publication(task: Any, number: int) -> dict[str, Any]:
    """The one of this number, or a newer one, when it is there."""
    with httpx.Client(trust_env=False, timeout=600.0) as http:
        for _ in range(40):
            query = {"after": number - 1, "wait": 10}
            found = http.get(f"{task.url('analyzer')}/tasks/{task.id}/snapshot", params=query)
            if found.status_code == 200:
                told: dict[str, Any] = found.json()
                return told
    raise AssertionError("nothing was published")


def learned(task: Any, drawn: Record, epochs: dict[str, int], batches: int) -> str:
    """The state of a policy that is told the sums of what was drawn: the newest report of each slot."""
    policy = task.policy
    state = policy.init(None)
    for epoch in range(batches):
        standing = [messages[max(messages)][0] for slot, messages in drawn.items() if epochs[slot] == epoch]
        protocol = policy._query(policy.episode(state)).protocol
        assert len(standing) == policy.episode(state).users
        view = MixerState(users=len(standing), numbers=np.sum(standing, axis=0, dtype=np.int64))
        _, estimate = protocol.analyzer.analyze(None, view, None)
        state = policy._update(state, estimate)
    return make_encoding().dumps(state)


@pytest.mark.parametrize("mixers", [1, 2])
def test_a_small_crowd_that_dies_and_comes_back(mixers: int, tmp_path: Path) -> None:
    policy = bd.LinTS(dim=3, horizon=160, batch=40, intercept=True, privacy=bd.shuffle(epsilon=4.0, delta=1e-4))
    task, secrets = on_disk(policy, tmp_path, mixers=mixers, seed=None)
    people = users(80, 3, np.random.default_rng(mixers))
    with RunningDeployment(task, tmp_path):
        record = json.loads(node("crowd.mjs", config(task, secrets, people, concurrency=16, kill=0.3)))
        told = publication(task, 2)
    assert all(each["takingPart"] and each["kept"] for each in record["users"])
    assert record["deaths"] > 0
    assert record["retries"] >= record["deaths"]
    drawn, epochs = drawn_by(record)
    sent = {slot: counts for slot, counts in record["sent"].items() if slot in drawn and max(drawn[slot]) == 1}
    assert set(map(tuple, sent.values())) == {(1, 1)}  # one zero report and one final one, however often they were sent
    standing = {slot: messages for slot, messages in drawn.items() if 1 in messages}
    assert told["number"] == 2
    assert told["state"] == learned(task, standing, epochs, 2)


def test_totals_of_browsers_and_python_in_one_task_are_the_sums_of_their_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size, batches = 200, 10
    policy = bd.LinTS(dim=3, horizon=2000, batch=size, intercept=True, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    task, secrets = on_disk(policy, tmp_path, mixers=1, seed=None)
    rng = np.random.default_rng(5)
    browsers, others = users(1000, 3, rng), users(1000, 3, rng, "python")
    ours, epochs = _recorded(monkeypatch)

    with RunningDeployment(task, tmp_path):

        async def both() -> tuple[str, list[str]]:
            given = config(task, secrets, browsers, concurrency=24)
            in_node = asyncio.to_thread(node, "crowd.mjs", given)
            in_python = _pythons(tmp_path, secrets["registrar"].token, others)
            told, kept = await asyncio.gather(in_node, in_python)
            return told, kept

        text, kept = asyncio.run(both())
        record = json.loads(text)
        assert [each for each in record["users"] if not each["kept"]] == []
        assert [each for each in kept if each != "kept"] == []
        last = publication(task, batches)
    theirs, their_epochs = drawn_by(record)
    standing = {slot: messages for slot, messages in (theirs | ours).items() if 1 in messages}
    assert len(standing) == 2000
    assert last["number"] == batches
    assert last["state"] == learned(task, standing, their_epochs | epochs, batches)


def _recorded(monkeypatch: pytest.MonkeyPatch) -> tuple[Record, dict[str, int]]:
    drawn: Record = {}
    epochs: dict[str, int] = {}
    original = report.encode_body

    def body_of(rows: Any, *, batch: Batch, ticket: Ticket, **parts: Any) -> bytes:
        messages = drawn.setdefault(encode_base64url(ticket.slot), {})
        messages[len(messages)] = [row.tolist() for row in rows]
        epochs[encode_base64url(ticket.slot)] = batch.epoch
        return original(rows, batch=batch, ticket=ticket, **parts)

    monkeypatch.setattr(device_logic, "encode_body", body_of)
    return drawn, epochs


async def _pythons(folder: Path, token: str, people: list[dict[str, Any]]) -> list[str]:
    """Everybody acts and reports, some at a time; "kept", or what became of decision and report instead."""
    together = asyncio.Semaphore(24)
    outbox = Outbox(":memory:")

    async def play(person: dict[str, Any], http: httpx.AsyncClient) -> str:
        async with together:
            registrar = RegistrarClient(user=person["name"], token=token)
            session = AsyncSession(folder, tickets=registrar, outbox=outbox, http=http, patience=60.0)
            decision = await session.act(person["contexts"])
            outcome = await session.report(decision, person["rewards"][decision.action])
            return "kept" if outcome.kept else f"{decision.reason or outcome}"

    async with httpx.AsyncClient(timeout=600.0, trust_env=False) as http:
        return list(await asyncio.gather(*(play(person, http) for person in people)))


# The same client in a real browser: its store, and what it computes with recorded entropy


__all__ = ["chromium", "client", "opening"]  # fixtures

SITE = "http://localhost"  # where WebCrypto is allowed; no request leaves the browser


@pytest.fixture
def page(opening: Opening, client: Any) -> Any:
    """An empty page among the files of clients/js."""
    made = opening().new_page()

    def answer(route: Any) -> None:
        path = CLIENT / urlsplit(route.request.url).path.lstrip("/")
        if path.suffix == ".mjs":
            route.fulfill(body=path.read_text(), content_type="text/javascript")
        else:
            route.fulfill(body="<!doctype html><title>A test</title>", content_type="text/html")

    made.route(f"{SITE}/**", answer)
    made.goto(f"{SITE}/")
    return made


def test_the_store_of_browsers_does_what_stores_must(page: Any) -> None:
    script = """async () => {
      const { conformance } = await import("/test/conformance.mjs");
      const { indexedStore } = await import("/dist/bandanna.mjs");
      return conformance((name) => indexedStore(name));
    }"""
    assert len(page.evaluate(script)) == 8


def test_a_store_survives_a_reload(page: Any) -> None:
    kept = """async () => {
      const { indexedStore } = await import("/dist/bandanna.mjs");
      return indexedStore("reload")%s;
    }"""
    assert page.evaluate(kept % '.put("a", Uint8Array.of(1, 2), 0)')
    page.reload()
    assert page.evaluate(kept % '.get("a").then(({ value }) => Array.from(value))') == [1, 2]


def test_chromium_chooses_and_draws_as_python_with_the_same_words(page: Any) -> None:
    words, rng = Words(11), np.random.default_rng(11)
    made = [
        *(
            cases.acting(chooser, words, rng, kind, n)
            for chooser in cases.CHOOSERS
            for kind in ("plain", "ties", "explore")
            for n in range(20)
        ),
        *(
            cases.protecting(device, words, rng, n)
            for domain in cases.DOMAINS
            for device in cases.devices_of(domain)
            for n in range(1, 12)
        ),
    ]
    script = "async (given) => (await import('/test/tasks.mjs')).answered(given)"
    found = page.evaluate(script, [case.given for case in made])
    for each, case in zip(found, made, strict=True):
        assert each["left"] == 0
        for name in ("action", "message"):
            assert each.get(name) == case.expected.get(name)


def test_chromium_seals_and_draws_from_its_own_entropy(page: Any) -> None:
    _, public = sealing_key()
    script = """async (key) => {
      const { answered } = await import("/test/tasks.mjs");
      const { unpacked } = await import("/dist/inside.mjs");
      const plain = btoa(String.fromCharCode(...unpacked(key, 32)));
      const seal = { what: "seal", key: plain, content: btoa("sixteen bytes .."), info: "" };
      return answered([seal, { what: "uniforms", draws: 20000 }]);
    }"""
    sealed, drawn = page.evaluate(script, public)
    assert len(sealed["sealed"]) == 88  # 16 bytes and what sealing adds, in base64
    assert 0.45 < np.mean(drawn["drawn"]) < 0.55  # 24 standard deviations
