"""Hostile mixers against the analyzer, and hostile clients against two mixers."""

from __future__ import annotations

import contextlib
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers, SimulationTotals
from bandanna.deployment.helper import SCHEMA, Helper, JobRefused, Keyring
from bandanna.deployment.messages.canonical import HELPER, dumps, encode_base64url, loads, sign, signing_key
from bandanna.deployment.messages.report import TaggedReport
from bandanna.deployment.messages.share import read_job, write_job
from bandanna.deployment.shuffler import Shuffler
from bandanna.deployment.task.document import check_announced
from bandanna.errors import BandannaError
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.simulation.environments.linear import LinearContextual
from bandanna.storage.database.base import open_database

from ..inside import a_task
from .attacked import Attack, Attacked, with_body

WORLD = LinearContextual(dim=2, n_arms=4)


@cache
def _task(name: str = "LinTS-SDP", mixers: int = 2) -> Any:
    arguments = {} if "CSDP" in name else {"batch": 10}
    return a_task(bd.make(name, dim=2, horizon=40, epsilon=5.0, delta=1e-3, **arguments), seed=None, mixers=mixers)


class Two(Attacked):
    """Shuffler, helper and analyzer, called in turn; jobs and shares can be replaced."""

    def __init__(self, made: Any, folder: Path, attack: Attack | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        super().__init__(*made, folder, attack=attack, every=9)
        self.secrets, self.name = made[1], "shuffler"
        own = self.secrets["helper"]
        rows = open_database(str(folder / "helper.db"), role="helper", schema=SCHEMA)
        self.helper = Helper(
            rows,
            task_id=self.task.id,
            task=self.task.digest,
            ticket_key=self.keys[HELPER],
            leader_key=self.task.key("shuffler"),
            analyzer_key=self.task.key("analyzer"),
            keyring=Keyring(rows, first=(own.seal, self.task.key("seal helper"))),
            sign=partial(sign, own.sign, self.task.id),
        )
        self.jobs: list[tuple[bytes, int, int]] = []
        self.statuses: list[int] = []
        self.shuffler = Shuffler(
            self.collector,
            task_id=self.task.id,
            analyzer=self,  # type: ignore[arg-type]
            helper=self,  # type: ignore[arg-type]
            sign=partial(sign, self.secrets["shuffler"].sign, self.task.id),
            analyzer_key=self.task.key("analyzer"),
            registrar_key=self.task.key("registrar"),
            check=partial(check_announced, self.task),
        )

    def request(
        self, method: str, path: str, content: bytes = b"", headers: Any = None
    ) -> tuple[int, bytes, dict[str, str]]:
        epoch, round_ = map(int, path.split("/batches/")[1].split("/")[0].split("."))
        if method == "GET":
            return 404, b"{}", {}  # no round is asked about twice here
        if path.endswith("/job"):
            self.jobs.append((content, epoch, round_))
            status, share = self.helper.job(content, headers["Signature"], epoch=epoch, round_=round_)
            if status == 201:
                self._enter(share, epoch, round_)
            return status, b"{}", {}
        taken = self.processor.take(content, "shuffler", epoch, round_)
        self.statuses.append(taken.status)
        assert taken.receipt is not None
        receipt = loads(taken.receipt)
        self.helper.receipted(epoch, round_, receipt)
        return taken.status, dumps({"receipt": receipt}), {}

    def _enter(self, share: bytes, epoch: int, round_: int) -> None:
        assert self.processor.take(share, "helper", epoch, round_).status == 202

    def pump(self) -> None:
        self.collector.close_due()
        for closed in self.collector.waiting():
            receipt = self.shuffler.forward(closed)
            assert receipt is not None
            self.collector.receipted(closed.epoch, closed.round, receipt)
        self.collector.plan(self.processor.now.batches, self.processor.running)


def play(two: Two, rounds: int = 40) -> SimulationTotals:
    return SimulatedUsers(two.task, two, WORLD, rounds=rounds, concurrency=1, wait=0.3).run()


def test_two_mixers_learn_without_an_attack(tmp_path: Path) -> None:
    two = Two(_task(), tmp_path)
    account = play(two)
    assert (account.users, set(two.statuses)) == (40, {201})


GARBAGE: dict[str, Any] = {
    "a seed that does not open": lambda report, width: report.body[:width] + bytes(len(report.body) - width),
    "another's seed": lambda report, width: report.body[:-1] + bytes([report.body[-1] ^ 1]),
    "a share of all bits": lambda report, width: b"\xff" * width + report.body[width:],
    "a large count": lambda report, width: _raised(report.body, width, 2**40),
    "a negative count": lambda report, width: _raised(report.body, width, -(2**40)),
}


def _raised(body: bytes, width: int, by: int) -> bytes:
    numbers = np.frombuffer(body[:width], dtype="<u8") + np.uint64(by % 2**64)
    return numbers.tobytes() + body[width:]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_garbage_burns_one_batch_and_the_next_one_begins(garbage: str, tmp_path: Path) -> None:
    sent: list[bytes] = []

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        if sent:
            return []
        part = inside.plan_of(report.epoch).rounds[0].parts[0]
        sent.append(with_body(report, GARBAGE[garbage](report, 8 * part.length)))
        return [[sent[0]]]

    two = Two(_task(), tmp_path, attack)
    account = play(two, rounds=50)  # ten people more than without the burned batch
    assert two.statuses[:2] == [422, 201]
    assert two.statuses.count(422) == 1
    entries = two.processor.ledger_view()
    assert entries is not None
    assert len(entries["entries"]) == len(two.statuses)  # the burned batch is paid for
    assert account.publications[-1].status == "finished"
    assert account.users == 50


def test_a_stream_with_a_burned_batch_ends(tmp_path: Path) -> None:
    sent: list[bytes] = []

    def attack(inside: Attacked, report: TaggedReport) -> list[list[bytes]]:
        if sent:
            return []
        sent.append(with_body(report, bytes(len(report.body))))
        return [[sent[0]]]

    two = Two(_task("LinTS-CSDP"), tmp_path, attack)
    account = play(two)
    assert two.statuses[-1] == 422
    assert account.publications[-1].status == "exhausted"


def _first_job(tmp_path: Path) -> tuple[Two, bytes]:
    two = Two(_task(), tmp_path)
    play(two, rounds=10)
    two.pump()
    return two, two.jobs[0][0]


def test_a_helper_does_no_job_of_a_hostile_shuffler(tmp_path: Path) -> None:
    two, content = _first_job(tmp_path / "one")
    job, fresh = read_job(content, two.task.id), Two(_task(), tmp_path / "fresh")
    own = fresh.secrets["shuffler"].sign
    first, batch = job.entries[0], job.batch

    def given(entries: Any, plan: Any = batch, key: str = own, epoch: int = 0) -> tuple[int, Any]:
        made = write_job(task_id=two.task.id, batch=plan, round_=0, entries=entries)
        try:
            status, share = fresh.helper.job(made, sign(key, fresh.task.id, "job", made), epoch=epoch, round_=0)
        except JobRefused as refused:
            return refused.status, refused.reason
        return status, loads(share)

    others = list(job.entries[1:])
    assert given(others) == (422, "job")  # a batch that is not whole
    assert given([first, first, *others[1:]]) == (422, "job")  # somebody twice
    assert given([first, *others], key=signing_key()[0]) == (403, "signature")
    assert given([first, *others], epoch=7) == (422, "job")
    fewer = type(batch)(**{**vars(batch), "slots": 1})
    status, share = given([first], plan=fewer)  # fewer people than the mixer's noise is for
    assert (status, share["bad"], share["parts"]) == (201, 1, [])  # devices were told of more: the seed does not open
    fresh = Two(_task(), tmp_path / "again")
    part = batch.rounds[0].parts[0]
    alone = type(part)(**{**vars(part), "mixer": (part.mixer or "").replace('"least":10', '"least":1')})
    assert make_mixer_encoding().loads(alone.mixer or "").least == 1
    quiet = type(batch)(epoch=0, episode=0, slots=1, rounds=(type(batch.rounds[0])(parts=(alone,)),))
    status, share = given([first], plan=quiet)
    assert (status, share["bad"], share["parts"]) == (201, 1, [])  # another plan: the seed does not open


SHARES: dict[str, Any] = {
    "fewer people": {"count": 9},
    "other people": {"checksum": "00" * 32},
    "seeds that did not open": {"bad": 1},
    "no parts": {"parts": []},
    "parts that are none": {"parts": ["{}"]},
    "no JSON": {"parts": ["x"]},
    "a number": {"parts": ["7"]},
    "a list": {"parts": ["[1, 2]"]},
    "not texts": {"parts": [7]},
}


@pytest.mark.parametrize(
    ("what", "count"), [(what, count) for what in SHARES for count in (1, 2) if (what, count) != ("other people", 1)]
)
def test_a_share_that_cannot_be_used_is_burned(what: str, count: int, tmp_path: Path) -> None:
    made = _task(mixers=count)
    two = Two(made, tmp_path) if count == 2 else Attacked(*made, tmp_path)
    genuine = _closed(two)
    before = two.processor.running
    changed = dumps({**loads(genuine), **SHARES[what]})
    taken = two.processor.take(changed, "shuffler", 0, 0)
    assert taken.status == 422
    assert taken.receipt is not None
    assert loads(taken.receipt)["outcome"] == "burned"
    assert two.processor.running > before
    assert two.processor.progress.status == "running"


def _closed(two: Any) -> bytes:
    """Return the shuffler's share of the first batch; the analyzer has the helper's."""
    shares: list[bytes] = []
    two.processor, processor = _Ear(two.processor, shares), two.processor
    with contextlib.suppress(BandannaError):
        play(two, rounds=10)
    two.processor = processor
    return shares[-1]


class _Ear:
    """A processor that accepts shares of the shuffler only."""

    def __init__(self, processor: Any, heard: list[bytes]) -> None:
        self._processor, self._heard = processor, heard

    def take(self, content: bytes, mixer: str, epoch: int, round_: int) -> Any:
        if mixer != "shuffler":
            return self._processor.take(content, mixer, epoch, round_)
        self._heard.append(content)
        raise BandannaError("nobody listens")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)


MALFORMED: dict[str, Any] = {
    "another task": {"task": encode_base64url(bytes(32))},
    "another batch": {"epoch": 1},
    "another round": {"round": 1},
    "another mixer": {"mixer": "helper"},
    "a count of text": {"count": "10"},
    "an invented witness": {"witness": {"number": 7, "chain": "of another history"}},
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_share_of_something_else_is_refused(what: str, tmp_path: Path) -> None:
    two = Attacked(*_task(mixers=1), tmp_path)
    genuine = _closed(two)
    with pytest.raises(BandannaError):
        two.processor.take(dumps({**loads(genuine), **MALFORMED[what]}), "shuffler", 0, 0)
    assert not two.processor.rolled_back
    assert two.processor.take(genuine, "shuffler", 0, 0).status == 201
    assert two.processor.take(genuine, "shuffler", 0, 0).status == 200  # the same again
    with pytest.raises(BandannaError, match="over"):  # the batch's share, with another content
        two.processor.take(dumps({**loads(genuine), "bad": 1}), "shuffler", 0, 0)
    with pytest.raises(BandannaError, match="not awaited"):  # replayed for a later batch
        two.processor.take(dumps({**loads(genuine), "epoch": 2}), "shuffler", 2, 0)
