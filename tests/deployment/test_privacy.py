"""The mixers keep their guarantees whatever the analyzer announces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.helper import JobRefused
from bandanna.deployment.messages.batch_plan import Batch, Round
from bandanna.deployment.messages.canonical import COLLECTOR, decode_base64url, encode_base64url, loads, prove_unused
from bandanna.deployment.messages.report import FINAL, ZERO, TaggedReport
from bandanna.deployment.registrar import SCHEMA, Registrar
from bandanna.deployment.registrar_service import make_registrar
from bandanna.deployment.task.description import visibility_table
from bandanna.errors import BandannaError
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.storage.database.base import open_database

from .inside import Inside, a_task
from .parties import Users, give, helper, opened, receipt, streamed
from .simulated import case


def smaller(batch: Batch, **others: Any) -> Batch:
    """Return the same stream with levels that are full with every user."""
    (part,) = batch.rounds[0].parts
    mixer = make_mixer_encoding().loads(part.mixer or "")
    levels = tuple(replace(level, least=1) for level in mixer.levels)
    wanted = Round(parts=(replace(part, mixer=make_mixer_encoding().dumps(replace(mixer, levels=levels))),))
    return replace(batch, slots=1, rounds=(wanted,), **others)


def after_one_batch(folder: Path, name: str = "LinTS-CSDP") -> Inside:
    """Return a deployment after one batch: higher levels of a stream hold its users and are not full."""
    policy, env, arms, _ = case(name)
    task, secrets = a_task(policy, arms=arms)
    inside = Inside(task, secrets, folder)
    slots = inside.processor.now.batches[0].slots
    SimulatedUsers(task, inside, env, rounds=slots, concurrency=1, wait=20.0).run()
    return inside


def submit_report(inside: Inside, batch: Batch, own: Any, version: int, body: int) -> tuple[int, str]:
    """Return the collector's answer to a report of equal numbers."""
    content = np.full(batch.rounds[0].parts[0].length, body).astype("<u4").tobytes()
    report = TaggedReport.make(
        own.collector, batch.digest, slot=own.slot, epoch=batch.epoch, round_=0, version=version, body=content
    )
    answer = inside.upload([report.to_bytes()])[0]
    return answer.place, answer.reason


def alone(inside: Inside, batch: Batch) -> None:
    (own,) = inside.tickets(["somebody"], batch.epoch)
    body = bytes(batch.rounds[0].size)
    report = TaggedReport.make(
        own.collector, batch.digest, slot=own.slot, epoch=batch.epoch, round_=0, version=FINAL, body=body
    )
    assert not inside.upload([report.to_bytes()])[0].reason


def test_levels_that_are_not_full_stay_with_the_shuffler(tmp_path: Path) -> None:
    inside = after_one_batch(tmp_path)
    evil = smaller(inside.processor.now.batches[0], epoch=9)
    with inside.collector._database.transaction() as rows:  # the batches between were added, as far as it knows
        rows.execute("insert into batches values (8, 0, 'receipted', 0, null, '{}')")
    inside.collector.plan((evil,), (9, 0))
    alone(inside, evil)
    with pytest.raises(BandannaError, match="another mixer"):
        inside.collector.close_due()
    assert not inside.collector.waiting()


def test_levels_that_are_not_full_stay_with_the_helper(tmp_path: Path) -> None:
    one = helper(opened(tmp_path / "h.db"))
    give(one, Users(streamed(1)))
    one.receipted(1, 0, receipt(1))
    with pytest.raises(JobRefused, match="another mixer"):
        give(one, Users(smaller(streamed(2))))
    assert give(one, Users(streamed(2)))[0] == 201


@pytest.mark.parametrize("used", [0, 1, 2])
def test_a_batch_is_not_announced_twice(used: int, tmp_path: Path) -> None:
    inside = after_one_batch(tmp_path, "LinTS-SDP")
    first, second = inside.processor.now.batches
    assert (first.epoch, second.epoch) == (1, 2)
    inside.collector.plan((), (0, 0))
    with pytest.raises(BandannaError, match="has gone back"):
        inside.collector.plan((replace(first, epoch=used),), (used, 0))
    inside.collector.plan((replace(first, epoch=3),), (3, 0))
    assert inside.collector.progress()["open"] == 3


