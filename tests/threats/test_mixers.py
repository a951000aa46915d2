"""A hostile shuffler of two mixers, with everything that it holds: it can spoil a batch, and learns of nobody."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.client.device_logic import ClientTask, DocumentDevice, PlayedArm, ReportSlot
from bandanna.deployment.helper import SCHEMA as HELPING
from bandanna.deployment.helper import Helper, JobRefused, Keyring
from bandanna.deployment.messages.batch_plan import Batch, Part
from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    Opener,
    TicketKeys,
    agreed_key,
    draw_seed,
    dumps,
    encode_base64url,
    expand_masks,
    loads,
    seal,
    sign,
    signing_key,
    ticket_key_info,
)
from bandanna.deployment.messages.report import (
    TaggedReport,
    Ticket,
    read_seal_key,
    sealing_info,
    slots_checksum,
    ticket_from_plain,
    write_seal_key,
)
from bandanna.deployment.messages.share import JobEntry, write_job, write_share
from bandanna.deployment.registrar import SCHEMA as REGISTERING
from bandanna.deployment.registrar import Registrar
from bandanna.deployment.registrar_service import make_registrar
from bandanna.deployment.task.document import Secrets, Task
from bandanna.device.noise import SecureNoise
from bandanna.errors import BandannaError, Unreadable
from bandanna.numeric.rng import SecureRandomness
from bandanna.protocols.factory import make_mixer_encoding, mix_messages
from bandanna.protocols.mixers import FullBatches, MixerState
from bandanna.storage.database.base import open_database

from ..deployment.faults.people import People
from ..deployment.faults.test_faults import begun, finish
from ..deployment.faults.town import GRACE, Town
from ..deployment.inside import Inside, a_task
from ..deployment.parties import SCHEMA, Users, give, helper, receipt, streamed
from ..deployment.served import Served
from ..deployment.simulated import case
from ..deployment.test_processes import on_disk

PEOPLE = 30


def seal_key_of(task: Task, content: Any) -> tuple[int, str]:
    """Number and public key for which devices seal seeds, by a publication with this content."""
    if content["helper"] is None:
        return 0, task.key("seal helper")
    return read_seal_key(content["helper"], task_id=task.id, key=task.key("helper"))


def body_of(task: Task, content: Any, ticket: Ticket) -> bytes:
    _, key = seal_key_of(task, content)
    slot = ReportSlot(batch=Batch.from_dict(content["batches"][0]), ticket=ticket, key=key)
    given, guide = PlayedArm(features=(0.6, 0.3), arm=0), DocumentDevice(ClientTask.from_bytes(task.document))
    body, error = guide.final(content, 0, slot, given, 1.0, SecureNoise(), SecureRandomness())
    assert error is None
    return body


def forged(
    task: Task, own: Secrets, batch: Batch, entries: Sequence[JobEntry], shares: np.ndarray[Any, Any]
) -> tuple[bytes, bytes, Callable[..., str]]:
    """The job and the share of a hostile shuffler, and how it signs them: as it should."""
    job = write_job(task_id=task.id, batch=batch, round_=0, entries=list(entries))
    mixer = make_mixer_encoding().loads(batch.rounds[0].parts[0].mixer or "")
    _, view = mix_messages(mixer, mixer.empty(), shares)
    share = write_share(
        task_id=task.id, epoch=batch.epoch, round_=0, mixer="shuffler", count=len(entries),
        checksum=slots_checksum(each.slot for each in entries), bad=0, parts=[make_mixer_encoding().dumps(view)],
    )  # fmt: skip
    return job, share, partial(sign, own.sign, task.id)


class Deployed(Inside):
    """Registrar, helper and analyzer, who are honest; whoever is the shuffler has `own` and the task's document."""

    def __init__(self, folder: Path) -> None:
        policy = bd.make("LinTS-SDP", dim=2, horizon=4 * PEOPLE, batch=PEOPLE, epsilon=1.0, delta=1e-3)
        task, roles = a_task(policy, seed=None, mixers=2)
        super().__init__(task, roles, folder)
        self.own = roles["shuffler"]
        rows = open_database(str(folder / "registrar.db"), role="registrar", schema=REGISTERING)
        self.registrar = Registrar(rows, **make_registrar(task, roles["registrar"]))
        kept = open_database(str(folder / "helper.db"), role="helper", schema=HELPING)
        self.keyring = Keyring(kept, first=(roles["helper"].seal, task.key("seal helper")), delay=0.0)
        self.helper = Helper(
            kept,
            task_id=task.id,
            task=task.digest,
            ticket_key=roles["helper"].ticket_key(task, HELPER),
            leader_key=task.key("shuffler"),
            analyzer_key=task.key("analyzer"),
            keyring=self.keyring,
            sign=partial(sign, roles["helper"].sign, task.id),
        )
        self.opener = Opener(roles["helper"].seal)  # of the test alone: what a victim has drawn

    @property
    def batch(self) -> Batch:
        return self.processor.now.batches[0]

    @property
    def seal_key(self) -> tuple[int, str]:
        """Number and public key for which devices seal, by the newest publication."""
        return seal_key_of(self.task, loads(self.processor.published.document))

    def given(self, count: int, who: str = "person") -> list[Ticket]:
        wishes = [{"user": f"{who} {number}", "epoch": self.batch.epoch} for number in range(count)]
        return [ticket_from_plain(each) for each in self.registrar.tickets(wishes)]

    def body(self, ticket: Ticket) -> bytes:
        return body_of(self.task, loads(self.processor.published.document), ticket)

    def counts(self, ticket: Ticket, body: bytes) -> list[int]:
        asked = self.batch.rounds[0]
        opened = self.opener.open(asked.sealed(body), sealing_info(self.task.digest, self.batch, 0, ticket.slot))
        (mask,) = expand_masks(opened[:16], asked.lengths)
        return [int(each) for each in asked.parts[0].numbers([body])[0] + mask]

    def told(self, entries: Sequence[JobEntry], shares: np.ndarray[Any, Any]) -> tuple[Any, int]:
        """The hostile shuffler's job and share, signed as they should be: what the helper has made of the one, and the
        analyzer of both.
        """
        batch = self.batch
        job, share, signed = forged(self.task, self.own, batch, entries, shares)
        _, added = self.helper.job(job, signed("job", job), epoch=batch.epoch, round_=0)
        assert self.processor.take(added, "helper", batch.epoch, 0).status == 202
        return loads(added), self.processor.take(share, "shuffler", batch.epoch, 0).status


