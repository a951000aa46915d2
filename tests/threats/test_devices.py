"""Devices are total: what is sent, to whom and whether, is the same for all features and rewards.

A hostile analyzer publishes states, snapshots and answers that are numbers of no policy: NaN, infinities, numbers so
large that sums of them are none, arrays of other shapes. Nothing that a device does may then depend on its data."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.device_logic import ClientTask, DeviceLogic, DocumentDevice, PlayedArm, ReportSlot
from bandanna.deployment.client.policy_device import BodyEncoder, PolicyDevice
from bandanna.deployment.client.session import Session
from bandanna.deployment.messages.batch_plan import Batch, Part, Round
from bandanna.deployment.messages.canonical import dumps, loads, sealing_key, sign
from bandanna.deployment.messages.publication import SignedPublication, chain_document
from bandanna.deployment.messages.report import FINAL, ZERO, Ticket, parse_answers, split_reports, write_seal_key
from bandanna.deployment.task.query_plan import make_batch
from bandanna.device.base import Device
from bandanna.device.domain import Ball, Bits, Box, Domain, Estimate
from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.device.noise import SecureNoise
from bandanna.device.randomizers import PlainVector
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.numeric.rng import SecureRandomness
from bandanna.policies.base import AssignedArms, PlayedRounds
from bandanna.policies.registry import ALGORITHMS, make_encoding

from ..client.test_session import resigned
from ..client.town import URLS, Town
from ..deployment.inside import a_task, signed
from ..deployment.simulated import case, simulated

NOT_DEPLOYABLE = {"RS-OFUL", "AdaC-OFUL"}  # devices would have to act one after the other
# A client of these answers for all plays of a batch: they have no sessions.
SESSIONLESS = {"CDP-DPE", "DPE", "DPE-FixedU", "LDP-DPE", "Laplace-DPE", "SDP-DPE"}
QUICK = {"GLM-SDP", "LinUCB-SDP-Amp", "LinTS-SDP-rewards", "LinTS-CSDP", "AdaC-UCB", "SDP-SE", "LinTS-JDP", "LDP-UCB"}
EACH = [
    pytest.param(name, marks=[] if name in QUICK else [pytest.mark.full])
    for name in sorted(set(ALGORITHMS) - NOT_DEPLOYABLE - SESSIONLESS)
]
BAD = (np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 1e200, 1e39, -1e-320)
FEATURES = (0.0, 0.1, -0.3, 0.9, -0.9, 1e-300, 5.0, -1e100)
REWARDS = (0.0, 1.0, 0.3, -7.0, 1e308, np.inf)


def spoilt(text: str, rng: np.random.Generator) -> str:
    """An encoded value with other numbers: some of each array, all of them, or an array of another shape."""

    def walked(value: Any) -> Any:
        if isinstance(value, list):
            return [walked(each) for each in value]
        if not isinstance(value, dict):
            drawn = float(rng.choice(BAD))
            spoils = isinstance(value, float) and rng.random() < 0.3 and np.isfinite(drawn)
            return drawn if spoils else value
        if value.get("array") == "<f8":
            array = np.frombuffer(base64.b64decode(value["data"])).copy()
            hit = rng.random(array.shape) < rng.choice([0.0, 0.4, 1.0])
            array[hit] = rng.choice(BAD, int(hit.sum()))
            shape = [*value["shape"], 1] if rng.random() < 0.1 else value["shape"]
            return {**value, "shape": shape, "data": base64.b64encode(array.tobytes()).decode()}
        return {name: walked(each) for name, each in value.items()}

    return json.dumps(walked(json.loads(text)))


def contents(policy: Any, states: list[Any], hostile: int, task: Any) -> Iterator[dict[str, Any]]:
    """Parts of publications in every state and round, as they are and spoilt, with answers to earlier rounds that are
    small numbers or spoilt; batches are announced as the policy means them.
    """
    rng, encoding = np.random.default_rng(3), make_encoding()
    for state in states:
        episode = policy.episode(state)
        if episode is None:
            continue
        batch, plan = make_batch(policy, state, episode, epoch=0, mixer_count=task.mixers, seeded=False)
        if not batch.rounds:
            continue
        texts = {"state": encoding.dumps(state), "snapshot": encoding.dumps(policy.publish(state))}
        for round_ in range(len(batch.rounds)):
            dims = [query.protocol.domain.dim for number in range(round_) for query in plan.round_of(number)]
            made = [Estimate(total=np.full(dim, 0.1), count=batch.slots, variance=1.0) for dim in dims]
            told = [encoding.dumps(each) for each in made]
            fair = {"number": 0, "epoch": 0, "round": round_, "answers": told, "batches": [batch.to_dict()], **texts}
            yield fair
            for _ in range(hostile):
                wrong = [spoilt(text, rng) for text in told]
                if wrong:
                    yield {**fair, "answers": wrong}
                yield {**fair, "answers": wrong, **{name: spoilt(text, rng) for name, text in texts.items()}}


@pytest.mark.parametrize("name", EACH)
def test_length_and_existence_of_a_report_do_not_depend_on_what_happened(name: str, request: Any) -> None:
    """Of every policy's devices, whatever is published: a report is made for all features and rewards, of one length,
    or for none.
    """
    policy, env, arms, rounds = case(name)
    task, _ = a_task(policy, seed=None, arms=arms)
    first = policy.init(task.fixed_features)
    episode = policy.episode(first)
    assert not (isinstance(episode, AssignedArms) and episode.clients is not None), "name it in SESSIONLESS"
    leaflet, encoding = ClientTask.from_bytes(task.document, task.id), make_encoding()
    guides: list[DeviceLogic] = [
        PolicyDevice(leaflet),
        *([DocumentDevice(leaflet)] if leaflet.device is not None else []),
    ]
    states = [first, encoding.loads(simulated(policy, env, rounds).state)]
    rng, made = np.random.default_rng(5), dict[int, int]()
    for content in contents(policy, states, 6 if request.node.get_closest_marker("full") else 3, task):
        round_ = content["round"]
        for guide in guides:
            try:
                batch = guide.batch(content, 0)
            except BandannaError:
                continue  # before features are looked at
            ticket = Ticket(slot=bytes(16), epoch=batch.epoch, collector=bytes(16))
            slot = ReportSlot(batch=batch, ticket=ticket, key=task.content["keys"].get("seal analyzer"))
            outcomes = set()
            for _ in range(6):
                features = rng.choice(FEATURES, guide.dim)
                arm = int(rng.choice(batch.arms)) if batch.arms else int(rng.integers(2))
                given = PlayedArm(features=tuple(features.tolist()), arm=arm)
                reward = float(rng.choice(REWARDS))
                try:
                    body, _ = guide.final(content, round_, slot, given, reward, SecureNoise(), SecureRandomness())
                    outcomes.add(len(body))
                except BandannaError as error:
                    outcomes.add(str(error))
            assert len(outcomes) == 1, content
            made[round_] = made.get(round_, 0) + (outcomes == {batch.rounds[round_].size})
    assert made
    assert all(made.values())


DOMAINS: list[Domain] = [
    Ball(dim=3),
    Box(dim=2, low=0.25, high=1.0),
    Bits(),
    LinearReport(features=2),
    InterceptReport(features=3),
    PerArmReport(features=2, n_arms=3),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
def test_a_device_protects_points_of_its_domain_whatever_a_policy_has_formed(
    domain: Domain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a policy gives for a point of the domain, and is none, is clipped into it before noise is added, or refused;
    a point of the domain stays as it is.
    """
    seen: list[Any] = []
    monkeypatch.setattr(Device, "message", lambda self, statistic, source: seen.append(statistic.values))
    device, middle = PlainVector(domain=domain), (domain.lower + domain.upper) / 2

    def report(values: Any) -> None:
        claimed = domain.sealed(np.array([values], dtype=float), clipped=np.asarray(0))  # a policy says so
        device.report(claimed, SecureNoise())

    rng = np.random.default_rng(4)
    for size in (1.0 + 1e-6, 2.0, 1e30, 1e200, 1.7e308):
        for direction in (np.ones(domain.dim), -np.ones(domain.dim), rng.choice([-1.0, 1.0], domain.dim)):
            report(size * np.maximum(np.abs(domain.lower), np.abs(domain.upper)) * direction)
            domain.check(seen[-1])
    assert len(seen) == 15
    for wrong in (np.nan, np.inf, -np.inf):
        with pytest.raises(InvalidStatistic):
            report([*middle[:-1], wrong])
    inside = domain.admit(rng.normal(size=(1, domain.dim))).values
    report(inside[0])
    assert np.array_equal(seen[-1], inside)
    assert len(seen) == 16


