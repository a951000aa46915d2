"""Whoever is on the way of a report, and has not its ticket: the report arrives as it was made, or counts nowhere."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.deployment.analyzer.query_answers import TrustedServerRunner, played_from_rows
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import (
    ENCAPSULATION,
    Kind,
    decode_base64url,
    dumps,
    encode_base64url,
    loads,
    seal,
    sign,
    signing_key,
    verify,
)
from bandanna.deployment.messages.report import FINAL, ZERO, TaggedReport, join_reports, report_info
from bandanna.deployment.messages.share import check_receipt
from bandanna.device.domain import Ball, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import SecureNoise
from bandanna.errors import BandannaError, InvalidStatistic, Unreadable
from bandanna.numeric.rng import SecureRandomness
from bandanna.policies.base import RunnerState
from bandanna.privacy.calibration import likely_reach
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.gaussian import LocalGaussian, ShuffleGaussian
from bandanna.protocols.mixers import MixerState
from bandanna.simulation.environments.linear import LinearContextual

from ..deployment.batches import SLOTS, Collecting, report, tagged
from ..deployment.hostile.attacked import Attack, Attacked, with_body
from ..deployment.hostile.test_shares import _closed as closed_share
from ..deployment.hostile.test_shares import _task as a_split_task
from ..deployment.inside import a_task
from ..deployment.served import Served
from ..deployment.simulated import case
from ..deployment.test_processes import on_disk


def of(own: Collecting, number: int, **others: Any) -> TaggedReport:
    return tagged(TaggedReport.from_bytes(report(number, **others)), own.plans)


def submit_reports(own: Collecting, *sent: TaggedReport) -> list[str]:
    """The reasons for which reports are refused; "" for what is kept."""
    (verdicts,) = own.collector.accept([join_reports([each.to_bytes() for each in sent])])
    return [each.reason for each in verdicts]


def test_a_flipped_bit_anywhere_in_a_report_is_no_ticket(tmp_path: Path) -> None:
    """A report of which one bit was changed is answered `ticket`; where the bit makes it one of a batch that is not
    known, as any report of such a batch; and it is kept nowhere.
    """
    own = Collecting(str(tmp_path / "c.db"))
    content = of(own, 1).to_bytes()
    for place in range(len(content)):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            flipped = TaggedReport.from_bytes(bytes(changed))
            known = flipped.epoch in [plan.epoch for plan in own.plans]
            assert submit_reports(own, flipped) == ["ticket" if known else "early"], place
    assert own.rows() == []
    assert submit_reports(own, TaggedReport.from_bytes(content)) == [""]


@pytest.mark.parametrize(
    "moved",
    [{"round": 1}, {"round": 0, "epoch": 1}, {"version": ZERO}, {"slot": (2).to_bytes(16, "little")}, {"key_id": 1}],
)
def test_a_report_is_moved_nowhere(moved: dict[str, Any], tmp_path: Path) -> None:
    own = Collecting(str(tmp_path / "c.db"), rounds=2)
    made = [of(own, 1, round_=each, version=FINAL) for each in (0, 1)]
    assert submit_reports(own, replace(made[0], **moved), made[1])[0] == "ticket"
    assert own.rows() == []
    assert submit_reports(own, *made) == ["", ""]


def test_a_report_counts_under_its_own_plan_alone(tmp_path: Path) -> None:
    """An analyzer that tells a device of another plan than the collector has its report refused, whoever tries to bind
    it to the collector's plan on the way.
    """
    own = Collecting(str(tmp_path / "c.db"))
    plan = own.plans[0]
    other = replace(plan, slots=100 * SLOTS)
    made = tagged(TaggedReport.from_bytes(report(1)), [other])
    assert submit_reports(own, made) == ["ticket"]
    both = int.from_bytes(other.digest[:16]) ^ int.from_bytes(plan.digest[:16])
    rebound = replace(
        made, tag=(int.from_bytes(made.tag) ^ both).to_bytes(16)
    )  # which was enough where plans were XORed
    assert submit_reports(own, rebound) == ["ticket"]
    assert own.rows() == []


def test_a_report_that_was_seen_makes_no_other(tmp_path: Path) -> None:
    own = Collecting(str(tmp_path / "c.db"))
    zero, final = of(own, 1, version=ZERO), of(own, 1, value=101)
    assert submit_reports(own, zero) == [""]
    for tag in (zero.tag, final.tag, bytes(16)):
        assert submit_reports(own, replace(final, body=bytes(len(final.body)), tag=tag)) == ["ticket"]
    assert submit_reports(own, final) == [""]


# Gaussian reports: a copy of somebody's report spoils a batch, and no report moves a total further than noise does


BATCH = 8
WORLD = LinearContextual(dim=3, n_arms=4)


@cache
def _task(name: str) -> Any:
    size = {"batch": BATCH} if name == "LinTS-LDP" else {"batch": BATCH, "width": 0.2}
    return a_task(bd.make(name, dim=3, horizon=40, epsilon=20.0, delta=0.1, **size), seed=None)


def closed(folder: Path, name: str = "LinUCB-SDP-Amp", attack: Attack | None = None) -> tuple[Attacked, dict[str, Any]]:
    """A batch that honest devices have filled, and the share that its collector has closed."""
    folder.mkdir(exist_ok=True)
    inside = Attacked(*_task(name), folder, attack=attack, every=5)
    pump, kept = inside.pump, []

    def close() -> None:
        if inside.collector.close_due():
            kept.extend(loads(each.share) for each in inside.collector.waiting())
            raise _Closed

    inside.pump = close  # type: ignore[method-assign]
    with pytest.raises(_Closed):
        SimulatedUsers(inside.task, inside, WORLD, rounds=BATCH, concurrency=1, wait=0.3).run()
    inside.pump = pump  # type: ignore[method-assign]
    return inside, kept[0]


class _Closed(Exception):
    """Stop here."""


def forwarded(inside: Attacked, share: dict[str, Any], reports: list[str]) -> str:
    content = dumps({**share, "parts": [make_mixer_encoding().dumps(sorted(reports))]})
    taken = inside.processor.take(content, "shuffler", 0, 0)
    assert taken.receipt is not None
    return str(loads(taken.receipt)["outcome"])


def sealed(inside: Attacked, numbers: Any) -> bytes:
    plain = np.asarray(numbers, dtype="<i8").tobytes()
    return seal(inside.task.key("seal analyzer"), plain, report_info(inside.task.digest, 0, 0))


@pytest.mark.parametrize("copies", [2, BATCH])
def test_a_copy_of_a_sealed_report_spoils_its_batch(copies: int, tmp_path: Path) -> None:
    """A shuffler that repeats one person's ciphertext gets no state that is learned from it: the batch is burned."""
    inside, share = closed(tmp_path)
    reports = make_mixer_encoding().loads(share["parts"][0])
    before = inside.processor.progress.state
    assert forwarded(inside, share, reports[: BATCH - copies + 1] + reports[:1] * (copies - 1)) == "burned"
    assert inside.processor.progress.state is before