class Processes:
    """Registrar, helper and analyzer in processes of their own, who are honest, and a hostile shuffler's requests."""

    def __init__(self, folder: Path) -> None:
        policy = bd.make("LinTS-SDP", dim=2, horizon=4 * PEOPLE, batch=PEOPLE, epsilon=1.0, delta=1e-3)
        self.task, roles = on_disk(policy, folder, mixers=2, seed=None)
        self.own, self._token = roles["shuffler"], roles["registrar"].token
        self.running: dict[str, Served] = {}
        for role in ("registrar", "analyzer", "helper"):
            port = int(self.task.url(role).rpartition(":")[2])
            self.running[role] = Served(folder, role, str(folder / f"{role}.db"), port)

    @property
    def content(self) -> Any:
        analyzer, end = self.running["analyzer"].client, time.monotonic() + 600
        while (answer := analyzer.get(f"/tasks/{self.task.id}/snapshot")).status_code == 503:  # not cosigned yet
            assert time.monotonic() < end
            time.sleep(0.02)
        assert answer.status_code == 200
        return answer.json()

    @property
    def batch(self) -> Batch:
        return Batch.from_dict(self.content["batches"][0])

    def given(self, count: int) -> list[Ticket]:
        """Tickets of so many new people whom the registrar knows."""
        epoch = self.batch.epoch
        wishes = [{"user": f"person {epoch}.{number}", "epoch": epoch} for number in range(count)]
        path, headers = f"/tasks/{self.task.id}/tickets", {"Authorization": f"Bearer {self._token}"}
        answer = self.running["registrar"].client.post(path, json={"tickets": wishes}, headers=headers)
        assert answer.status_code == 200
        return [ticket_from_plain(each) for each in answer.json()["tickets"]]

    def told(self, entries: Sequence[JobEntry], shares: np.ndarray[Any, Any]) -> tuple[int, str]:
        """How many entries the helper has found bad, and the analyzer's outcome of the round."""
        batch = self.batch
        job, share, signed = forged(self.task, self.own, batch, entries, shares)
        path = f"/tasks/{self.task.id}/batches/{batch.epoch}.0"
        helper, analyzer = self.running["helper"].client, self.running["analyzer"].client
        added = helper.put(f"{path}/job", content=job, headers={"Signature": signed("job", job)})
        assert added.status_code == 201, added.text
        headers, end = {"Signature": signed("share", share)}, time.monotonic() + 600
        while (answer := analyzer.put(f"{path}/shares/shuffler", content=share, headers=headers)).status_code == 202:
            assert time.monotonic() < end  # the helper's share is on its way
            time.sleep(0.02)
        return added.json()["bad"], answer.json()["receipt"]["outcome"]

    def stop(self) -> None:
        for each in self.running.values():
            each.stop()


