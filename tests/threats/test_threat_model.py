"""The tables of docs/concepts/threat-model.md name tests that exist, and numbers that the library computes."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.device_logic import ClientTask, DocumentDevice, PlayedArm, ReportSlot
from bandanna.deployment.collector import mix_bodies
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    TicketKeys,
    decode_base64url,
    encode_base64url,
    loads,
    prove_unused,
)
from bandanna.deployment.messages.report import FINAL, TaggedReport, report_info
from bandanna.deployment.messages.share import JobEntry
from bandanna.device.noise import SecureNoise
from bandanna.numeric.rng import SecureRandomness
from bandanna.policies.base import Policy
from bandanna.policies.registry import make_encoding
from bandanna.privacy.calibration import likely_reach
from bandanna.privacy.guarantee import format_rounded_up
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.mixers import MixerState

from ..deployment.inside import Inside, a_task
from .test_mixers import PEOPLE, Deployed
from .test_reports import BATCH, closed, forwarded, sealed

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
PAGE = (DOCS / "concepts" / "threat-model.md").read_text(encoding="utf-8")
PLAYED = (DOCS / "appendix" / "threat-tests.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PLAYED)
BUDGET, REPORT = bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5), bd.device.LinearReport(features=5)


def list_parties(section: str) -> list[str]:
    """Return the first cells of the table of a section of the threat model."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").partition(" | ")[0] for line in text.splitlines() if line.startswith("|")][2:]


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED)))
def test_a_test_that_the_page_names_is_there(path: str, name: str) -> None:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_party_has_its_tests() -> None:
    parties = list_parties("Single parties") + list_parties("Pairs")
    assert len(parties) == len(set(parties)) > 20
    rows = dict(re.findall(r"^\| (.+?) \| (`.+`) \|$", PLAYED, re.MULTILINE))
    assert [party for party in parties if party not in rows] == []
    for names in rows.values():
        assert re.fullmatch(r"`[\w/]+\.py::\w+`(<br>`[\w/]+\.py::\w+`)*", names), names


def test_numbers_of_the_page_are_the_librarys() -> None:
    for batch in (60, 2000):
        sealed = bd.protocols.ShuffleGaussian.calibrate(domain=REPORT, budget=BUDGET, batch=batch)
        assert sealed.guarantee.shuffler is not None
        assert f"{format_rounded_up(sealed.guarantee.shuffler.epsilon)} for B = {batch:,}" in PAGE
    counted = bd.protocols.ShuffleBinomial.calibrate(domain=REPORT, budget=BUDGET, batch=200)
    fewer = replace(counted.event, trials=190 * counted.noise.trials)
    assert f"epsilon {format_rounded_up(bd.privacy.Accountant(event=fewer).epsilon(1e-5))} for 10 of 200" in PAGE
    for numbers, word in ((1, "one number"), (5, "five")):
        assert f"{likely_reach(numbers):.2f} for {word}" in PAGE


# What docs/concepts/threat-model.md says is not promised is not so: each of these tests is an attack that works


ARMS = [[0.1, 0.2], [0.3, 0.4]]


def linear(noise: str) -> Policy[Any]:
    """Batches of 30 people."""
    return bd.LinTS(dim=2, horizon=90, batch=30, privacy=bd.shuffle(epsilon=1.0, delta=1e-3, noise=noise))


def public_total(content: bytes) -> Any:
    return make_encoding().loads(loads(content)["state"]).total


def left_of(policy: Policy[Any], total: Any, known: Any, users: int) -> list[int]:
    asked = next(policy.learn(policy.init(None), policy.episode(policy.init(None))))
    estimates = [
        asked.protocol.analyzer.analyze(None, MixerState(users=users, numbers=known + more), SecureNoise())[1].total
        for more in (0, 1)
    ]
    return [int(each) for each in np.rint((total - estimates[0]) / (estimates[1] - estimates[0]))]


