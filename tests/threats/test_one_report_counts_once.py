"""Gaussian reports: a copy of somebody's report spoils a batch, and no report moves a total further than noise does."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bandanna as bd
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import ENCAPSULATION, decode_base64url, dumps, encode_base64url, loads, seal
from bandanna.deployment.messages.report import TaggedReport, report_info
from bandanna.device.domain import Ball, Box
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import SecureNoise
from bandanna.errors import InvalidStatistic
from bandanna.privacy.calibration import likely_reach
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.gaussian import LocalGaussian, ShuffleGaussian
from bandanna.protocols.mixers import MixerState
from bandanna.simulation.environments.linear import LinearContextual

from ..deployment.hostile.attacked import Attack, Attacked, with_body
from ..deployment.inside import a_task

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
    """What becomes of a share with these sealed reports, from a hostile shuffler."""
    content = dumps({**share, "parts": [make_mixer_encoding().dumps(sorted(reports))]})
    taken = inside.learner.take(content, "shuffler", 0, 0)
    assert taken.receipt is not None
    return str(loads(taken.receipt)["outcome"])


def sealed(inside: Attacked, numbers: Any) -> bytes:
    """A report of these steps, sealed for the analyzer."""
    plain = np.asarray(numbers, dtype="<i8").tobytes()
    return seal(inside.task.key("seal analyzer"), plain, report_info(inside.task.digest, 0, 0))


@pytest.mark.parametrize("copies", [2, BATCH])
def test_a_copy_of_a_sealed_report_spoils_its_batch(copies: int, tmp_path: Path) -> None:
    """A shuffler that repeats one person's ciphertext gets no state that is learned from it: the batch is burned."""
    inside, share = closed(tmp_path)
    reports = make_mixer_encoding().loads(share["parts"][0])
    before = inside.learner.progress.state
    assert forwarded(inside, share, reports[: BATCH - copies + 1] + reports[:1] * (copies - 1)) == "burned"
    assert inside.learner.progress.state is before


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
        for report in (huge, zero):
            views = _opened(inside, part, mixer, [report, *others])
            found.append(np.sort(views[0].numbers, axis=0))
        assert np.array_equal(*found)
        assert forwarded(inside, share, [huge, *others]) == "released"
        assert first != huge


def _opened(inside: Attacked, part: Any, mixer: Any, reports: list[str]) -> tuple[Any, ...]:
    from bandanna.deployment.analyzer.query_answers import _open_reports as opened

    info = report_info(inside.task.digest, 0, 0)
    return opened(make_mixer_encoding().dumps(sorted(reports)), part, mixer, inside.learner._opener, info, set())


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