def invented(place: Deployed | Processes, slot: bytes, key: bytes) -> tuple[JobEntry, np.ndarray[Any, Any]]:
    """The shuffler's own entry, with a key that it believes to be the ticket's, and a share that makes it zeros."""
    batch, seed = place.batch, draw_seed()
    info = sealing_info(place.task.digest, batch, 0, slot)
    (mask,) = expand_masks(seed, batch.rounds[0].lengths)
    return JobEntry(slot, 0, seal(place.task.key("seal helper"), seed + key, info)), -mask


def keys_of(task: Task, own: Secrets) -> list[TicketKeys]:
    """All that a shuffler can try, as if they were the pair key of registrar and helper."""
    infos = (ticket_key_info(COLLECTOR), ticket_key_info(HELPER))
    publics = [task.key(name) for name in ("agree registrar", "agree helper", "agree analyzer", "agree shuffler")]
    made = [agreed_key(own.agree, each, salt=task.digest, info=info) for each in publics for info in infos]
    made.append(own.ticket_key(task, COLLECTOR))
    return [TicketKeys(key, task.digest, verifier) for key in made for verifier in (COLLECTOR, HELPER)]


def unharmed(place: Deployed, before: Any) -> None:
    """Nothing was released, and the public state is as it was."""
    assert loads(place.processor.published.document)["state"] == before
    with place.processor._database.reading() as rows:
        outcomes = {outcome for (outcome,) in rows.execute("select outcome from releases")}
    assert outcomes == {"begun", "burned"}


def test_with_all_secrets_of_a_shuffler_no_job_of_invented_people_passes(tmp_path: Path) -> None:
    """With the task's document and all of the shuffler's secrets nobody can invent people: the helper adds nothing, and
    nothing is released.
    """
    place = Deployed(tmp_path)
    before = loads(place.processor.published.document)["state"]
    tries = keys_of(place.task, place.own)
    made = []
    for number in range(PEOPLE):
        slot = secrets.token_bytes(16)
        made.append(invented(place, slot, tries[number % len(tries)].key(place.batch.epoch, slot)))
    added, status = place.told([entry for entry, _ in made], np.array([share for _, share in made]))
    assert (added["bad"], added["parts"], status) == (PEOPLE, [], 422)
    unharmed(place, before)
    assert place.registrar.counts() == {"tickets": 0}


def test_one_real_person_among_invented_ones_is_not_isolated(tmp_path: Path) -> None:
    place = Deployed(tmp_path)
    before = loads(place.processor.published.document)["state"]
    (victim,) = place.given(1)
    body, asked = place.body(victim), place.batch.rounds[0]
    made = [invented(place, (slot := secrets.token_bytes(16)), slot) for _ in range(PEOPLE - 1)]
    entries = [JobEntry(victim.slot, 0, asked.sealed(body)), *(entry for entry, _ in made)]
    shares = np.array([asked.parts[0].numbers([body])[0], *(share for _, share in made)])
    added, status = place.told(entries, shares)
    assert (added["bad"], added["parts"], status) == (PEOPLE - 1, [], 422)
    unharmed(place, before)