class Filled(Inside):
    """A batch of one mixer, all of whose people but one are somebody's inventions: `who` has made their tickets."""

    def __init__(self, policy: Policy[Any], folder: Path, who: str) -> None:
        task, roles = a_task(policy, seed=None)
        super().__init__(task, roles, folder)
        self.collector._finish = lambda mixer, held: mixer.drawn(held, SecureNoise())
        self.guide = DocumentDevice(ClientTask.from_bytes(task.document))
        inventing = TicketKeys(roles[who].ticket_key(task, COLLECTOR), task.digest, COLLECTOR)
        (victim,) = self.tickets(["victim"], 0)
        invented = [replace(each, collector=inventing.key(0, each.slot)) for each in self.tickets(range(29), 0)]
        self.batch = self.processor.now.batches[0]
        self.counts = [self.sent(each) for each in (victim, *invented)]
        self.pump()

    def sent(self, ticket: Any) -> Any:
        content = loads(self.processor.published.document)
        slot, given = ReportSlot(batch=self.batch, ticket=ticket, key=None), PlayedArm(features=(0.6, 0.3), arm=0)
        body, error = self.guide.final(content, 0, slot, given, 1.0, SecureNoise(), SecureRandomness())
        assert error is None
        made = TaggedReport.make(
            ticket.collector, self.batch.digest, slot=ticket.slot, epoch=0, round_=0, version=FINAL, body=body
        )
        assert [each.reason for each in self.upload([made.to_bytes()])] == [""]
        return self.batch.rounds[0].parts[0].numbers([body])[0]


@pytest.mark.parametrize("who", ["registrar", "shuffler"])
def test_the_maker_of_tickets_can_isolate_one_users_counts(who: str, tmp_path: Path) -> None:
    """A registrar, a host with its token, or a single shuffler invents all people of a batch but one: the public total
    less what they have sent is that person's noisy counts, exactly. A single report's noise is all that is left.
    """
    inside = Filled(linear("checked"), tmp_path, who)
    victim, *invented = inside.counts
    total = public_total(inside.processor.published.document)
    assert left_of(inside.task.policy, total, sum(invented), 30) == victim.tolist()


def test_noise_by_the_mixer_is_left_where_all_others_are_invented(tmp_path: Path) -> None:
    inside = Filled(linear("mixer"), tmp_path, "registrar")
    victim, *invented = inside.counts
    found = left_of(inside.task.policy, public_total(inside.processor.published.document), sum(invented), 30)
    (mixer,) = [make_mixer_encoding().loads(part.mixer) for part in inside.batch.rounds[0].parts]
    noise, coins = np.array(found) - victim, mixer.noise.users * mixer.noise.trials
    assert mixer.noise.users == 30
    assert np.all(np.abs(noise - coins / 2) < 8 * np.sqrt(coins) / 2)
    assert len(set(noise.tolist())) > 1  # one draw for each number


@pytest.mark.parametrize("noise", ["mixer", "checked"])
def test_a_mixer_that_draws_the_noise_sees_reports_without_it(noise: str, tmp_path: Path) -> None:
    """With noise = "mixer" what a device sends is its statistic, rounded: equal data gives equal counts but for 1, and
    other data other counts. Where devices draw the noise it does not.
    """
    inside = Filled(linear(noise), tmp_path, "registrar")
    batch, content = inside.batch, loads(inside.processor.published.document)
    slot = ReportSlot(batch=batch, ticket=inside.ticket_of(bytes(16), 0), key=None)

    def counts(reward: float) -> Any:
        given, drawn = PlayedArm(features=(0.6, 0.3), arm=0), (SecureNoise(), SecureRandomness())
        bodies = [inside.guide.final(content, 0, slot, given, reward, *drawn)[0] for _ in range(20)]
        return batch.rounds[0].parts[0].numbers(bodies)

    low, high = counts(0.0), counts(1.0)
    assert np.all(np.ptp(low, axis=0) <= 1) == (noise == "mixer")
    assert np.any(low.max(axis=0) < high.min(axis=0)) == (noise == "mixer")


