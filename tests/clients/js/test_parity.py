"""One corpus for both clients: whatever is published, entered and answered, they accept, send and keep the same."""

from __future__ import annotations

import base64
import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.data.features.map import Hash, Intercept, Map, OneHot, Project, Range, UnitBall
from bandanna.deployment.client.outbox import ANSWERED, DECIDED, OPEN, OPENING, OVER
from bandanna.deployment.client.session import Session
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import Opener, dumps, encode_base64url, expand_mask, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.messages.report import Ticket, sealing_info, split_reports
from bandanna.deployment.task.document import Secrets, Task
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic

from ...deployment.inside import Inside, a_task, signed
from ...deployment.simulated import case
from ...threats.test_devices import spoilt
from .cases import CLIENT, ROOT, RecordedCoins, RecordedNoise, Words, node

SIZE: dict[str, Any] = {"horizon": 64, "batch": 16}
DP: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4}
URLS = {role: f"http://{role}.test" for role in ("analyzer", "shuffler", "helper", "registrar")}
POLICIES: dict[str, Any] = {
    "LinTS": bd.LinTS(dim=3, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, intercept": bd.LinTS(dim=3, intercept=True, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, a model for every arm": bd.LinTS(n_arms=3, features=2, privacy=bd.shuffle(**DP), **SIZE),
    "LinUCB": bd.LinUCB(dim=3, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, rewards": bd.policies.LinTSRewards(dim=3, public_contexts=True, privacy=bd.shuffle(**DP), **SIZE),
    "LinTS, central": bd.LinTS(dim=3, privacy=bd.central(**DP), **SIZE),
    "SDP-SE": None,
}
STATES = {DECIDED: "opening", OPENING: "opening", OPEN: "open", ANSWERED: "reporting", OVER: "over"}
REASONS = {  # of errors of Python
    "not signed": "signature", "not cosigned": "signature",
    "another plan": "plan", "gone back": "rollback", "follow": "rollback",
    "reported before": "reward", "report of zeros": "nothing", "no arm is assigned": "place",
}  # fmt: skip
ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    2,
    1_000_000,
    2**53,
    2**60,
    "1",
    True,
    1.5,
    [],
    [0],
    [1_000_000],
    {},
    "<u8",
    "row",
)
NUMBERS: tuple[Any, ...] = (0.0, 0.1, -0.3, 0.5, 0.55, 1e-300)
BAD_NUMBERS: tuple[Any, ...] = ("nan", "inf", 5.0, -1e100, 1e200, "x", None)


def changed(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """A batch with another value, a field more or one less: of its own, of a round, or of a part."""
    made = copy.deepcopy(batch)
    place: Any = [made, made["rounds"][0], made["rounds"][0]["parts"][0]][rng.choice([0, 1, 2], p=[0.5, 0.1, 0.4])]
    name = str(rng.choice(sorted(place)))
    how = rng.random()
    if how < 0.15:
        del place[name]
    elif how < 0.25:
        place["more"] = 1
    else:
        place[name] = ODD[rng.integers(len(ODD))]
    return made


def document_of(
    task: Task, secrets: dict[str, Secrets], content: dict[str, Any], rng: Any
) -> tuple[SignedPublication, str]:
    """A publication: as it should be, or with something else in it; and what was done."""
    hows = ["fair", "snapshot", "batch", "field", "signature", "witness"]
    told, how = dict(content), str(rng.choice(hows, p=[0.3, 0.2, 0.3, 0.1, 0.05, 0.05]))
    if how == "snapshot":
        told["snapshot"] = spoilt(told["snapshot"], rng)
    elif how == "batch":
        told["batches"] = [changed(told["batches"][0], rng), *told["batches"][1:]]
    elif how == "field":
        name = str(
            rng.choice(
                [
                    "task",
                    "number",
                    "previous",
                    "status",
                    "epoch",
                    "round",
                    "state",
                    "snapshot",
                    "answers",
                    "batches",
                    "helper",
                ]
            )
        )
        told[name] = ODD[rng.integers(len(ODD))]
        if name == "number" and type(told[name]) is int and told[name] > 0:
            told["previous"] = encode_base64url(bytes(32))
    other = {"signature": "analyzer", "witness": "registrar"}.get(how, "")
    return signed(task.id, {**secrets, other: secrets["shuffler"]}, dumps(told)), how


def contexts_of(name: str, rng: np.random.Generator) -> Any:
    """Features as the task wants them; now and then some that are none."""
    if name == "SDP-SE":
        return None if rng.random() < 0.9 else [[0.1]]
    drawn = [[NUMBERS[k] for k in rng.integers(0, len(NUMBERS), 3)] for _ in range(4)]
    if "intercept" in name:
        for row in drawn:
            row[-1] = 1.0
    odd = rng.random()
    if odd < 0.1:
        drawn[rng.integers(4)][rng.integers(3)] = BAD_NUMBERS[rng.integers(len(BAD_NUMBERS))]
    elif odd < 0.14:
        drawn[rng.integers(4)].pop()
    elif odd < 0.16:
        drawn = []
    return drawn[0][:2] if "every arm" in name and drawn else drawn


def lengths(told: dict[str, Any]) -> dict[str, Any]:
    requests = [[method, path, len(body)] for method, path, body in told["requests"]]
    return {"reason": told["act"].get("reason"), "requests": requests, "states": told["states"]}


def epoch_of(batches: Any) -> Any:
    first = batches[0] if isinstance(batches, list) and batches else None
    return first.get("epoch", 0) if isinstance(first, dict) else 0


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    return float(value) if value in ("nan", "inf") else value


def summarize_error(error: BandannaError) -> dict[str, str]:
    text = str(error)
    known = next((word for said, word in REASONS.items() if said in text), None)
    if known is None and isinstance(error, InvalidArgument):
        known = "reward" if text.startswith("reward") else "contexts"
    return {"error": known or "publication"}


def in_python(given: dict[str, Any], words: Words) -> dict[str, Any]:
    requests: list[list[str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode().split(given["task"])[1]
        requests.append([request.method, path, base64.b64encode(request.content).decode()])
        if path == "/snapshot":
            document = base64.b64decode(given["publication"])
            return httpx.Response(
                200, content=document, headers={name: given[name] for name in ("signature", "witness")}
            )
        if path == "/reports":
            return httpx.Response(given["answer"]["status"], json=given["answer"]["body"])
        return httpx.Response(404)

    ticket = Ticket(slot=bytes(16), collector=bytes(range(16)), epoch=given["ticket"]["epoch"])
    http, told = httpx.Client(transport=httpx.MockTransport(answer)), dict[str, Any]()
    parts: dict[str, Any] = {"tickets": lambda *_: ticket, "outbox": ":memory:", "http": http, "patience": 0.0}
    with Session(base64.b64decode(given["document"]), id=given["task"], **parts) as session:
        session._steps._source, session._steps._coins = RecordedNoise(words), RecordedCoins(words)
        try:
            decision = session.act(plain(given["contexts"]))
            told["act"] = {"action": decision.action, "reason": decision.reason}
            if decision.taking_part:
                outcome = session.report(decision, plain(given["reward"]))
                told["report"] = {"kept": outcome.kept, "pending": outcome.pending, "reason": outcome.reason}
        except BandannaError as error:
            told["report" if "act" in told else "act"] = summarize_error(error)
        try:
            session.flush()
        except BandannaError as error:
            told["flush"] = summarize_error(error)
        rows = session.outbox._rows.execute("select state from decisions order by rowid").fetchall()
    return {**told, "requests": requests, "states": [STATES[state] for (state,) in rows]}


@pytest.mark.browser
@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=pytest.mark.full)])
def test_both_clients_do_the_same(count: int, tmp_path: Path) -> None:
    rng, words = np.random.default_rng(count), Words(count)
    worlds = []
    for name, policy in POLICIES.items():
        given, _, arms, _ = case(name) if policy is None else (policy, None, None, 0)
        task, secrets = a_task(given, seed=None, arms=arms, urls=URLS)
        folder = tmp_path / name
        folder.mkdir()
        worlds.append((name, task, secrets, loads(Inside(task, secrets, folder).processor.published.document)))
    cases, expected, hows, kinds, others = [], [], list[str](), Counter[str](), 0
    for number in range(count):
        name, task, secrets, content = worlds[number % len(worlds)]
        said_, how = document_of(task, secrets, content, rng)
        document = said_.document
        refused = {"status": 409, "body": {"results": [{"reason": "closed"}] * len(content["batches"][0]["rounds"])}}
        epoch = epoch_of(loads(document)["batches"])
        given_: dict[str, Any] = {
            "document": base64.b64encode(task.document).decode(),
            "task": task.id,
            "publication": base64.b64encode(document).decode(),
            "signature": said_.signature,
            "witness": said_.cosignature,
            "contexts": contexts_of(name, rng),
            "ticket": {"slot": encode_base64url(bytes(16)), "collector": encode_base64url(bytes(range(16))),
                       "epoch": epoch if type(epoch) is int and rng.random() < 0.95 else 9},
            "reward": REWARDS[rng.integers(len(REWARDS))],
            "answer": refused if rng.random() < 0.1 else {"status": 201, "body": {"places": [int(rng.integers(16))]}},
        }  # fmt: skip
        words.taken()
        expected.append(in_python(given_, words))
        cases.append({**given_, "words": words.taken()})
        hows.append(how)
        kinds[f"{how} {'error' if 'error' in expected[-1]['act'] else 'fine'}"] += 1
    found = json.loads(node("parity.mjs", cases))
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one.pop("unopened", False):  # a page is refused when it opens its session, before it can act
            if other["act"] == {"error": "contexts"}:
                continue  # a call that is wrong for everybody, before anything is asked for
            other = {**other, "requests": other["requests"][:1]}
            del other["flush"]
        drew_others = one.get("left", 0) > 0 or "more words are drawn" in str(one["act"].get("error"))
        if hows[number] == "snapshot" and drew_others:
            others += 1  # a tie in one order of sums, and none in the other
            continue
        if hows[number] == "snapshot" and one["act"].get("action") != other["act"].get("action"):
            one, other = lengths(one), lengths(other)  # numbers cancel out, in another order of sums
            others += 1
        assert one.pop("left", 0) == 0, (number, worlds[number % len(worlds)][0], one, other)
        assert one == other, (number, worlds[number % len(worlds)][0], cases[number]["contexts"])
    assert others <= count / 200
    assert min(kinds[f"{how} fine"] for how in ("fair", "snapshot")) > count / 20
    assert kinds["batch error"] > count / 20


REWARDS: tuple[Any, ...] = (0.0, 1.0, 0.3, 0.75, -7.0, 1e300, "nan", "inf", None)


# Real tasks of every privacy model: what browser clients send is kept by the real collector, and learned from


pytestmark = pytest.mark.browser

BATCH, ARMS = 16, 4
TASK_SIZE: dict[str, Any] = {"horizon": 4 * BATCH, "batch": BATCH}
FIXED = {"aspirin": (0.1, 0.2, 0.3), "rest": (0.5, -0.1, 0.0), "tea": (0.0, 0.0, 0.9)}
TASK_POLICIES: dict[str, Any] = {
    "LinTS, shuffle, intercept": bd.LinTS(dim=3, intercept=True, privacy=bd.shuffle(**DP), **TASK_SIZE),
    "LinTS, shuffle, exploring": bd.LinTS(
        dim=3, privacy=bd.shuffle(**DP), explore=bd.policies.uniform(first=20), **TASK_SIZE
    ),
    "LinTS, a model for every arm": bd.LinTS(n_arms=3, features=2, privacy=bd.shuffle(**DP), **TASK_SIZE),
    "LinTS, noise of the mixer": bd.LinTS(dim=3, privacy=bd.shuffle(noise="mixer", **DP), **TASK_SIZE),
    "LinTS, arms that stay": bd.LinTS(dim=3, privacy=bd.shuffle(**DP), **TASK_SIZE),
    "LinTS, central": bd.LinTS(dim=3, privacy=bd.central(**DP), **TASK_SIZE),
    "LinTS, no privacy": bd.LinTS(dim=3, privacy=bd.none(), **TASK_SIZE),
    "LinUCB, shuffle": bd.LinUCB(dim=3, privacy=bd.shuffle(**DP), **TASK_SIZE),
    "LinUCB, central": bd.LinUCB(dim=3, privacy=bd.central(**DP), **TASK_SIZE),
    "LinUCB, concurrent": bd.LinUCB(dim=3, privacy=bd.concurrent(shufflers=2, **DP), **TASK_SIZE),
    "rewards, shuffle": bd.policies.LinTSRewards(dim=3, public_contexts=True, privacy=bd.shuffle(**DP), **TASK_SIZE),
    "rewards, intercept": bd.policies.LinTSRewards(
        dim=3, intercept=True, public_contexts=True, privacy=bd.shuffle(**DP), **TASK_SIZE
    ),
    "rewards, local": bd.policies.LinTSRewards(
        dim=3, public_contexts=True, privacy=bd.local(epsilon=2.0, delta=0.0), **TASK_SIZE
    ),
    "rewards, central": bd.policies.LinTSRewards(dim=3, public_contexts=True, privacy=bd.central(**DP), **TASK_SIZE),
}
REFUSED = {
    "LinTS, local": bd.LinTS(dim=3, privacy=bd.local(**DP), **TASK_SIZE),
    "LinUCB, shuffled Gaussians": bd.LinUCB(dim=3, privacy=bd.shuffle(protocol="gaussian", **DP), **TASK_SIZE),
}


def played(
    inside: Inside, secrets: dict[str, Secrets], arms: Any, rng: np.random.Generator, count: int = BATCH
) -> list[dict[str, Any]]:
    """A batch of browsers that act on what is published now."""
    task, published = inside.task, inside.processor.published
    tickets = inside.tickets(range(count), inside.processor.running[0])
    people = [
        {"contexts": contexts(task, arms, rng), "reward": float(rng.random()),
         "ticket": {"epoch": each.epoch, "slot": encode_base64url(each.slot),
                    "collector": encode_base64url(each.collector),
                    **({} if each.helper is None else {"helper": encode_base64url(each.helper)})}}
        for each in tickets
    ]  # fmt: skip
    given = {
        "document": _text(task.document), "task": task.id, "publication": _text(published.document),
        "signature": published.signature, "witness": published.cosignature, "people": people,
    }  # fmt: skip
    answered: list[dict[str, Any]] = json.loads(node("records.mjs", given))
    return answered


def contexts(task: Task, arms: Any, rng: np.random.Generator) -> Any:
    """Features as the task wants them: of every arm, of the user, or none."""
    if arms is not None:
        return None
    if getattr(task.policy, "n_arms", None) is not None:
        return rng.uniform(-0.5, 0.5, 2).tolist()
    drawn = rng.uniform(-0.6, 0.6, (ARMS, 3))
    drawn[:, -1] = 1.0
    return dict(zip("abcd", drawn.tolist(), strict=True)) if rng.random() < 0.5 else drawn.tolist()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")


@pytest.mark.parametrize("name", TASK_POLICIES)
def test_a_batch_of_browsers_is_learned_from(name: str, tmp_path: Path) -> None:
    arms = FIXED if "stay" in name else None
    task, secrets = a_task(TASK_POLICIES[name], seed=None, arms=arms, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(7)
    for number in (1, 2):
        found = played(inside, secrets, arms, rng)
        assert not any("error" in each for each in found), found[0]
        for each in found:
            for request in (each["zero"], each["final"]):
                (verdicts,) = inside.collector.accept([base64.b64decode(request)])
                assert [verdict.reason for verdict in verdicts] == [""]
        if "mixer" in name:
            return  # whose noise only the process draws
        inside.pump()
        assert inside.processor.published.number == number
    if arms is not None:
        assert {each["arm"] for each in found} <= set(FIXED)


@pytest.mark.parametrize(("name", "mixers"), [("SDP-SE", 1), ("SDP-SE", 2), ("AdaC-UCB", 0), ("DP-SE", 0), ("GOPE", 0)])
def test_a_browser_plays_the_arm_of_its_place_and_reports_it_as_python(name: str, mixers: int, tmp_path: Path) -> None:
    policy, _, arms, _ = case(name)
    task, secrets = a_task(policy, seed=None, arms=arms, mixers=mixers, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(3)
    batch = inside.processor.now.batches[0]
    found = played(inside, secrets, True, rng, min(batch.slots, 40))
    assert not any("error" in each for each in found), found[0]
    assert [each["action"] for each in found] == batch.arms_at(np.arange(len(found))).tolist()
    for place, each in enumerate(found):
        for request in (each["zero"], each["final"]):
            (verdicts,) = inside.collector.accept([base64.b64decode(request)])
            assert [(verdict.place, verdict.reason) for verdict in verdicts] == [(place, "")]


@pytest.mark.parametrize("name", ["LinTS, shuffle, intercept", "LinUCB, concurrent", "LinTS, a model for every arm"])
def test_a_browsers_share_and_seed_open_to_what_it_drew(name: str, tmp_path: Path) -> None:
    task, secrets = a_task(TASK_POLICIES[name], mixers=2, seed=None, urls=URLS)
    inside, rng = Inside(task, secrets, tmp_path), np.random.default_rng(9)
    opener, batch = Opener(secrets["helper"].seal), inside.processor.now.batches[0]
    part = batch.rounds[0].parts[0]
    for each in played(inside, secrets, None, rng):
        assert "error" not in each, each
        for version, request in enumerate((each["zero"], each["final"])):
            ((slot, _, epoch, round_, sent, key_id, body),) = split_reports(base64.b64decode(request), 1)
            assert (epoch, round_, sent, key_id, len(body)) == (batch.epoch, 0, version, 0, batch.rounds[0].size)
            sealed = batch.rounds[0].sealed(body)
            opened = opener.open(sealed, sealing_info(task.digest, batch, 0, slot))
            assert opened[16:] == inside.ticket_of(slot, epoch).helper
            counts = part.numbers([body])[0] + expand_mask(opened[:16], part.length)
            (drawn,) = (one["message"] for one in each["drawn"] if one["version"] == version)
            assert counts.tolist() == [int(number) for number in drawn]
            other = Batch.from_dict({**batch.to_dict(), "slots": batch.slots - 1})
            with pytest.raises(bd.errors.BandannaError):
                opener.open(sealed, sealing_info(task.digest, other, 0, slot))


@pytest.mark.parametrize("name", REFUSED)
def test_tasks_that_browsers_cannot_play_are_refused(name: str, tmp_path: Path) -> None:
    task, secrets = a_task(REFUSED[name], seed=None, urls=URLS)
    found = played(Inside(task, secrets, tmp_path), secrets, None, np.random.default_rng(1))
    assert {each.get("reason") for each in found} == {"device"}
    assert all("or the Python client" in each["error"] for each in found)


def test_a_seeded_test_is_refused(tmp_path: Path) -> None:
    task, secrets = a_task(TASK_POLICIES["LinTS, central"], seed=3, urls=URLS)
    found = played(Inside(task, secrets, tmp_path), secrets, None, np.random.default_rng(1))
    assert {each.get("reason") for each in found} == {"device"}


# A browser makes the same features of a record as Python, to the last bit, and treats the same values


SHARED = ROOT / "tests" / "features" / "vectors.json"


def mapped(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Of clients/js/test/features.mjs, one for each map."""
    found: list[dict[str, Any]] = json.loads(node("features.mjs", document))
    return found


def test_browsers_compute_the_shared_feature_vectors() -> None:
    document = json.loads(SHARED.read_text(encoding="utf-8"))
    for found, shared in zip(mapped(document), document["cases"], strict=True):
        assert [each["features"] for each in found["mapped"]] == shared["vectors"], shared["name"]


def test_features_of_drawn_records_are_equal() -> None:
    rng = np.random.default_rng(0)
    texts = ["", "Tea", "green tea", "T\u00c9A \u8336", "a b a B", "1 2 3", None]
    numbers = [None, True, -1e300, 0.1, 18, 80, 44.25, "x"]
    records = [
        {"age": numbers[rng.integers(8)], "size": float(rng.normal()), "site": texts[rng.integers(7)], "note": note}
        for note in (" ".join(map(str, rng.integers(0, 50, rng.integers(0, 9)))) for _ in range(300))
    ]
    parts = (
        Range(age=(18, 80), size=(-1.5, 1 / 3)),
        OneHot(site=["Tea", "", 1], unknown="other"),
        Hash("note", buckets=37),
    )
    maps = [
        Map(*parts),
        Map(parts[0], Hash("site", buckets=3, words=False, seed=11), UnitBall(scale=2.5), Intercept()),
        Map(*parts, Project(9, seed=2**40), UnitBall(scale=1.25)),
        Map(Range(size=(-1, 1), outside="refuse"), OneHot(site=["Tea"], missing="refuse")),
    ]
    found = mapped({"records": records, "cases": [{"map": made.to_dict()} for made in maps]})
    for made, answer in zip(maps, found, strict=True):
        assert answer["dim"] == made.dim
        for record, theirs in zip(records, answer["mapped"], strict=True):
            check(made, record, theirs)


def check(made: Map, record: dict[str, Any], theirs: dict[str, Any]) -> None:
    try:
        ours = made.mapped([record])
    except InvalidStatistic:
        assert "refused" in theirs
        return
    assert np.array_equal(ours.values[0], theirs["features"])
    treated = {name: what for name, counts in ours.report.columns.items() for what, n in vars(counts).items() if n}
    assert theirs["treated"] == treated
    assert theirs["clipped"] == bool(ours.report.clipped)


def test_ranges_of_a_schema_are_a_map() -> None:
    schema = {"names": ["size", "age"], "ranges": {"age": [18, 80], "size": [0, 2.5]}}
    (found,) = mapped({"records": [{"age": 30, "size": 1}], "cases": [{"map": schema}]})
    ours = Map(Range(size=(0, 2.5), age=(18, 80)))({"age": 30, "size": 1})
    assert found["mapped"][0]["features"] == ours.tolist()


def test_the_feature_map_is_a_typed_module_of_its_own() -> None:
    assert "bandanna features" not in (CLIENT / "dist" / "bandanna.mjs").read_text()
    assert "readMap" in (CLIENT / "dist" / "types" / "features.d.ts").read_text()
    assert Path(CLIENT / "dist" / "features.d.ts").exists()
