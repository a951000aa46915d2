"""Who sees what, in a real deployment: files, logs and traffic of every role are searched for what devices know.

What is found where it may be shows that the search would find it where it may not.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.http.metrics import FORBIDDEN_KEYS
from bandanna.deployment.messages.canonical import SEED, Opener, decode_base64url, expand_mask
from bandanna.deployment.messages.report import TaggedReport, report_info, sealing_info

from .recorded_deployment import SOURCE, Deployed, seen, seen_numbers

MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "central": ("LinTS-JDP", {}),
    "local": ("LinTS-LDP", {}),
    "shuffle": ("LinTS-SDP", {"mixers": 1}),
    "two mixers": ("LinTS-SDP", {"mixers": 2}),
    "gaussian": ("LinUCB-SDP-Amp", {"mixers": 1}),
    "concurrent": ("LinTS-CSDP", {"mixers": 1}),
}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Deployed]:
    """Return a function that runs a deployment of a model once."""

    @cache
    def played(model: str) -> Deployed:
        algorithm, rules = MODELS[model]
        made = Deployed(tmp_path_factory.mktemp("deployed"), algorithm, rounds=20, **rules)
        account = made.run()
        assert account.users >= 16
        assert not account.refused
        assert made.before
        return made

    return played


Deployments = Callable[[str], Deployed]
LONG = [pytest.param(model, marks=pytest.mark.full) for model in ("local", "concurrent", "gaussian")]
every_model = pytest.mark.parametrize("model", ["central", "shuffle", "two mixers", *LONG])
shuffled = pytest.mark.parametrize("model", ["shuffle", "two mixers", *LONG[1:]])


@every_model
def test_logs_name_nobody(model: str, deployed: Deployments) -> None:
    found = deployed(model)
    for role in found.task.roles:
        lines, log = found.lines(role), found.log(role)
        assert {"ready", "stopping"} <= {line["event"] for line in lines}
        known = found.known
        for values in (known.users, known.slots, known.keys, known.tags, known.bodies):
            assert seen(values, log) == 0
        assert SOURCE.encode() not in log
        assert not FORBIDDEN_KEYS & {key for line in lines for key in line}


@every_model
def test_no_role_stores_addresses(model: str, deployed: Deployments) -> None:
    found = deployed(model)
    for role in found.task.roles:
        for where in (found.before[role], found.after[role], found.received(role)):
            assert SOURCE.encode() not in where
            assert seen([bytes(map(int, f"{SOURCE}{n}".split("."))) for n in range(4)], where) == 0


@every_model
def test_the_registrar_sees_users_and_no_reports(model: str, deployed: Deployments) -> None:
    found, known = deployed(model), deployed(model).known
    received = found.received("registrar")
    assert seen(known.users, received) == len(known.users)  # the host's login says who
    for where in (received, found.before["registrar"], found.after["registrar"]):
        assert seen(known.bodies, where) == 0
    for stored in (found.before["registrar"], found.after["registrar"]):
        assert seen(known.users, stored) == 0
    assert seen(known.slots, found.after["registrar"]) == len(known.slots)  # so that nobody has two


@every_model
def test_the_collector_deletes_reports_slots_and_tickets_with_the_receipt(model: str, deployed: Deployments) -> None:
    found, known = deployed(model), deployed(model).known
    role = found.task.collector
    received, before, after = found.received(role), found.before[role], found.after[role]
    for sent in (known.bodies, known.slots):
        assert seen(sent, received) == len(sent)  # it was sent them,
        assert seen(sent, before) >= 5  # it has kept them while the batch was open,
        assert seen(sent, after) == 0  # and has none of them
    assert seen(known.tags, received) == len(known.tags)
    assert seen(known.tags, before + after) == 0  # what was checked is not kept
    assert seen(known.keys, received + before + after) == 0  # and keys of tickets are sent to nobody
    assert seen(known.users, received + before + after) == 0
    assert found.tables(role)["reports"] == 0


@shuffled
def test_the_analyzer_sees_no_single_user(model: str, deployed: Deployments) -> None:
    found, known = deployed(model), deployed(model).known
    for where in (found.received("analyzer"), found.before["analyzer"], found.after["analyzer"]):
        assert seen(known.users + known.slots + known.keys + known.tags, where) == 0
        if model != "gaussian":
            assert seen(known.bodies, where) == 0
            assert seen_numbers(_plain(found), where) == 0
    assert b"/shares/shuffler" in found.received("analyzer")  # totals, it has


def _plain(found: Deployed) -> list[np.ndarray[Any, Any]]:
    keys = found.secrets
    made = []
    for report in found.known.reports:
        width = 8 * _length(found) if found.task.mixers == 2 else len(report.body)
        numbers = np.frombuffer(report.body[:width], dtype="<u8" if found.task.mixers == 2 else "<u4").astype(np.int64)
        if found.task.mixers == 2:
            numbers = numbers + expand_mask(_seed(found, report, Opener(keys["helper"].seal)), len(numbers))
        made.append(numbers)
    return made


def _length(found: Deployed) -> int:
    return found.plans[0].rounds[0].parts[0].length


def _seed(found: Deployed, report: TaggedReport, opener: Opener) -> bytes:
    plan = next(each for each in found.plans if each.epoch == report.epoch)
    sealed = report.body[8 * _length(found) :]
    return opener.open(sealed, sealing_info(found.task.digest, plan, report.round, report.slot))[:SEED]


def test_one_of_two_mixers_has_uniform_numbers(deployed: Deployments) -> None:
    """Bits of shares are fair coins: 5 standard deviations, false alarms below 1e-6."""
    found = deployed("two mixers")
    opener, width = Opener(found.secrets["helper"].seal), 8 * _length(found)
    seeds, counts = [_seed(found, each, opener) for each in found.known.reports], _plain(found)
    for where in (found.received("shuffler"), found.before["shuffler"], found.after["shuffler"], found.log("shuffler")):
        assert seen(seeds, where) == 0
        assert seen_numbers(counts, where) == 0
    shares = b"".join(each.body[:width] for each in found.known.reports)
    assert seen([each.body[:width] for each in found.known.reports], found.before["shuffler"]) >= 5
    bits = np.unpackbits(np.frombuffer(shares, dtype=np.uint8))
    assert abs(bits.mean() - 0.5) < 5 * 0.5 / np.sqrt(bits.size)
    assert max(int(each.max()) for each in counts) < 2**20  # which, as counts, they would not be
    assert min(int(each.min()) for each in counts) >= 0


def test_the_other_of_two_mixers_has_seeds_and_no_shares(deployed: Deployments) -> None:
    found, known = deployed("two mixers"), deployed("two mixers").known
    width = 8 * _length(found)
    shares, sealed = [each.body[:width] for each in known.reports], [each.body[width:] for each in known.reports]
    received = found.received("helper")
    assert seen(sealed, received) == len(sealed)
    assert seen(known.slots, received) == len(known.slots)
    for where in (received, found.before["helper"], found.after["helper"]):
        assert seen(shares, where) == 0
        assert seen_numbers(_plain(found), where) == 0
        assert seen(known.users, where) == 0
    assert seen(known.slots + known.keys + known.tags + sealed, found.after["helper"]) == 0
    assert found.tables("helper")["slots"] == 0


def test_a_sealed_report_is_read_by_the_analyzer_alone(deployed: Deployments) -> None:
    found, known = deployed("gaussian"), deployed("gaussian").known
    opener = Opener(found.secrets["analyzer"].seal)
    plain = [opener.open(r.body, report_info(found.task.digest, r.epoch, r.round)) for r in known.reports]
    for where in (found.received("shuffler"), found.before["shuffler"], found.after["shuffler"]):
        assert seen(plain, where) == 0
    received = found.received("analyzer")
    assert seen(known.bodies, received) == len(known.bodies)  # permuted reports, it may see
    for epoch in {each.epoch for each in known.reports}:
        own = [each.body for each in known.reports if each.epoch == epoch]
        order = sorted(own, key=lambda body: min(received.find(trace) for trace in _texts(body, received)))
        assert order == sorted(own)


def _texts(body: bytes, where: bytes) -> list[bytes]:
    text = base64.urlsafe_b64encode(body).rstrip(b"=")
    assert decode_base64url(text.decode()) == body
    return [text] if text in where else [b""]