def test_a_shuffler_cannot_replace_the_other_peoples_seeds(tmp_path: Path) -> None:
    """With genuine tickets of everybody a shuffler cannot put (seed, share) pairs of its own in the place of all other
    people's: the total would be one person's counts, exactly. The helper adds nothing and nothing is released.
    """
    place = Deployed(tmp_path)
    before = loads(place.processor.published.document)["state"]
    tickets, asked = place.given(PEOPLE), place.batch.rounds[0]
    bodies = [place.body(each) for each in tickets]
    tries = keys_of(place.task, place.own)
    made = [
        invented(place, each.slot, tries[number % len(tries)].key(place.batch.epoch, each.slot))
        for number, each in enumerate(tickets[1:])
    ]
    entries = [JobEntry(tickets[0].slot, 0, asked.sealed(bodies[0])), *(entry for entry, _ in made)]
    shares = np.array([asked.parts[0].numbers(bodies[:1])[0], *(share for _, share in made)])
    victim = place.counts(tickets[0], bodies[0])
    hidden = np.array([expand_masks(place.opener.open(
        entry.sealed, sealing_info(place.task.digest, place.batch, 0, entry.slot))[:16], asked.lengths)[0]
        for entry in entries])  # fmt: skip
    assert (shares + hidden).sum(axis=0).tolist() == victim  # what the sum of both mixers would be
    added, status = place.told(entries, shares)
    assert (added["bad"], added["parts"], status) == (PEOPLE - 1, [], 422)
    unharmed(place, before)