def test_a_registrar_isolates_one_person_behind_two_mixers(tmp_path: Path) -> None:
    """A registrar invents all people of a batch but one: with two honest mixers too, the public total less what these
    have sent is that person's noisy counts.
    """
    place = Deployed(tmp_path)
    tickets, asked = place.given(PEOPLE), place.batch.rounds[0]
    bodies = [place.body(each) for each in tickets]
    victim, *invented = [np.array(place.counts(*each)) for each in zip(tickets, bodies, strict=True)]
    entries = [JobEntry(each.slot, 0, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
    assert place.told(entries, asked.parts[0].numbers(bodies))[1] == 201
    total = public_total(place.processor.published.document)
    assert left_of(place.task.policy, total, sum(invented), PEOPLE) == victim.tolist()


def test_a_mixer_or_a_client_of_two_mixers_shifts_totals_unnoticed(tmp_path: Path) -> None:
    """One of two mixers adds a constant to its share, or one client to its own: the batch is released with totals that
    are as far off, as long as counts could have them.
    """
    place = Deployed(tmp_path)
    tickets, asked = place.given(PEOPLE), place.batch.rounds[0]
    bodies = [place.body(each) for each in tickets]
    honest = sum(np.array(place.counts(*each)) for each in zip(tickets, bodies, strict=True))
    entries = [JobEntry(each.slot, 0, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
    shares, shift = asked.parts[0].numbers(bodies), np.array([400, -400, 0, 7, 0])
    shares[0] += shift
    assert place.told(entries, shares)[1] == 201
    total = public_total(place.processor.published.document)
    assert left_of(place.task.policy, total, honest, PEOPLE) == shift.tolist()


def test_a_shuffler_of_sealed_reports_makes_all_but_one(tmp_path: Path) -> None:
    """A shuffler of Gaussian reports seals B - 1 reports of its own beside one person's: the batch is released, and
    the public total is that person's report.
    """
    inside, share = closed(tmp_path)
    (part,) = inside.plan_of(0).rounds[0].parts
    victim = make_mixer_encoding().loads(share["parts"][0])[0]
    policy = inside.task.policy
    asked = next(policy.learn(policy.init(None), policy.episode(policy.init(None))))
    before = inside.processor.progress.state.total
    own = [encode_base64url(sealed(inside, np.zeros(part.length, dtype=np.int64))) for _ in range(BATCH - 1)]
    assert forwarded(inside, share, [victim, *own]) == "released"
    opened = inside.processor._opener.open(decode_base64url(victim), report_info(inside.task.digest, 0, 0))
    rows = np.vstack([np.frombuffer(opened, dtype=part.dtype), np.zeros((BATCH - 1, part.length), dtype=np.int64)])
    _, estimate = asked.protocol.analyzer.analyze(None, MixerState(users=BATCH, numbers=rows), SecureNoise())
    assert np.allclose(inside.processor.progress.state.total - before, estimate.total)


def test_with_assigned_arms_the_noise_left_is_that_of_the_own_arm(tmp_path: Path) -> None:
    """Where places say the arm, everybody knows the arm of the next place: colluders take all places of an arm but one,
    n_arm - 1 of a batch, and the arm's total less what they have sent is that person's count.
    """
    policy = bd.make("SDP-SE", n_arms=3, horizon=2000, failure=0.5, epsilon=20.0, delta=1e-2)
    inside = Inside(*a_task(policy, seed=None, arms=["a", "b", "c"]), tmp_path)
    batch = inside.processor.now.batches[0]
    arms = batch.arms_at(np.arange(batch.slots))
    own = np.flatnonzero(arms == arms[0])
    assert [make_mixer_encoding().loads(part.mixer).noise.users for part in batch.rounds[0].parts] == [len(own)] * 3
    counts = np.random.default_rng(5).integers(0, 50, size=batch.slots)
    bodies = [batch.rounds[0].parts[0].to_bytes(np.array([each])) for each in counts]
    seen = mix_bodies(None, batch, 0, bodies, lambda mixer, held: held)  # type: ignore[arg-type]
    ((first,), *_) = [make_mixer_encoding().loads(text) for text in seen]
    assert len(own) < batch.slots / 2
    assert int(first.numbers[0]) - counts[own[1:]].sum() == counts[0]


def test_a_shuffler_gets_an_accomplice_into_every_batch(tmp_path: Path) -> None:
    place = Deployed(tmp_path)
    (ticket,) = place.given(1)
    key = place.own.ticket_key(place.task, COLLECTOR)
    again = {"user": "person 0", "epoch": 1}
    assert place.registrar.tickets([again]) == [{"refused": "participations"}]
    proof = encode_base64url(prove_unused(key, place.task.digest, 0, ticket.slot))
    (given,) = place.registrar.tickets([{**again, "refused": [[0, encode_base64url(ticket.slot), proof]]}])
    assert given["epoch"] == 1