def test_rows_that_are_public_leave_the_shuffler_without_their_order(tmp_path: Path) -> None:
    policy, env, arms, _ = case("LinTS-SDP-rewards")
    task, secrets = a_task(policy, arms=arms, seed=None)
    inside, seen = Inside(task, secrets, tmp_path), list[bytes]()
    take, slots = inside.processor.take, inside.processor.now.batches[0].slots

    def seeing(share: bytes, *rest: Any) -> Any:
        seen.append(share)
        return take(share, *rest)

    inside.processor.take = seeing  # type: ignore[method-assign,assignment]
    SimulatedUsers(task, inside, env, rounds=slots, concurrency=1, wait=20.0).run()
    (view,) = make_mixer_encoding().loads(loads(seen[0])["parts"][1])
    rows = [row.astype("<i8").tobytes() for row in view.numbers]
    assert len(set(rows)) > 2
    assert rows == sorted(rows)
    assert "final report" in next(each.sees for each in visibility_table(task) if each.role == "analyzer")


def test_a_sealed_report_that_is_none_does_not_stop_a_batch(tmp_path: Path) -> None:
    policy, env, arms, _ = case("LinUCB-SDP-Amp")
    task, secrets = a_task(policy, arms=arms)
    inside = Inside(task, secrets, tmp_path)
    batch, upload = inside.processor.now.batches[0], inside.upload
    nonsense = [bytes(batch.rounds[0].size)]

    def hostile(reports: Any) -> Any:
        honest = TaggedReport.from_bytes(reports[0])
        return upload([inside.tagged(replace(honest, body=nonsense.pop()))] if nonsense else reports)

    inside.upload = hostile  # type: ignore[method-assign]
    SimulatedUsers(task, inside, env, rounds=batch.slots, concurrency=1, wait=20.0).run()
    assert inside.processor.running == (1, 0)


def test_the_answer_to_a_zero_report_does_not_depend_on_final_reports(tmp_path: Path) -> None:
    policy, _, arms, _ = case("LinTS-SDP")
    inside = Inside(*a_task(policy, arms=arms), tmp_path)
    batch = inside.processor.now.batches[0]
    one, other = inside.tickets(["one", "other"], batch.epoch)
    middle = make_mixer_encoding().loads(batch.rounds[0].parts[0].mixer or "").noise.trials // 2
    assert submit_report(inside, batch, one, ZERO, middle) == (0, "")
    assert submit_report(inside, batch, other, ZERO, middle) == (1, "")
    assert submit_report(inside, batch, one, FINAL, middle + 1) == (0, "")
    assert [submit_report(inside, batch, each, ZERO, middle + 2)[1] for each in (one, other)] == ["", ""]
    assert submit_report(inside, batch, one, FINAL, middle + 2)[1] == "other"


def test_a_refusal_by_the_server_of_the_local_model_counts_as_a_participation(tmp_path: Path) -> None:
    for name, again in (("LDP-UCB", "participations"), ("LinTS-SDP", None)):
        policy, _, arms, _ = case(name)
        task, secrets = a_task(policy, arms=arms)
        parts = make_registrar(task, secrets["registrar"])
        db = open_database(str(tmp_path / f"{name}.db"), role="registrar", schema=SCHEMA)
        registrar = Registrar(db, **parts)
        (given,) = registrar.tickets([{"user": "somebody", "epoch": 0}])
        proof = prove_unused(parts["ticket_keys"][COLLECTOR], task.digest, 0, decode_base64url(given["slot"]))
        proofs = [[0, given["slot"], encode_base64url(proof)]]
        (moved,) = registrar.tickets([{"user": "somebody", "epoch": 1, "refused": proofs}])
        assert moved.get("refused") == again


def test_a_stream_with_missing_batches_does_not_continue(tmp_path: Path) -> None:
    inside = after_one_batch(tmp_path)
    (_, second) = inside.processor.now.batches
    with pytest.raises(BandannaError, match="restore the database"):
        inside.collector.plan((second,), (second.epoch, 0))