def test_a_report_that_was_sealed_with_the_key_of_another_spoils_its_batch(tmp_path: Path) -> None:
    inside, share = closed(tmp_path)
    first, second, *others = make_mixer_encoding().loads(share["parts"][0])
    changed = encode_base64url(decode_base64url(first)[:ENCAPSULATION] + decode_base64url(second)[ENCAPSULATION:])
    assert forwarded(inside, share, [first, changed, *others]) == "burned"


def test_honest_sealed_reports_are_learned_from(tmp_path: Path) -> None:
    inside, share = closed(tmp_path)
    assert forwarded(inside, share, make_mixer_encoding().loads(share["parts"][0])) == "released"


def test_a_client_cannot_spoil_a_batch_by_a_copy(tmp_path: Path) -> None:
    seen: list[TaggedReport] = []

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        kept = [body for _, _, body in inside.collector.entries(0, 0)[1]]  # type: ignore[index]
        seen.append(report)
        return [
            [with_body(report, kept[0])],
            [with_body(report, kept[0][:ENCAPSULATION] + report.body[ENCAPSULATION:])],
        ]

    inside, share = closed(tmp_path, attack=attack)
    assert seen
    assert inside.said == {"copy": 2 * len(seen)}
    assert forwarded(inside, share, make_mixer_encoding().loads(share["parts"][0])) == "released"