def test_the_same_batch_is_released_when_nothing_is_replaced(tmp_path: Path) -> None:
    """With everybody's own seeds and shares the same parties release the batch: the tests above refuse the attack, not
    the deployment.
    """
    place = Deployed(tmp_path)
    tickets, asked = place.given(PEOPLE), place.batch.rounds[0]
    bodies = [place.body(each) for each in tickets]
    entries = [JobEntry(each.slot, 0, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
    total = sum(np.array(place.counts(*each)) for each in zip(tickets, bodies, strict=True))
    shares = asked.parts[0].numbers(bodies)
    added, status = place.told(entries, shares)
    assert (added["bad"], status) == (0, 201)
    (view,) = make_mixer_encoding().loads(added["parts"][0])
    assert (shares.sum(axis=0) + view.numbers).tolist() == total.tolist()


def test_a_rotated_key_reaches_all_devices_by_the_next_publication(tmp_path: Path) -> None:
    """The helper's share brings its new key to the analyzer, which publishes it: the next batch is sealed for it and is
    released, and the first key can be deleted.
    """
    place, keys = Deployed(tmp_path), []
    for _ in range(3):
        asked, (number, public) = place.batch.rounds[0], place.seal_key
        keys.append((number, public))
        tickets = place.given(PEOPLE, who=f"person of batch {len(keys)},")
        bodies = [place.body(each) for each in tickets]
        entries = [JobEntry(each.slot, number, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
        if len(keys) == 1:
            assert place.keyring.rotate() == 1
        added, status = place.told(entries, asked.parts[0].numbers(bodies))
        assert (added["bad"], status, added["key"]["id"]) == (0, 201, 1)
        if len(keys) == 1:
            place.keyring.delete(0)  # its batch is over
    assert keys == [(0, place.task.key("seal helper")), *[place.keyring.active()] * 2]


def test_an_analyzer_publishes_no_key_that_the_helper_has_not_signed(tmp_path: Path) -> None:
    place = Deployed(tmp_path)
    told = write_seal_key(1, place.task.key("seal helper"), partial(sign, place.own.sign, place.task.id))
    share = write_share(
        task_id=place.task.id, epoch=0, round_=0, mixer="helper", count=0, checksum="", bad=0, parts=[], key=told
    )
    with pytest.raises(BandannaError, match="has not signed"):
        place.processor.take(share, "helper", 0, 0)


def test_a_shuffler_never_sees_the_helpers_key_of_a_ticket(tmp_path: Path) -> None:
    """Neither key of a ticket is in a report, nor in what the shuffler passes on; and what is sealed opens for nobody
    but the helper.
    """
    place = Deployed(tmp_path)
    (ticket,) = place.given(1)
    body = place.body(ticket)
    report = TaggedReport.make(
        ticket.collector, place.batch.digest, slot=ticket.slot, epoch=ticket.epoch, round_=0, version=1, body=body
    ).to_bytes()
    job = write_job(
        task_id=place.task.id, batch=place.batch, round_=0,
        entries=[JobEntry(ticket.slot, 0, place.batch.rounds[0].sealed(body))],
    )  # fmt: skip
    for key in (ticket.collector, ticket.helper):
        assert key is not None
        assert key not in report
        assert encode_base64url(key).encode() not in job
    info = sealing_info(place.task.digest, place.batch, 0, ticket.slot)
    with pytest.raises(BandannaError):
        Opener(place.own.agree).open(place.batch.rounds[0].sealed(body), info)


def test_helper_and_analyzer_see_the_same_whoever_has_which_counts(tmp_path: Path) -> None:
    """What an honest shuffler sends to helper and analyzer does not change when one person's counts are larger and
    another's smaller by as much: with all seeds they know the totals, and nothing else.
    """
    place = Deployed(tmp_path)
    tickets, asked = place.given(PEOPLE), place.batch.rounds[0]
    bodies = [place.body(each) for each in tickets]
    entries = [JobEntry(each.slot, 0, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
    shares = asked.parts[0].numbers(bodies)
    moved = shares.copy()
    difference = np.random.default_rng(2).integers(-(2**40), 2**40, size=shares.shape[1])
    moved[0] += difference
    moved[1] -= difference
    seen = [forged(place.task, place.own, place.batch, entries, each)[:2] for each in (shares, moved)]
    assert seen[0] == seen[1]
    assert place.told(entries, moved)[1] == 201


def test_no_role_holds_a_key_of_another(tmp_path: Path) -> None:
    place = Deployed(tmp_path)
    (ticket,) = place.given(1)
    tried = {each.key(ticket.epoch, ticket.slot) for each in keys_of(place.task, place.own)}
    assert ticket.collector in tried  # a collector could make it: it is the one who checks it
    assert ticket.helper not in tried


def test_processes_release_nothing_of_invented_people_or_replaced_seeds(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Against a registrar, a helper and an analyzer in processes of their own a batch of one person and of inventions
    is burned, and so is one in which all other people's seeds are replaced; what is public stays as it was. The next
    batch, with everybody's own seeds and shares, is released.
    """
    place = Processes(tmp_path)
    request.addfinalizer(place.stop)
    before = place.content["state"]
    for genuine in (False, True):  # tickets of the other people
        tickets, asked = place.given(PEOPLE if genuine else 1), place.batch.rounds[0]
        body, tries = body_of(place.task, place.content, tickets[0]), keys_of(place.task, place.own)
        others = [each.slot for each in tickets[1:]] or [secrets.token_bytes(16) for _ in range(PEOPLE - 1)]
        made = [
            invented(place, slot, tries[number % len(tries)].key(place.batch.epoch, slot))
            for number, slot in enumerate(others)
        ]
        entries = [JobEntry(tickets[0].slot, 0, asked.sealed(body)), *(entry for entry, _ in made)]
        shares = np.array([asked.parts[0].numbers([body])[0], *(share for _, share in made)])
        assert place.told(entries, shares) == (PEOPLE - 1, "burned")
        assert place.content["state"] == before
    tickets, content = place.given(PEOPLE), place.content
    bodies = [body_of(place.task, content, each) for each in tickets]
    entries = [JobEntry(each.slot, 0, asked.sealed(body)) for each, body in zip(tickets, bodies, strict=True)]
    assert place.told(entries, asked.parts[0].numbers(bodies)) == (0, "released")
    assert place.content["state"] != before


# A shuffler and an analyzer that want several sums of one level from a helper, and a shuffler that is told lies


@pytest.mark.parametrize("answer", [{}, {"receipt": None}, {"receipt": {"outcome": "burned"}}, "signed burned"])
def test_a_helper_gives_one_sum_of_each_level(answer: Any, tmp_path: Path) -> None:
    """A helper lets every sum of a stream out once, whatever the analyzer answers to a share: an answer without a
    receipt changes nothing, and after a signed one that the round was burned the stream is over.
    """
    one = helper(open_database(str(tmp_path / "h.db"), role="helper", schema=SCHEMA))
    give(one, Users(streamed(0)))
    one.receipted(0, 0, receipt(0))
    shares, statuses = [], []
    for epoch in range(1, 6):  # again and again other people after the same ones, each round "burned"
        try:
            shares.append(give(one, Users(streamed(epoch), seed=epoch))[1])
        except JobRefused as refused:
            statuses.append((refused.status, refused.reason))
            continue
        said = receipt(epoch, 0, "burned") if answer == "signed burned" else answer.get("receipt")
        with suppress(Unreadable):
            one.receipted(epoch, 0, said)
    assert statuses == [(409, "ended") if answer == "signed burned" else (503, "waiting")] * 4
    levels = [each for share in shares for text in loads(share)["parts"] for view in make_mixer_encoding().loads(text)
              for each in view.levels]  # fmt: skip
    assert len(levels) == 3  # after 3 + 3 people: the second and third sum of 2, the first of 4


def test_a_stream_ends_with_a_bad_seed_though_the_analyzer_says_that_it_was_released(tmp_path: Path) -> None:
    """A shuffler spoils a round and the analyzer signs that it was released: the stream ends all the same, and no sum
    with a hole in it leaves the helper.
    """
    one = helper(open_database(str(tmp_path / "h.db"), role="helper", schema=SCHEMA))
    give(one, Users(streamed(0)))
    assert one.receipted(0, 0, receipt(0)) == "released"
    users = Users(streamed(1), seed=1)
    entries = users.entries()
    entries[0] = entries[0]._replace(sealed=bytes(80))
    assert loads(give(one, users, content=users.job(entries=entries))[1])["parts"] == []
    assert one.receipted(1, 0, receipt(1)) == "unusable"
    with pytest.raises(JobRefused) as refused:
        give(one, Users(streamed(2), seed=2))
    assert (refused.value.status, refused.value.reason) == (409, "ended")


class Lying:
    """Between the shuffler and the analyzer: says what it likes of closed rounds."""

    def __init__(self, town: Town, status: int, said: bytes) -> None:
        self._town, self._status, self._said = town, status, said
        self._route = town.route

    def __call__(self, role: str, method: str, path: str, content: bytes, headers: dict[str, str]) -> Any:
        if role == "analyzer" and "/shares/" in path:
            return self._status, self._said, {}
        return self._route(role, method, path, content, headers)


def lies(town: Town) -> list[tuple[int, bytes]]:
    """Answers without a receipt of this round that the analyzer has signed."""
    published = town.alive["analyzer"]["processor"].published
    document = loads(published.document)
    plain = {"task": town.task.id, "epoch": 0, "round": 0, "number": 1, "chain": "c", "outcome": "released"}
    strange = {**plain, "signature": sign(signing_key()[0], town.task.id, "receipt", dumps(plain))}
    told = [{}, {"receipt": {**document, "signature": published.signature}}, {"receipt": plain}, {"receipt": strange}]
    return [(status, dumps(each)) for status in (200, 409) for each in told]


@pytest.mark.parametrize("number", range(8))
def test_a_shuffler_gives_up_no_report_without_a_receipt(number: int, tmp_path: Path) -> None:
    """A shuffler keeps its reports until it has a receipt of their round that the analyzer has signed, whatever it is
    told: bare statuses, a publication, or a receipt of somebody else.
    """
    town, people = begun("one mixer", tmp_path, 4)
    honest = town.route
    town.route = Lying(town, *lies(town)[number])  # type: ignore[method-assign]
    town.now += GRACE + 1.0
    with suppress(RoleUnreachable, BandannaError):
        for _ in range(3):
            town.step("shuffler")
    with town.alive["shuffler"]["rows"].reading() as rows:
        assert rows.execute("select state from batches") == [("closed",)]
        assert rows.execute("select count(*) from reports") == [(4,)]
    town.route = honest  # type: ignore[method-assign]
    finish(town, people)


def test_a_shuffler_hears_that_its_round_is_over_with_other_totals(tmp_path: Path) -> None:
    town, people = begun("one mixer", tmp_path, 4)
    collector = town.alive["shuffler"]["collector"]
    town.now += GRACE + 1.0
    assert collector.close_due()
    with town.alive["shuffler"]["rows"].transaction() as rows:
        ((share,),) = rows.execute("select share from batches")
        other = dumps({**loads(share), "bad": 0, "checksum": "0" * 64}).decode()
        rows.execute("update batches set share = ?", other)
    processor = town.alive["analyzer"]["processor"]
    assert processor.take(share.encode(), "shuffler", 0, 0).status == 201
    town.step("shuffler")
    with town.alive["shuffler"]["rows"].reading() as rows:
        ((state, kept),) = rows.execute("select state, receipt from batches where epoch = 0")
        assert (state, loads(kept)["outcome"]) == ("receipted", "over")
        assert rows.execute("select count(*) from reports") == [(0,)]
    assert isinstance(people, People)


# A hostile shuffler signs shares whose views no mixer forwards: the batch is burned, and the analyzer goes on


Views = Callable[[Batch, Part], Any]


def counts(users: int, length: int) -> MixerState:
    return MixerState(users=users, numbers=np.zeros(length, dtype=np.int64))


VIEWS: dict[str, Views] = {
    "none": lambda batch, part: (),
    "a list of none": lambda batch, part: [],
    "numbers": lambda batch, part: (3,),
    "two": lambda batch, part: (counts(batch.slots, part.length),) * 2,
    "of one person": lambda batch, part: (counts(1, part.length),),
    "of nobody": lambda batch, part: (counts(0, part.length),),
    "of a billion": lambda batch, part: (counts(10**9, part.length),),
    "rows": lambda batch, part: (MixerState(users=1, numbers=np.zeros((1, part.length), dtype=np.int64)),),
    "no level": lambda batch, part: (FullBatches(users=batch.slots, levels=()),),
    "too many levels": lambda batch, part: (FullBatches(users=batch.slots, levels=(counts(1, 8),) * 20),),
    "a sealed text": lambda batch, part: [encode_base64url(bytes(64))],
}


@pytest.mark.parametrize("name", ["LinTS-SDP", "LinTS-CSDP", "GLM-SDP", "SDP-SE", "LinUCB-SDP-Amp"])
def test_views_that_no_mixer_forwards_burn_their_batch(name: str, tmp_path: Path) -> None:
    """A share with views of other people than were announced, of another kind or of none is answered by a receipt:
    nothing is learned from it, what was seen is paid for, and the next batch is announced or the task ends.
    """
    policy, _, arms, _ = case(name)
    task, roles = a_task(policy, seed=None, arms=arms, mixers=1)
    for number, views in enumerate(VIEWS.values()):
        folder = tmp_path / str(number)
        folder.mkdir()
        inside = Inside(task, roles, folder)
        batch, state = inside.processor.now.batches[0], loads(inside.processor.published.document)["state"]
        share = write_share(
            task_id=task.id, epoch=0, round_=0, mixer="shuffler", count=batch.slots, checksum="", bad=0,
            parts=[make_mixer_encoding().dumps(views(batch, part)) for part in batch.rounds[0].parts],
        )  # fmt: skip
        taken = inside.processor.take(share, "shuffler", 0, 0)
        assert taken.status == 422
        assert taken.receipt is not None
        assert loads(taken.receipt)["outcome"] == "burned"
        after = loads(inside.processor.published.document)
        assert after["state"] == state
        assert after["epoch"] > 0 or after["status"] == "exhausted"
