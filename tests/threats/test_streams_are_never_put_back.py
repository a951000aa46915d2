"""A shuffler and an analyzer that want several sums of one level from a helper, and a shuffler that is told lies."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bandanna.deployment.calls import RoleUnreachable
from bandanna.deployment.helper import JobRefused
from bandanna.deployment.messages.canonical import dumps, loads, sign, signing_key
from bandanna.errors import BandannaError, Unreadable
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.storage.database.base import open_database

from ..deployment.faults.people import People
from ..deployment.faults.test_faults import begun, finish
from ..deployment.faults.town import GRACE, Town
from ..deployment.parties import SCHEMA, Users, give, helper, receipt, streamed


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
        """As the town's own, but for answers to shares."""
        if role == "analyzer" and "/shares/" in path:
            return self._status, self._said, {}
        return self._route(role, method, path, content, headers)


def lies(town: Town) -> list[tuple[int, bytes]]:
    """Answers without a receipt of this round that the analyzer has signed."""
    published = town.alive["analyzer"]["learner"].published
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
    learner = town.alive["analyzer"]["learner"]
    assert learner.take(share.encode(), "shuffler", 0, 0).status == 201
    town.step("shuffler")
    with town.alive["shuffler"]["rows"].reading() as rows:
        ((state, kept),) = rows.execute("select state, receipt from batches where epoch = 0")
        assert (state, loads(kept)["outcome"]) == ("receipted", "over")
        assert rows.execute("select count(*) from reports") == [(0,)]
    assert isinstance(people, People)