def test_a_huge_sealed_report_counts_as_zero(tmp_path: Path) -> None:
    for number in (2**61, -(2**61), 2**40):
        inside, share = closed(tmp_path / str(number))
        (part,) = inside.plan_of(0).rounds[0].parts
        mixer = make_mixer_encoding().loads(part.mixer or "")
        first, *others = make_mixer_encoding().loads(share["parts"][0])
        huge, zero = (encode_base64url(sealed(inside, np.full(part.length, each))) for each in (number, 0))
        found = []
        for given in (huge, zero):
            views = _opened(inside, part, mixer, [given, *others])
            found.append(np.sort(views[0].numbers, axis=0))
        assert np.array_equal(*found)
        assert forwarded(inside, share, [huge, *others]) == "released"
        assert first != huge


def _opened(inside: Attacked, part: Any, mixer: Any, reports: list[str]) -> tuple[Any, ...]:
    from bandanna.deployment.analyzer.query_answers import _open_reports as opened

    info = report_info(inside.task.digest, 0, 0)
    return opened(make_mixer_encoding().dumps(sorted(reports)), part, mixer, inside.processor._opener, info, set())


def test_a_huge_report_is_refused_in_the_local_model(tmp_path: Path) -> None:
    attacks = (2**61, -(2**61), 2**40)

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        (part,) = inside.plan_of(report.epoch).rounds[0].parts
        made = []
        for number in attacks:
            honest = np.frombuffer(report.body, dtype=part.dtype).copy()
            honest[-1] = number
            made.append([with_body(report, honest.tobytes())])
        return made

    inside, _ = closed(tmp_path, "LinTS-LDP", attack)
    assert set(inside.said) == {"range"}


PROTOCOLS = [
    LocalGaussian(domain=Ball(dim=1), noise_std=3.0),
    LocalGaussian(domain=Ball(dim=5), noise_std=0.7),
    LocalGaussian(domain=LinearReport(features=3), noise_std=40.0),
    LocalGaussian(domain=Box(dim=2, low=0.25, high=1.0), noise_std=0.05),
    ShuffleGaussian(domain=Ball(dim=4), noise_std=1.5, batch=4),
]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_honest_reports_are_in_range_but_for_one_in_2_to_the_60(protocol: Any) -> None:
    """An honest report is refused with probability 2^-60 at most, whatever the statistic, and not much less: the bound
    is t standard deviations beyond the domain.
    """
    dim, std, grid = protocol.domain.dim, protocol.mechanism.std, protocol.mechanism.step
    low, high = protocol.mixer.likely_steps
    reach = likely_reach(dim)
    assert 0.999 < 2 * dim * stats.norm.sf(reach) * 2.0**60 <= 1.0
    for corner in (protocol.domain.lower, protocol.domain.upper):
        steps = (corner - protocol.domain.origin) / grid
        room = np.minimum(high - np.ceil(steps), np.floor(steps) - low)  # in steps: 1 more is refused
        assert np.all(room >= math.ceil(reach * std / grid))
        missed = 2 * stats.norm.sf(np.min(room) * grid / std)  # P(|Z| > room) <= P(|N(0, std^2)| >= room grid)
        assert dim * missed <= 2.0**-60
    rows = np.broadcast_to(protocol.domain.origin, (200, dim))
    honest = protocol.device.message(protocol.admit(rows), SecureNoise())
    assert protocol.mixer.check(honest) is not None


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_report_moves_a_total_by_reach_and_noise_at_most(protocol: Any) -> None:
    """The largest report that is let in moves a total by the domain's reach and t std, and a step more is refused."""
    low, high = protocol.mixer.likely_steps
    for extreme, beyond in ((low, low - 1), (high, high + 1)):
        protocol.mixer.check(extreme[None])
        for place in range(protocol.domain.dim):
            wrong = extreme.copy()
            wrong[place] = beyond[place]
            with pytest.raises(InvalidStatistic, match="stay with the zero report"):
                protocol.mixer.check(wrong[None])
        _, estimate = protocol.analyzer.analyze(None, MixerState(users=1, numbers=extreme[None]), SecureNoise())
        bound = protocol.domain.largest_entry + likely_reach(protocol.domain.dim) * protocol.mechanism.std
        assert np.all(np.abs(estimate.total) <= bound + 2 * protocol.mechanism.step)