PROTECTED = [
    name
    for name in sorted(set(ALGORITHMS) - NOT_DEPLOYABLE - SESSIONLESS)
    if ALGORITHMS[name].trust not in ("none", "central")
]


def _of_rows(batch: Batch, dim: int, epoch: int) -> Batch:
    """A batch of one person, who sends a row as to a trusted server."""
    part = Part(form="row", dtype="<f8", length=dim + 4)
    return replace(batch, epoch=epoch, slots=1, rounds=(Round(parts=(part,)),), arms=(), plays=(), in_turn=False)


def _ended(policy: Any, state: Any) -> Any:
    """A state in which the policy has no batch any more, by its count of rounds; None if it always has one."""
    found = None
    for each in fields(state):
        with suppress(Exception):
            found = replace(state, **{each.name: policy.horizon})
            if policy.episode(found) is None:
                return found
    return None


@pytest.mark.parametrize("name", PROTECTED)
def test_no_row_leaves_a_device_of_a_task_that_trusts_no_server(name: str) -> None:
    """A batch that an analyzer announces where the policy has none - after the last, or after one whose next is not
    known - is refused, and so are batches of rows: no device sends its features, arm and reward as they are.
    """
    policy, _, arms, _ = case(name)
    task, _ = a_task(policy, seed=None, arms=arms)
    first, encoding = policy.init(task.fixed_features), make_encoding()
    episode, ended = policy.episode(first), _ended(policy, first)
    assert episode is not None
    batch, _ = make_batch(policy, first, episode, epoch=0, mixer_count=task.mixers, seeded=False)
    leaflet = ClientTask.from_bytes(task.document, task.id)
    guides: list[DeviceLogic] = [
        PolicyDevice(leaflet),
        *([DocumentDevice(leaflet)] if leaflet.device is not None else []),
    ]
    for guide in guides:
        rows = [_of_rows(batch, guide.dim, epoch) for epoch in (0, 1)]
        lies: list[tuple[Any, list[Batch], int]] = [(first, rows[:1], 0), (first, [batch, rows[1]], 1)]
        if ended is not None:
            lies.append((ended, rows[:1], 0))
        if batch.slots > 1 and not batch.arms:  # fewer people than their noise is for
            fewer = [replace(batch, epoch=epoch, slots=batch.slots - 1) for epoch in (0, 1)]
            lies += [(first, [batch, fewer[1]], 1), *([(ended, fewer[:1], 0)] if ended is not None else [])]
        for state, batches, place in lies:
            texts = {"state": encoding.dumps(state), "snapshot": encoding.dumps(policy.publish(state))}
            told = [each.to_dict() for each in batches]
            content = {"number": 0, "epoch": 0, "round": 0, "answers": [], "batches": told, **texts}
            with pytest.raises(BandannaError, match=r"announced|plan"):
                guide.batch(content, place)
            slot = ReportSlot(
                batch=batches[place], ticket=Ticket(slot=bytes(16), epoch=place, collector=bytes(16)), key=None
            )
            given = PlayedArm(features=(0.5,) * guide.dim, arm=0)
            with pytest.raises(BandannaError):
                guide.zeros(content, place, slot, SecureNoise())
            with pytest.raises(BandannaError):
                guide.final(content, 0, slot, given, 0.25, SecureNoise(), SecureRandomness())


