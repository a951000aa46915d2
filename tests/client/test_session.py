"""Sessions: what devices send is counted once, whatever is lost on the way; what is not promised is not sent."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client import outbox
from bandanna.deployment.client.outbox import OPEN, Outbox
from bandanna.deployment.client.session import AsyncSession, RegistrarClient, Session
from bandanna.deployment.messages.canonical import digest, dumps, loads, sealing_key, sign
from bandanna.deployment.messages.publication import SignedPublication, chain_document, read_publication
from bandanna.deployment.messages.report import FINAL, ZERO, write_seal_key
from bandanna.deployment.task.query_plan import make_batch
from bandanna.errors import BandannaError, InvalidArgument, InvalidStatistic
from bandanna.policies.base import FixedLength
from bandanna.policies.registry import make_encoding
from bandanna.protocols.factory import make_mixer_encoding

from ..deployment.inside import shown, signed
from ..deployment.simulated import case, simulated
from .town import Town

SHUFFLE = bd.shuffle(epsilon=2.0, delta=1e-4)
POLICY = bd.LinTS(dim=3, horizon=64, batch=16, intercept=True, privacy=SHUFFLE)
RNG = np.random.default_rng(5)


def contexts(arms: int = 4) -> Any:
    return np.concatenate([RNG.uniform(-0.5, 0.5, (arms, 2)), np.ones((arms, 1))], axis=1)


@pytest.fixture
def town(tmp_path: Path) -> Town:
    return Town(POLICY, tmp_path)


POLICIES: dict[str, Any] = {
    "LinTS, shuffle": POLICY,
    "LinTS, a model for every arm": bd.LinTS(n_arms=3, features=2, horizon=64, batch=16, privacy=SHUFFLE),
    "LinUCB, shuffle": bd.LinUCB(dim=3, horizon=64, batch=16, privacy=SHUFFLE),
    "LinUCB, concurrent": bd.LinUCB(
        dim=3, horizon=64, batch=16, privacy=bd.concurrent(epsilon=2.0, delta=1e-4, shufflers=2)
    ),
    "LinTS, central": bd.LinTS(dim=3, horizon=64, batch=16, privacy=bd.central(epsilon=2.0, delta=1e-4)),
    "LinTS, local": bd.LinTS(dim=3, horizon=64, batch=16, privacy=bd.local(epsilon=2.0, delta=1e-4)),
    "LinTS, no privacy": bd.LinTS(dim=3, horizon=64, batch=16, privacy=bd.none()),
    "LinTS, rewards, shuffle": bd.policies.LinTSRewards(
        dim=3, horizon=64, batch=16, public_contexts=True, privacy=bd.shuffle(epsilon=2.0, delta=1e-4)
    ),
    "LinTS, rewards, local": bd.policies.LinTSRewards(
        dim=3, horizon=64, batch=16, public_contexts=True, privacy=bd.local(epsilon=2.0, delta=0.0)
    ),
    "LinUCB, shuffled Gaussians (sealed)": bd.LinUCB(
        dim=3, horizon=64, batch=16, privacy=bd.shuffle(epsilon=2.0, delta=1e-4, protocol="gaussian")
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_batch_of_sessions_is_learned_from(name: str, tmp_path: Path) -> None:
    policy = POLICIES[name]
    town = Town(policy, tmp_path)
    own = getattr(policy, "n_arms", None) is not None
    assert town.task.content["device"] is not None
    sessions = [town.session() for _ in range(16)]
    decisions = [each.act(RNG.uniform(-0.5, 0.5, 2) if own else contexts()) for each in sessions]
    assert all(each.taking_part for each in decisions)
    outcomes = [s.report(d, 0.5 + 0.4 * (d.action == 1)) for s, d in zip(sessions, decisions, strict=True)]
    assert all(each.kept for each in outcomes)
    town.inside.pump()
    assert town.inside.processor.published.number == 1
    assert all(each.pending == 0 for each in sessions)


def test_totals_are_the_sums_of_what_was_sent(tmp_path: Path) -> None:
    town = Town(POLICY, tmp_path, close="grace")
    chance = np.random.default_rng(3)
    town.fault = lambda request: str(chance.choice(["", "", "lost", "unanswered"]))
    outbox = Outbox(tmp_path / "outbox.db")
    users = [town.session(outbox, user=f"user {number}") for number in range(16)]
    town.fault, faults = (lambda request: ""), town.fault
    users[0].act(contexts())  # everybody has seen a publication
    town.fault = faults
    decided: dict[int, Any] = {}
    for number, user in enumerate(users[1:], 1):
        decided[number] = user.act(contexts())
    for number, decision in decided.items():
        users[number].report(decision, 1.0)
    for _ in range(60):
        for user in users[1:]:
            user.flush()
    town.fault = lambda request: ""
    assert sum(user.flush() for user in users) == 0
    assert len(users[0].decisions) == 1  # the first has not answered
    finals = {report[0]: report[6] for report in town.reports(FINAL)}
    zeros = {report[0]: report[6] for report in town.reports(ZERO)}
    assert len(finals) == 15
    for slot, body in ((r[0], r[6]) for r in town.reports(FINAL)):
        assert body == finals[slot]  # the same bytes every time
    counted = [finals.get(slot, body) for slot, body in zeros.items()]
    part = town.inside.processor.now.batches[0].rounds[0].parts[0]
    collector = town.inside.collector
    collector._answered = False  # by the clock: the first will not answer
    assert collector.close_due()
    (view,) = make_mixer_encoding().loads(loads(collector.waiting()[0].share)["parts"][0])
    np.testing.assert_array_equal(view.numbers, part.numbers(counted).sum(axis=0))


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_reporting_does_not_decide_who_takes_part(method: str, town: Town) -> None:
    town.session().act(contexts())
    seen = []
    for answers in (True, False):
        session = town.session(user=str(answers), tickets=town.ticket)
        town.fault = lambda request: "lost" if request.method == "POST" else ""
        decision = session.act(contexts())
        assert decision.taking_part
        asked = list[str]()
        town.fault = lambda request: asked.append(request.method) or ("lost" if request.method == method else "")  # type: ignore[func-returns-value] # noqa: B023
        before = len(town.tickets)
        if answers:
            assert session.report(decision, 1.0).pending
        assert not asked
        town.fault = lambda request: asked.append(request.method) or ""  # type: ignore[func-returns-value] # noqa: B023
        assert session.flush() == 0
        assert len(town.tickets) == before
        seen.append(asked)
    assert seen[0] == [*seen[1], "POST"]  # the final report alone, to the collector
    assert len({report[0] for report in town.reports(ZERO)}) == 3


def test_a_late_reward_is_refused_because_its_batch_is_closed(town: Town) -> None:
    late = town.session()
    decision = late.act(contexts())
    town.play(15, contexts)
    town.inside.collector._answered = False  # by the clock, without waiting for everybody
    town.inside.pump()
    assert town.inside.processor.published.number == 1
    outcome = late.report(decision, 1.0)
    assert (outcome.kept, outcome.pending, outcome.reason) == (False, False, "closed")
    assert late.pending == 0


def test_a_user_of_a_full_batch_gets_a_slot_of_the_next(town: Town) -> None:
    town.play(16, contexts, reward=None)
    session = town.session()
    decision = session.act(contexts())
    assert decision.taking_part
    (epoch, _), (after, refused) = town.tickets[-2:]
    assert (epoch, after) == (0, 1)
    assert [each[0] for each in refused] == [0]
    (kept,) = session.outbox.waiting(town.task.id, "")
    assert kept.state == OPEN
    assert kept.content["batch"]["epoch"] == 1


def test_a_task_that_is_over_still_recommends(tmp_path: Path) -> None:
    town = Town(bd.LinTS(dim=3, horizon=20, batch=16, privacy=SHUFFLE), tmp_path)
    town.play(16, contexts)
    town.inside.pump()
    sent = len(town.bodies)
    decision = town.session().act(contexts())
    assert (decision.taking_part, decision.reason) == (False, "finished")
    assert len(town.bodies) == sent


def resigned(town: Town, **changes: Any) -> SignedPublication:
    """The publication in force with other parts, signed by analyzer and registrar."""
    content = loads(town.inside.processor.published.document)
    return signed(town.task.id, town.secrets, dumps({**content, **changes}))


def test_an_analyzer_that_announces_less_noise_or_fewer_people_gets_nothing(town: Town) -> None:
    content = loads(town.inside.processor.published.document)
    batch = content["batches"][0]
    quiet = batch["rounds"][0]["parts"][0]
    others = {
        "fewer people": {**batch, "slots": batch["slots"] - 1},
        "twice": {**batch, "rounds": batch["rounds"] * 2},
        "two parts": {**batch, "rounds": [{"parts": batch["rounds"][0]["parts"] * 2}]},
        "another mixer": {**batch, "rounds": [{"parts": [{**quiet, "mixer": quiet["mixer"].replace("1", "2")}]}]},
        "rows": {**batch, "rounds": [{"parts": [{**quiet, "form": "row", "dtype": "<f8", "mixer": None}]}]},
        "assigned": {**batch, "arms": [0], "plays": [16]},
    }
    for name, told in others.items():
        town.replayed = resigned(town, batches=[told])
        with pytest.raises(BandannaError, match="another plan"):
            town.session().act(contexts())
        assert not town.bodies, name


def test_reports_under_another_plan_than_the_mixers_are_refused(tmp_path: Path) -> None:
    policy = bd.LinTS(dim=3, horizon=20_000, privacy=bd.shuffle(epsilon=1.0, delta=1e-5))
    town = Town(policy, tmp_path)
    (batch, *_), state = town.inside.processor.now.batches, policy.init()
    sizes = [users for users in sorted(policy._channel.sizes.counts()) if users > batch.slots]
    assert len(sizes) > 5
    for users in sizes:
        more, _ = make_batch(policy, state, FixedLength(number=0, users=users), epoch=0, mixer_count=1, seeded=False)
        town.replayed = resigned(town, batches=[more.to_dict()])
        decision = town.session(user=str(users)).act(contexts())
        assert (decision.taking_part, decision.reason) == (False, "ticket")
    assert town.bodies
    assert town.inside.collector.progress()["slots"] == 0
    town.replayed = None
    assert town.session().act(contexts()).taking_part


def test_a_batch_keeps_the_plan_it_was_opened_with(tmp_path: Path) -> None:
    policy, env, _, rounds = case("GLM-SDP")
    town = Town(policy, tmp_path)
    one, two = (town.session(tmp_path / "outbox.db", user=name) for name in "ab")
    dim = int(getattr(policy, "dim", 0))
    decision = one.act(RNG.uniform(-0.3, 0.3, (3, dim)))
    state = simulated(policy, env, rounds).state
    later = make_encoding().loads(state)
    batch, _ = make_batch(policy, later, policy.episode(later), epoch=0, mixer_count=1, seeded=False)
    assert batch.slots > 2 * town.inside.processor.now.batches[0].slots
    previous = town.inside.processor.published.chain
    snapshot = make_encoding().dumps(policy.publish(later))
    told = {"number": 1, "previous": previous, "state": state, "snapshot": snapshot, "batches": [batch.to_dict()]}
    town.replayed = resigned(town, **told)
    two.act(RNG.uniform(-0.3, 0.3, (3, dim)))  # by which the outbox has seen it
    sent = len(town.reports(FINAL))
    with pytest.raises(BandannaError, match="another plan"):
        one.report(decision, 1.0)
    assert len(town.reports(FINAL)) == sent


def test_older_and_unsigned_publications_are_refused(town: Town, tmp_path: Path) -> None:
    first = town.inside.processor.published
    town.play(16, contexts)
    town.inside.pump()
    seen = town.session(tmp_path / "outbox.db", user="a")
    seen.act(contexts())
    seen.close()
    again = town.session(tmp_path / "outbox.db", user="b")  # the pin is in the outbox
    town.replayed = shown(first)
    with pytest.raises(BandannaError, match="gone back"):
        again.act(contexts())
    town.replayed = shown(first)._replace(document=town.inside.processor.published.document)
    with pytest.raises(BandannaError, match="not signed"):
        town.session().act(contexts())
    town.replayed = resigned(town, snapshot="{}", number=1)
    with pytest.raises(BandannaError, match="shows different histories"):
        again.act(contexts())


def test_a_session_verifies_every_publication_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verified = list[int]()

    def verify(shown: SignedPublication, **keys: Any) -> Any:
        content, pin = read_publication(shown, **keys)
        verified.append(pin.number)
        return content, pin

    monkeypatch.setattr(outbox, "read_publication", verify)
    town = Town(POLICY, tmp_path)
    session = town.session()
    session.report(session.act(contexts()), 1.0)
    session.act(contexts())
    assert session.flush() == 0
    assert verified == [0]
    true = shown(town.inside.processor.published)
    for field in ("signature", "cosignature"):
        town.replayed = true._replace(**{field: "A" * 86})
        with pytest.raises(BandannaError, match="not signed" if field == "signature" else "not cosigned"):
            session.act(contexts())
    town.replayed = None
    town.play(15, contexts)
    verified.clear()
    decision = session.act(contexts())
    assert (decision.publication, verified) == (1, [1])


@pytest.mark.parametrize("later", [False, True])
def test_two_processes_act_on_one_history(later: bool, town: Town, tmp_path: Path) -> None:
    one, two = (town.session(tmp_path / "outbox.db", user=name) for name in "ab")
    true = resigned(town)
    newer = resigned(town, number=1, previous=chain_document("", true[0]))
    forged = resigned(town, snapshot=" " + loads(true[0])["snapshot"])
    asked = list[bool]()

    def during(request: httpx.Request) -> str:
        if request.url.path.endswith("/snapshot") and not asked:
            asked.append(True)
            town.replayed = newer if later else true
            two.act(contexts())  # while the first one waits for its answer
            town.replayed = true if later else forged
        return ""

    town.fault = during
    if later:
        assert one.act(contexts()).publication == 1
    else:
        with pytest.raises(BandannaError, match="shows different histories"):
            one.act(contexts())
    known = two.outbox.newest_seen(town.task.id)
    assert known is not None
    assert known[1] == (newer if later else true)


def test_zero_and_final_reports_have_independent_coins(tmp_path: Path) -> None:
    """False alarm below 1e-9: equal counts in all 9 coordinates, with hundreds of coins each."""
    town = Town(bd.LinTS(dim=3, horizon=64, batch=16, privacy=SHUFFLE), tmp_path)
    session = town.session()
    session.report(session.act(np.zeros((2, 3))), 0.0)  # whose statistic is that of the zero report
    (zero,), (final,) = town.reports(ZERO), town.reports(FINAL)
    assert zero[6] != final[6]


def test_an_error_names_the_wrong_argument_of_a_session(town: Town, tmp_path: Path) -> None:
    session = town.session()
    with pytest.raises(InvalidArgument, match="contexts"):
        session.act()
    decision = session.act(contexts())
    with pytest.raises(InvalidArgument, match="decision"):
        session.report("nobody's", 1.0)
    assert session.report(decision, True).kept
    given: dict[str, Any] = {"id": town.task.id, "tickets": town.ticket, "outbox": ":memory:"}
    with pytest.raises(BandannaError, match="cannot be read"):
        Session(tmp_path / "nowhere", tickets=town.ticket, outbox=":memory:")
    for name, value in {"patience": "ten", "http": 3, "outbox": 5, "tickets": None, "id": "short"}.items():
        with pytest.raises(InvalidArgument, match=name):
            Session(town.task.document, **{**given, name: value})
    with pytest.raises(InvalidArgument) as told:
        Session(town.task.document, **{**given, "tickets": "the secret token"})
    assert "secret" not in str(told.value)
    with pytest.raises(InvalidArgument, match="/task") as told:
        Session("http://analyzer.test", **given)
    assert "analyzer.test" not in str(told.value)
    closed = town.session()
    closed.close()
    with pytest.raises(BandannaError, match="closed"):
        closed.act(contexts())
    assert "token" not in repr(RegistrarClient(user="me", token="secret"))


def test_a_decision_has_the_name_of_its_arm(tmp_path: Path) -> None:
    policy = POLICIES["LinTS, a model for every arm"]
    town = Town(policy, tmp_path, arms=["aspirin", "tea", "rest"])
    decision = town.session().act([0.1, 0.2])
    assert decision.arm == ("aspirin", "tea", "rest")[decision.action]
    with pytest.raises(InvalidStatistic, match="user's features"):
        town.session().act([0.1, 0.2, 0.3])


def test_an_async_session_acts_and_reports_as_a_session(town: Town) -> None:

    async def tickets(epoch: int, refused: Any) -> Any:
        return town.ticket(epoch, refused)

    async def play() -> tuple[bool, int]:
        client = httpx.AsyncClient(transport=httpx.MockTransport(town._handle))
        async with AsyncSession(town.task, id=town.task.id, tickets=tickets, outbox=":memory:", http=client) as session:
            decision = await session.act(contexts())
            outcome = await session.report(decision, 1.0)
            left = await session.flush()
        await client.aclose()
        return outcome.kept, left

    assert asyncio.run(play()) == (True, 0)
    assert len(town.reports(FINAL)) == 1


@pytest.mark.parametrize(
    ("name", "light"),
    [pytest.param("SDP-SE", True, marks=pytest.mark.full), ("AdaC-UCB", True), ("GOPE", True), ("GLM-SDP", False)],
)
def test_other_algorithms_are_played_too(name: str, light: bool, tmp_path: Path) -> None:
    policy, _, arms, _ = case(name)
    if isinstance(policy, bd.policies.Elimination):
        policy = replace(policy, n_arms=2, horizon=1200, failure=0.9)  # fewer people, as of the next
    elif isinstance(policy, bd.policies.GOPE):
        policy, arms = replace(policy, dim=1, failure=0.9), arms[:2, :1]
    elif name == "GLM-SDP":
        policy = replace(policy, horizon=200, warmup=20, steps=3)
    town = Town(policy, tmp_path, arms=arms)
    assert (town.task.content["device"] is not None) == light
    batch = town.inside.processor.now.batches[0]
    dim = int(getattr(policy, "dim", 0))
    sessions = [town.session() for _ in range(batch.slots)]
    fixed = town.task.arms is not None
    decisions = [each.act(None if fixed else RNG.uniform(-0.3, 0.3, (3, dim))) for each in sessions]
    plays = dict(zip(batch.arms, batch.plays, strict=True))
    assert not plays or Counter(each.action for each in decisions) == plays
    for session, decision in zip(sessions, decisions, strict=True):
        assert session.report(decision, 0.5).kept
    for _ in range(1, len(batch.rounds)):
        for session in sessions:
            session.flush()
    town.inside.pump()
    assert town.inside.processor.running[0] > 0


def test_a_user_refused_by_full_batches_joins_a_later_one(town: Town, tmp_path: Path) -> None:
    town.play(32, contexts, reward=None)
    late = town.session(tmp_path / "outbox.db")
    first = late.act(contexts())
    assert (first.taking_part, first.reason) == (False, "full")
    town.inside.collector._answered = False  # by the clock
    town.inside.pump()
    town.inside.pump()
    again = late.act(contexts())
    assert again.taking_part
    assert [epoch for epoch, *_ in town.tickets[-1][1]] == [0, 1]


def test_a_user_who_waits_for_a_batch_acts_on_the_next_release(town: Town) -> None:
    town.play(32, contexts, reward=None)

    def released(request: httpx.Request) -> str:
        town.inside.collector._answered = False  # by the clock: the full batches close while somebody waits
        return ""

    late = town.session()
    town.fault = lambda request: released(request) if town.tickets[-1][0] == 1 and town.tickets[-1][1] else ""
    decision = late.act(contexts())
    assert decision.taking_part
    assert decision.publication == town.inside.processor.published.number > 0
    (kept,) = late.outbox.waiting(town.task.id, "")
    assert (kept.content["batch"]["epoch"], kept.content["number"]) == (2, decision.publication)
    assert late.report(decision, 1.0).kept


def test_an_error_leaves_no_decision_behind(town: Town) -> None:

    def refuses(epoch: int, refused: Any) -> Any:
        raise BandannaError("the host's login has expired")

    session = town.session(tickets=refuses)
    with pytest.raises(BandannaError, match="login"):
        session.act(contexts())
    assert session.outbox.waiting(town.task.id, "") == []
    with pytest.raises(InvalidArgument, match="token"):
        RegistrarClient(user="me", token="")


LOCAL = bd.LinTS(dim=3, horizon=64, batch=16, privacy=bd.local(epsilon=2.0, delta=1e-4, participations=2))


def test_a_user_has_no_more_open_reports_than_participations(town: Town, tmp_path: Path) -> None:
    session = town.session(user="a")
    session.act(contexts())
    other = town.session(user="b")
    town.fault = lambda request: "unanswered" if request.method == "POST" else ""
    decisions = [other.act(contexts()) for _ in range(5)]
    assert [each.reason for each in decisions] == ["", *["participations"] * 4]
    folder = tmp_path / "again"
    folder.mkdir()
    again = Town(LOCAL, folder)
    slots: dict[int, Any] = {}

    def same(epoch: int, refused: Any) -> Any:  # as a registrar does: one ticket for one epoch
        return slots.setdefault(epoch, again.ticket(epoch, refused))

    person = again.session(tickets=same)
    taken = [person.act(contexts()) for _ in range(3)]
    for decision in taken:
        if decision.taking_part:
            person.report(decision, 1.0)
    finals = again.reports(FINAL)
    assert len({report[0] for report in finals}) == len({report[6] for report in finals}) <= 2


def test_only_the_collector_sees_who_answers(town: Town) -> None:
    session = town.session()
    decision = session.act(contexts())
    asked = list[str]()
    town.fault = lambda request: asked.append(request.method) or ""  # type: ignore[func-returns-value]
    assert session.report(decision, 1.0).kept
    assert asked == ["POST"]


def test_publications_without_the_right_signatures_are_refused(town: Town, tmp_path: Path) -> None:
    town.replayed = resigned(town, task="another")
    with pytest.raises(BandannaError, match="another task"):
        town.session().act(contexts())
    town.replayed = None
    session = town.session(tmp_path / "outbox.db", user="a")
    session.act(contexts())
    town.replayed = resigned(town, number=1, previous=digest(b"nobody's"))
    with pytest.raises(BandannaError, match="does not follow"):
        town.session(tmp_path / "outbox.db", user="b").act(contexts())
    folder = tmp_path / "two"
    folder.mkdir()
    split = Town(POLICY, folder, mixers=2)
    key = write_seal_key(0, sealing_key()[1], partial(sign, split.secrets["analyzer"].sign, split.task.id))
    split.replayed = resigned(split, helper=key)
    with pytest.raises(BandannaError, match="helper has not signed"):
        split.session().act(contexts())
    assert not split.bodies


def test_a_ticket_of_another_epoch_is_not_used(town: Town) -> None:
    decision = town.session(tickets=lambda epoch, refused: town.ticket(epoch + 1, refused)).act(contexts())
    assert (decision.taking_part, decision.reason) == (False, "ticket")
    assert not town.bodies