def test_reals_of_seeded_tests_have_the_same_range() -> None:
    mixer = PROTOCOLS[0].mixer
    low, high = mixer.likely
    mixer.check(np.stack([low, high]))
    for wrong in (low - 1e-6, high + 1e-6, [math.nan], [math.inf]):
        with pytest.raises(InvalidStatistic):
            mixer.check(np.array([wrong]))


# What is signed for one purpose, or in one task, is nothing in another


KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_document_is_of_one_kind_and_of_one_task(kind: Kind) -> None:
    secret, public = signing_key()
    signature = sign(secret, "a task", kind, b"content")
    assert verify(public, "a task", kind, b"content", signature)
    assert not any(verify(public, "a task", other, b"content", signature) for other in KINDS if other != kind)
    assert not verify(public, "another task", kind, b"content", signature)
    assert not verify(public, "a task", kind, b"content ", signature)


def test_a_receipt_is_of_its_task_epoch_and_round(tmp_path: Path) -> None:
    attacked = Attacked(*a_split_task(mixers=1), tmp_path)
    share = closed_share(attacked)
    assert attacked.processor.take(share, "shuffler", 0, 0).status == 201
    receipt = loads(attacked.processor.receipt(0, 0))
    task, key = attacked.task, attacked.task.key("analyzer")
    check_receipt(receipt, task_id=task.id, epoch=0, round_=0, key=key)
    published = attacked.processor.published
    assert published is not None
    others: list[tuple[Any, dict[str, Any]]] = [
        (receipt, {"epoch": 1}),
        (receipt, {"round_": 1}),
        (receipt, {"task_id": "another"}),
        ({**receipt, "epoch": 1}, {"epoch": 1}),
        ({**loads(published.document), "signature": published.signature}, {}),
        (None, {}),
        ([], {}),
        ({}, {}),
    ]
    for document, changes in others:
        with pytest.raises(Unreadable):
            check_receipt(document, **{"task_id": task.id, "epoch": 0, "round_": 0, "key": key, **changes})


def test_an_invented_witness_in_a_share_does_not_stop_the_analyzer(tmp_path: Path) -> None:
    attacked = Attacked(*a_split_task(mixers=1), tmp_path)
    share = closed_share(attacked)
    assert "witness" not in loads(share)
    invented = dumps({**loads(share), "witness": {"number": 7, "chain": "invented"}})
    with pytest.raises(BandannaError):
        attacked.processor.take(invented, "shuffler", 0, 0)
    assert not attacked.processor.rolled_back
    assert attacked.processor.take(share, "shuffler", 0, 0).status == 201