def test_a_reporter_makes_no_row_for_a_task_that_trusts_no_server() -> None:
    policy, _, arms, _ = case("LinTS-SDP")
    task, _ = a_task(policy, seed=None, arms=arms)
    episode = policy.episode(policy.init(task.fixed_features))
    batch, _ = make_batch(policy, policy.init(task.fixed_features), episode, epoch=0, mixer_count=1, seeded=False)
    reporter = BodyEncoder(task, _of_rows(batch, policy.dim, 0))
    ticket = Ticket(slot=bytes(16), epoch=0, collector=bytes(16))
    played = PlayedRounds(
        rewards=np.ones(1), features=np.ones((1, policy.dim)), arms=np.zeros(1, dtype=int), groups=None
    )
    with pytest.raises(BandannaError, match="trusts no server"):
        reporter.zero(0, (), ticket, SecureNoise())
    with pytest.raises(BandannaError, match="trusts no server"):
        reporter.final(0, (), played, [ticket], SecureNoise(), SecureRandomness())


def accomplice(town: Town) -> None:
    """A shuffler that takes every report, so that devices go on as far as they do."""
    honest = town._answer

    def answered(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/reports"):
            return honest(request)
        return httpx.Response(201, json={"places": [0] * len(split_reports(request.content, 1000))})

    town._answer = answered  # type: ignore[method-assign]


def requests_of(town: Town, contexts: Any, reward: Any) -> list[tuple[str, str, int]]:
    asked: list[tuple[str, str, int]] = []

    def noted(request: httpx.Request) -> str:
        asked.append((request.method, request.url.path.split("/", 3)[-1], len(request.content)))
        return ""

    session = town.session()
    town.fault = noted
    try:
        decision = session.act(contexts)
    except BandannaError:
        decision = None
    if decision is not None:
        with suppress(BandannaError):
            session.report(decision, reward)
    with suppress(BandannaError):
        session.flush()
    town.fault = lambda request: ""
    return asked


@pytest.mark.parametrize("name", ["GLM-SDP", "LinTS-SDP"])
def test_requests_do_not_depend_on_features_or_rewards(name: str, tmp_path: Path) -> None:
    policy, env, arms, rounds = case(name)
    town, encoding = Town(policy, tmp_path, arms=arms), make_encoding()
    accomplice(town)
    dim, rng = int(policy.dim), np.random.default_rng(1)
    published = loads(town.inside.processor.published.document)
    state = encoding.loads(simulated(policy, env, rounds).state)
    episode = policy.episode(state)
    assert episode is not None
    batch, _ = make_batch(policy, state, episode, epoch=0, mixer_count=1, seeded=False)
    finals = 0
    for number in range(4 + 1):
        texts = {"state": encoding.dumps(state), "snapshot": encoding.dumps(policy.publish(state))}
        if number:
            texts = {each: spoilt(text, rng) for each, text in texts.items()}
        document = dumps({**published, **texts, "batches": [batch.to_dict()]})
        town.replayed = signed(town.task.id, town.secrets, document)
        seen = set()
        for reward in REWARDS:
            contexts = rng.choice(FEATURES, (3, dim))
            if getattr(policy, "intercept", False):
                contexts[:, -1] = 1.0
            seen.add(tuple(requests_of(town, contexts, reward)))
        assert len(seen) == 1
        finals += sum(method == "POST" for method, *_ in seen.pop()) == 2
    assert finals


def test_requests_of_later_rounds_do_not_depend_on_features_or_rewards(tmp_path: Path) -> None:
    """People of a batch who are asked in several rounds, each after hostile answers to those before, send the same
    requests in every round, whatever their features and rewards are.
    """
    policy, _, arms, _ = case("GLM-SDP")
    town, rng = Town(policy, tmp_path, arms=arms), np.random.default_rng(2)
    accomplice(town)
    published = loads(town.inside.processor.published.document)
    rounds: dict[int, list[dict[str, Any]]] = {}
    for content in contents(policy, [policy.init(None)], 1, town.task):
        rounds.setdefault(content["round"], []).append(content)
    finals = 0
    for fair in (True, False, False):
        history = [each[0 if fair else int(rng.integers(len(each)))] for _, each in sorted(rounds.items())]
        documents, chain = [], published["previous"]
        for number, content in enumerate(history):
            documents.append(dumps({**published, **content, "number": number, "previous": chain}))
            chain = chain_document(chain, documents[-1])
        seen = set()
        for reward in REWARDS[::2]:
            asked: list[tuple[str, str, int]] = []

            def noted(request: httpx.Request, asked: list[Any] = asked) -> str:
                asked.append((request.method, request.url.path.split("/", 3)[-1], len(request.content)))
                return ""

            session, decision = town.session(), None
            town.fault = noted
            for document in documents:
                town.replayed = signed(town.task.id, town.secrets, document)
                if decision is None:
                    with suppress(BandannaError):
                        decision = session.act(np.clip(rng.choice(FEATURES, (3, policy.dim)), -1.0, 1.0))
                    with suppress(BandannaError):
                        session.report(decision, reward)
                with suppress(BandannaError):
                    session.flush()
            seen.add(tuple(asked))
        assert len(seen) == 1
        finals = max(finals, sum(method == "POST" for method, *_ in seen.pop()) - 1)
    assert finals == len(rounds) > 1


def test_a_choice_that_fails_for_some_features_changes_no_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where choosing by what was published fails for people with some features, they are given any arm, and the
    requests of all people are the same. False alarm: 2^-39.
    """
    policy = bd.LinTS(dim=2, horizon=128, batch=64, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    honest = DocumentDevice.choose

    def choose(self: DocumentDevice, content: Any, seen: Any, coins: Any) -> Any:
        if seen[0, 0] > 0.2:
            raise ArithmeticError("of a crafted snapshot")
        return honest(self, content, seen, coins)

    monkeypatch.setattr(DocumentDevice, "choose", choose)
    town = Town(policy, tmp_path)
    made = [requests_of(town, [[first, 0.2], [0.3, 0.4]], 1.0) for first in (0.1, 0.9)]
    assert made[0] == made[1]
    assert [method for method, *_ in made[0]] == ["GET", "POST", "POST", "GET"]
    arms = {town.session().act([[0.9, 0.2], [0.3, 0.4]]).action for _ in range(40)}
    assert arms == {0, 1}


@pytest.mark.parametrize("places", ["[1e400]", "[-1]", "[1180591620717411303424]", '["7"]', "[true]", "[]", "{}"])
def test_a_place_that_is_none_is_no_answer(places: str) -> None:
    with pytest.raises(BandannaError):
        parse_answers(201, f'{{"places":{places}}}'.encode(), 1)


def test_features_and_rewards_that_are_none_are_errors_after_sending(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=2, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
    town = Town(policy, tmp_path)
    fine = requests_of(town, [[0.1, 0.2], [0.3, 0.4]], 1.0)
    assert [method for method, *_ in fine] == ["GET", "POST", "POST", "GET"]
    for reward in (np.nan, np.inf, "much", None, [1.0]):
        assert requests_of(town, [[0.1, 0.2], [0.3, 0.4]], reward) == fine
    odd: list[Any] = [[[np.nan, 0.0], [0.0, 0.0]], [[0.1], [0.2]], [], [[0.1, None]], {"a": "x"}, np.ones((2, 5)), 3]
    for contexts in odd:
        unanswered = requests_of(town, contexts, 1.0)  # nobody was told of an arm
        assert unanswered == [*fine[:2], fine[-1]]
    session = town.session()
    decision = session.act([[0.1, 0.2], [0.3, 0.4]])
    with pytest.raises(bd.errors.InvalidStatistic, match="reward"):
        session.report(decision, np.nan)
    assert session.report(decision, 1.0).reason == "over"
    with pytest.raises(bd.errors.InvalidStatistic, match="contexts"):
        town.session().act([[np.nan, 0.0]])


# What a client asks for tells nobody who answers, which device it is, or what it has seen before


POLICY = bd.LinTS(dim=2, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4))
ARMS = [[0.1, 0.2], [0.3, 0.4]]


def watched(town: Town) -> list[tuple[str, str]]:
    """All requests from now on: method and path with its query."""
    asked: list[tuple[str, str]] = []

    def noted(request: httpx.Request) -> str:
        asked.append((request.method, request.url.raw_path.decode().split("/", 3)[-1]))
        return ""

    town.fault = noted
    return asked


@pytest.mark.parametrize("waits", ["nothing", "an answer", "a report", "an unopened slot"])
def test_a_flush_asks_for_one_publication_whatever_waits(waits: str, tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="seen").act(ARMS)
    session = town.session(tmp_path / "outbox.db", user="me")
    if waits == "an unopened slot":
        town.fault = lambda request: "lost" if request.method == "POST" else ""
    decision = session.act(ARMS) if waits != "nothing" else None
    if decision is not None and waits == "a report":
        town.fault = lambda request: "lost"
        assert session.report(decision, 1.0).pending
    asked = watched(town)
    session.flush()
    assert [path for method, path in asked if method == "GET"] == ["snapshot"]


def test_a_session_that_is_opened_asks_for_nothing(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db").act(ARMS)
    asked = watched(town)
    town.session(tmp_path / "outbox.db")
    assert asked == []


def test_requests_with_and_without_a_reward_are_equal_but_for_the_final_report(tmp_path: Path) -> None:
    seen = []
    for answers in (True, False):
        folder = tmp_path / str(answers)
        folder.mkdir()
        town = Town(POLICY, folder)
        asked = watched(town)
        session = town.session(folder / "outbox.db")
        decision = session.act(ARMS)
        if answers:
            assert session.report(decision, 1.0).kept
        session.flush()
        town.session(folder / "outbox.db").flush()
        seen.append(asked)
    with_reward, without = seen
    with_reward.remove(("POST", "reports"))
    assert with_reward == without


def test_no_request_tells_a_device_from_others(tmp_path: Path) -> None:
    town, sent = Town(POLICY, tmp_path), list[httpx.Headers]()
    honest = town._handle

    def marking(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers)
        answer = honest(request)
        answer.headers.update({"set-cookie": "device=7", "etag": '"device 7"', "last-modified": "Thu, 01 Jan 2026"})
        return answer

    for user in ("me", "another"):  # of one device
        with httpx.Client(transport=httpx.MockTransport(marking), cookies={"device": "7"}) as http:
            given: dict[str, Any] = {"tickets": town.ticket, "outbox": tmp_path / "outbox.db", "http": http}
            with Session(town.task.document, id=town.task.id, user=user, **given) as session:
                session.report(session.act(ARMS), 1.0)
                session.flush()
    assert len(sent) == 8
    assert not {"cookie", "if-none-match", "if-modified-since", "referer"} & {name for each in sent for name in each}


@pytest.mark.parametrize("rotated", [False, True])
def test_no_device_asks_the_helper_for_anything(rotated: bool, tmp_path: Path) -> None:
    """Devices seal for the task's key or for the published one, the same for all of them, and never address the helper:
    it sees no address, and cannot give a device a key of its own.
    """
    town, hosts = Town(POLICY, tmp_path, mixers=2), set[str]()
    if rotated:
        told = write_seal_key(1, sealing_key()[1], partial(sign, town.secrets["helper"].sign, town.task.id))
        town.replayed = resigned(town, helper=told)

    def noted(request: httpx.Request) -> str:
        hosts.add(request.url.host)
        return ""

    town.fault = noted
    for user in range(3):
        session = town.session(tmp_path / f"{user}.db", user=str(user))
        session.report(session.act(ARMS), 1.0)
        session.flush()
    assert hosts == {"analyzer.test", "shuffler.test"}
    assert {report[5] for report in town.reports(ZERO) + town.reports(FINAL)} == {int(rotated)}


@pytest.mark.parametrize("change", [{"id": 2}, {"public": "A" * 43}, {"signature": "A" * 86}, {"more": 1}])
def test_a_key_for_seeds_that_the_helper_has_not_signed_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path, mixers=2)
    told = write_seal_key(1, sealing_key()[1], partial(sign, town.secrets["helper"].sign, town.task.id))
    town.replayed = resigned(town, helper={**told, **change})
    with pytest.raises(BandannaError, match="key for sealing"):
        town.session().act(ARMS)
    assert not town.bodies
    assert not town.tickets


@pytest.mark.parametrize("back", ["to another", "to the task's"])
def test_a_device_goes_back_to_no_older_key_of_the_helper(back: str, tmp_path: Path) -> None:
    """A device that has seen a key of the helper seals for no earlier one, which may be stolen, though the helper has
    signed it: the publication is refused, nothing is asked for, nothing is sent, and the newest one stays in force.
    """
    town = Town(POLICY, tmp_path, mixers=2)
    keys = partial(sign, town.secrets["helper"].sign, town.task.id)
    old, new = (write_seal_key(number, sealing_key()[1], keys) for number in (1, 2))
    content = loads(town.inside.processor.published.document)
    town.replayed = first = published(town, {**content, "helper": new}, 0, "")
    town.session(tmp_path / "outbox.db", user="first").act(ARMS)
    sent, asked = len(town.bodies), len(town.tickets)
    older = {**content, "helper": old if back == "to another" else None}
    town.replayed = published(town, older, 1, chain_document("", first.document))
    session = town.session(tmp_path / "outbox.db", user="second")
    with pytest.raises(BandannaError, match=f"names the helper's key {int(back == 'to another')} after key 2"):
        session.act(ARMS)
    assert (len(town.bodies), len(town.tickets)) == (sent, asked)
    town.replayed = first
    session.act(ARMS)
    assert {report[5] for report in town.reports(ZERO)} == {2}


def published(town: Town, content: dict[str, Any], number: int, previous: str) -> SignedPublication:
    """A publication with these parts, signed by analyzer and registrar."""
    return signed(town.task.id, town.secrets, dumps({**content, "number": number, "previous": previous}))


@pytest.mark.parametrize("missed", [0, 1, 2, 299, 600])
@pytest.mark.parametrize("forks", [False, True])
def test_a_fork_after_the_pinned_publication_is_refused(missed: int, forks: bool, tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="a").act(ARMS)
    content = loads(town.inside.processor.published.document)
    first = dumps({**content, "state": "another"} if forks else content)
    documents, chain = [first], chain_document("", first)
    for number in range(1, missed + 2):
        town.replayed = published(town, content, number, chain)
        documents.append(town.replayed.document)
        chain = chain_document(chain, town.replayed.document)
    hashes = b"".join(hashlib.sha256(each).digest() for each in documents)
    honest, asked = town._answer, watched(town)

    def answered(request: httpx.Request) -> httpx.Response:
        if "/links/" not in request.url.path:
            return honest(request)
        block = int(request.url.path.rsplit("/", 1)[1])
        return httpx.Response(200, content=hashes[256 * 32 * block : 256 * 32 * (block + 1)])

    town._answer = answered  # type: ignore[method-assign]
    session = town.session(tmp_path / "outbox.db", user="b")
    if forks:
        with pytest.raises(BandannaError, match=r"follow|another history"):
            session.act(ARMS)
    else:
        assert session.act(ARMS).publication == missed + 1
    blocks = [path for _, path in asked if path.startswith("links")]
    assert blocks == [f"links/{block}" for block in range(missed // 256 + 1)] * bool(missed)


def test_links_are_the_hashes_that_the_chain_is_made_of(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.session(tmp_path / "outbox.db", user="first").act(ARMS)
    for _ in range(3):
        for _ in range(16 if town.inside.processor.published.number else 15):
            other = town.session()
            other.report(other.act(ARMS), 1.0)
        town.inside.collector._answered = False  # by the clock
        town.inside.pump()
    assert town.inside.processor.published.number == 3
    asked = watched(town)
    assert town.session(tmp_path / "outbox.db", user="second").act(ARMS).publication == 3
    assert [path for _, path in asked][:2] == ["snapshot", "links/0"]


def test_a_document_is_played_under_the_id_that_its_user_has(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    given: dict[str, Any] = {"tickets": town.ticket, "outbox": ":memory:", "http": town.client}
    for served in (town.task.document, town.task):
        with pytest.raises(InvalidArgument, match=r"id must be the id .*, got None"):
            Session(served, **given)
    fewer, _ = a_task(replace(POLICY, privacy=bd.shuffle(epsilon=9.0, delta=1e-4)), seed=None, urls=URLS)
    other = fewer.document
    with pytest.raises(BandannaError, match=r"where .* belongs"):
        Session(other, id=town.task.id, **given)
    file = tmp_path / "task.json"
    file.write_bytes(other)
    with pytest.raises(BandannaError, match=r"where .* belongs"):
        Session(file, id=town.task.id, **given)
    file.write_bytes(town.task.document)
    assert Session(file, **given).act(ARMS).taking_part
    assert Session(town.task.document, id=town.task.id, **{**given, "outbox": ":memory:"}).task.id == town.task.id


def test_errors_name_roles_and_no_address(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path)
    town.fault = lambda request: "lost"
    with pytest.raises(BandannaError, match="analyzer") as told:
        town.session().act(ARMS)
    assert "://" not in str(told.value)
    assert ".test" not in str(told.value)


def test_decisions_without_a_report_are_erased(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town(POLICY, tmp_path)
    marked = [[0.123456789, 0.2], [0.123456789, 0.4]]

    def kept() -> bool:
        return any(b"0.123456789" in file.read_bytes() for file in tmp_path.glob("outbox.db*"))

    town.session(tmp_path / "outbox.db", user="me").act(marked)
    town.session(tmp_path / "outbox.db", user="me")
    assert kept()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 31 * 86_400)
    session = town.session(tmp_path / "outbox.db", user="me")
    assert not kept()
    assert session.decisions == []
    assert session.act(ARMS).reason == "participations"