def test_processes_take_nothing_for_another_kind(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """A running registrar cosigns nothing, and a running analyzer takes no share, by a signature of another kind; a
    share with an invented witness is refused, and the analyzer goes on.
    """
    policy = bd.make("LinTS-SDP", dim=2, batch=6, horizon=60, epsilon=8.0, delta=1e-2)
    task, secrets = on_disk(policy, tmp_path, mixers=1, seed=None)
    running: dict[str, Served] = {}
    request.addfinalizer(lambda: [each.stop() for each in running.values()])
    for role in ("registrar", "analyzer"):
        port = int(task.url(role).rpartition(":")[2])
        running[role] = Served(tmp_path, role, str(tmp_path / f"{role}.db"), port)
    analyzer, registrar = (running[role].client for role in ("analyzer", "registrar"))
    end = time.monotonic() + 600
    while (published := analyzer.get(f"/tasks/{task.id}/snapshot")).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)
    told = {"number": 1, "previous": published.headers["etag"].strip('"'), "chain": "c", "epoch": 1}
    for kind in KINDS:
        if kind != "witness":
            content = dumps({**told, "signature": sign(secrets["analyzer"].sign, task.id, kind, dumps(told))})
            assert registrar.put(f"/tasks/{task.id}/witness", content=content).status_code == 403, kind
    parts = {"count": 6, "checksum": "", "bad": 0, "parts": [], "key": None}
    share = dumps({"task": task.id, "epoch": 0, "round": 0, "mixer": "shuffler", **parts})
    invented = dumps({**loads(share), "witness": {"number": 7, "chain": "invented"}})
    path = f"/tasks/{task.id}/batches/0.0/shares/shuffler"
    for kind in KINDS:
        expected = 400 if kind == "share" else 401
        signature = sign(secrets["shuffler"].sign, task.id, kind, invented)
        assert analyzer.put(path, content=invented, headers={"signature": signature}).status_code == expected, kind
    assert analyzer.get("/readyz").status_code == 200
    assert analyzer.get(f"/tasks/{task.id}/snapshot").content == published.content


# A row that no policy can take is nobody's: whoever sends it changes nothing for the others


BAD = (np.nan, np.inf, -np.inf, 1e300, -1e300, 1e90, -1.0, 0.5, 2.0**40, -(2.0**70), 0.0, 7.0)


@pytest.mark.parametrize("name", ["LinTS-JDP", "LinUCB", "AdaC-UCB", "UCB1", "LinTS-JDP-rewards", "GLM-UCB"])
def test_hostile_rows_are_learned_from_as_nobodys(name: str) -> None:
    policy, _, arms, _ = case(name)
    rng = np.random.default_rng(2)
    state = policy.init(None if arms is None else np.asarray(arms.features if hasattr(arms, "features") else arms))
    episode: Any = policy.episode(state)
    length = int(getattr(policy, "dim", 0)) + 4
    for _ in range(20):
        rows = np.zeros((episode.users, length))
        rows[:, -1] = 1.0
        if length > 4:
            rows[:, length - 5] = 1.0  # a constant
        hit = rng.random(rows.shape) < 0.4
        rows[hit] = rng.choice(BAD, int(hit.sum()))
        server = TrustedServerRunner(
            policy=policy, desk=RunnerState(), source=SecureNoise(), stream=SecureNoise(), coins=SecureRandomness()
        )
        assert server.learn(state, episode, played_from_rows(policy, episode, rows)) is not None
        for each in server.charges:
            assert np.isfinite(np.frombuffer(each.data)).all()


def test_a_row_with_an_arm_that_is_none_counts_for_no_arm() -> None:
    policy = bd.LinTS(n_arms=3, features=2, horizon=64, batch=4, privacy=bd.none())
    rows = np.array([[0.1, 0.2, 1.0, arm, 0.0, 1.0] for arm in (1.0, -1.0, np.nan, 1e300)])
    rows = rows[:, -6 - (int(policy.dim) - 2) :] if int(policy.dim) > 2 else rows
    played = played_from_rows(policy, policy.episode(policy.init()), rows)
    assert played.answered is not None
    assert played.answered.tolist() == [True, False, False, False]
