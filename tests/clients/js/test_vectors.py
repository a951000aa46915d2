"""With recorded entropy the browser client computes what Python does: actions, messages, documents, sealed seeds."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from bandanna.deployment.messages import batch_plan, canonical
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.messages.canonical import Opener, expand_mask, expand_masks, sealing_key
from bandanna.deployment.messages.report import TaggedReport, is_tagged, sealing_info, split_reports
from bandanna.device.base import to_plain_value
from bandanna.device.samplers import binomial_cdf_bounds

from . import cases
from .cases import Words, answers

pytestmark = pytest.mark.browser

ACTING = {"plain": 400, "ties": 150, "explore": 250, "any arm": 50}  # of each chooser
PROTECTING = 110  # of each device
TELLING = 150  # of each tell
ROUNDING = 1e-15  # of statistics that had to be clipped: sums of squares are added in another order


def test_browsers_choose_the_same_arms_with_the_same_words() -> None:
    words, rng = Words(1), np.random.default_rng(1)
    made = [
        cases.acting(chooser, words, rng, kind, number)
        for chooser in cases.CHOOSERS
        for kind, count in ACTING.items()
        for number in range(count)
    ]
    found = answers([case.given for case in made])
    assert [each["action"] for each in found] == [case.expected["action"] for case in made]
    assert not any(each["left"] for each in found)
    for each, case in zip(found, made, strict=True):
        np.testing.assert_allclose(each["features"], case.expected["features"], rtol=ROUNDING)
    assert len(made) == 5_950


def test_browsers_make_the_same_messages_of_a_statistic() -> None:
    words, rng = Words(2), np.random.default_rng(2)
    made = [
        cases.protecting(device, words, rng, number)
        for domain in cases.DOMAINS
        for device in cases.devices_of(domain)
        for number in range(PROTECTING)
    ]
    found = answers([case.given for case in made])
    assert [each["message"] for each in found] == [case.expected["message"] for case in made]
    assert not any(each["left"] for each in found)
    assert len(made) == 4_180


def test_browsers_make_the_same_reports_of_a_decision() -> None:
    words, rng = Words(3), np.random.default_rng(3)
    made = [
        cases.telling(tell, device, dim, words, rng, number)
        for tell, device, dim in cases.tells()
        for number in range(TELLING)
    ]
    found = answers([case.given for case in made])
    assert not any(each["left"] for each in found)
    for each, case in zip(found, made, strict=True):
        np.testing.assert_allclose(each["values"], case.expected["values"], rtol=ROUNDING, atol=ROUNDING)
        if case.given["device"]["kind"] not in ("Plain", "Sign"):
            assert each["message"] == case.expected["message"]
        else:  # steps as fine as a float's last digits
            ours, theirs = (
                np.array([float(one) for one in some]) for some in (each["message"], case.expected["message"])
            )
            np.testing.assert_allclose(ours, theirs, rtol=ROUNDING, atol=2.0**14)
    assert len(made) == 2_700


def test_a_row_is_features_reward_arm_group_and_1() -> None:
    given = {"what": "tell", "tell": {"kind": "Row"}, "device": None, "features": [0.1, 0.2], "action": 3,
             "reward": 0.7, "words": ""}  # fmt: skip
    (found,) = answers([given])
    assert found["values"] == [0.1, 0.2, 0.7, 3, 0, 1]


def test_bounds_of_domains_are_equal() -> None:
    found = answers([{"what": "domain", "domain": to_plain_value(domain)} for domain in cases.DOMAINS])
    for each, domain in zip(found, cases.DOMAINS, strict=True):
        assert each == {"lower": domain.lower.tolist(), "upper": domain.upper.tolist(), "dim": domain.dim}


@pytest.mark.parametrize(("trials", "chance"), [(1, 0.5), (2, 0.25), (601, 0.5), (100_000, 0.3), (7, 1e-9)])
def test_tables_of_binomials_are_equal(trials: int, chance: float) -> None:
    from fractions import Fraction

    found = answers([{"what": "bounds", "trials": trials, "chance": chance, "bits": bits} for bits in (63, 127)])
    for each, bits in zip(found, (63, 127), strict=True):
        first, low, up = binomial_cdf_bounds(trials, Fraction(chance), bits)
        assert each == {"first": first, "low": [*map(str, low)], "up": [*map(str, up)]}


def test_large_and_undecided_binomials_are_equal() -> None:
    from fractions import Fraction

    from bandanna.device.samplers import PART, draw_binomials

    _, low, up = binomial_cdf_bounds(50, Fraction(0.5), 63)
    words = [up[20] - 1 << 1, 12345, 2**63 + 7, 3, low[10] << 1, 2**64 - 1, 0, 5]
    device = {"kind": "Counts", "domain": {"kind": "Ball", "dim": 2, "bound": 1.0}, "scale": 1.0, "probability": 0.5}
    given, expected = [], []
    for trials in (50, PART + 50, 3 * PART):
        left = iter(words + words)

        def draw(wanted: tuple[int, ...], left: Any = left) -> Any:
            return np.array([next(left) for _ in range(int(np.prod(wanted)))], dtype=np.uint64).reshape(wanted)

        drawn = draw_binomials(trials, Fraction(0.5), 2, draw)
        rest = 16 - len([*left])
        used = np.array([*(words + words)[:rest], 2**64 - 1, 2**64 - 1], dtype="<u8")  # no coin rounds up
        expected.append([str(int(each) + 1) for each in drawn])  # of 0 on a lattice from -1
        given.append({"what": "encode", "device": device | {"trials": trials}, "values": [0.0, 0.0],
                      "words": base64.b64encode(used.tobytes()).decode()})  # fmt: skip
    found = answers(given)
    assert [each["message"] for each in found] == expected
    assert not any(each["left"] for each in found)


def _batch(**parts: Any) -> dict[str, Any]:
    part = {"form": "plain", "dtype": "<u4", "length": 1, "stream": None, "mixer": "{}"}
    arms = parts.get("arms", [0, 2])
    rounds = [{"parts": [{**part, "arm": arm} for arm in arms] or [{**part, "arm": None}]}]
    return {"epoch": 0, "episode": 0, "slots": 6, "rounds": rounds, "arms": arms, "plays": [3] * len(arms),
            "in_turn": True, "clients": False, **parts}  # fmt: skip


def test_browsers_and_python_refuse_the_same_batches() -> None:
    good, free = _batch(), _batch(arms=[])
    parts = good["rounds"][0]["parts"]
    told = [
        good, free, _batch(in_turn=False), {**good, "slots": 7}, {**good, "plays": [1, 5]}, {**good, "plays": [6]},
        {**good, "slots": 5, "plays": [3, 2]}, {**good, "clients": True}, {**free, "clients": True},
        {**good, "rounds": [{"parts": [parts[0], {**parts[1], "arm": 0}]}]}, {**good, "arms": [], "plays": []},
        {**good, "rounds": good["rounds"] * 2}, {**good, "rounds": [{"parts": parts[:1]}]}, {**good, "arms": [2, 0]},
        {**good, "rounds": [{"parts": [parts[0], {**parts[1], "length": 2}]}]}, {**free, "slots": 2},
        {**good, "slots": 8, "plays": [4, 4]}, {**good, "rounds": free["rounds"]}, {**free, "arms": [0, 2]},
    ]  # fmt: skip
    for kind in ("PlaceChooser", "ThompsonChooser"):
        plans = [{"rounds": batch_plan.rounds_digest(good), "users": 3, "devices": [[None]]}]
        device = {"choose": {"kind": kind}, "plans": plans}
        found = answers([{"what": "plan", "device": device, "batch": batch} for batch in told])
        for each, batch in zip(found, told, strict=True):
            plan = batch_plan.rounds_digest(batch) == plans[0]["rounds"] and batch_plan.least_users(batch) >= 3
            fine = plan and bool(batch["arms"]) == (kind == "PlaceChooser")
            assert each == {"users": 3} if fine else each["reason"] == "plan"


def test_places_have_the_same_arms() -> None:
    told = [
        _batch(arms=[4, 1, 7][: len(plays)], plays=plays, slots=sum(plays), in_turn=in_turn)
        for plays in ([2, 2, 2], [1, 3, 2], [5], [3, 1])
        for in_turn in (True, False)
    ]
    found = answers([{"what": "arms", "batch": batch} for batch in told])
    for each, batch in zip(found, told, strict=True):
        assert each["arms"] == Batch.from_dict(batch).arms_at(np.arange(batch["slots"])).tolist()


def test_canonical_documents_are_equal() -> None:
    values: list[Any] = [
        None, True, -3, 2**53 - 1, "", "a\"b\\c/\n\t\x00\x1f\x7f", "é€𝒳\u2028", [], {}, [1, [2, {"b": 1, "a": [None]}]],
        {"b": 1, "B": 2, "aa": 3, "a": "x", "_": 4, "10": 5, "9": 6},
    ]  # fmt: skip
    found = answers([{"what": "canonical", "value": value} for value in values])
    for each, value in zip(found, values, strict=True):
        written = canonical.dumps(value)
        assert each == {"text": written.decode(), "digest": canonical.digest(written)}


def test_browsers_read_values_that_python_wrote() -> None:
    from bandanna.policies.registry import make_encoding

    encoding = make_encoding()
    array = np.array([[1.5, -2.0], [0.1, 3e300]])
    text = encoding.dumps((("a", 1), array, np.array([5, -7]), {"k": 2.5}, True, None, [1, 2]))
    (found, special, kind, *bad) = answers(
        [{"what": "decoded", "text": each} for each in (
            text, encoding.dumps([float("inf"), float("-inf"), 0.5]), encoding.dumps(cases.REPORTS[0]), "[1", '{"x":1}',
            '{"array":"<f8","shape":[2],"data":"AAAA"}', '{"array":"<c8","shape":[0],"data":""}',
        )]
    )  # fmt: skip
    expected = [["a", 1], {"shape": [2, 2], "data": array.ravel().tolist()}, {"shape": [2], "data": ["5", "-7"]},
                [["k", 2.5]], True, None, [1, 2]]  # fmt: skip
    assert found["value"] == json.loads(json.dumps(expected))
    assert special["value"] == [None, None, 0.5]  # which JSON cannot show
    assert kind["value"]["kind"] == "LinearReport"
    assert kind["value"]["features"] == cases.DIM
    assert [each["reason"] for each in bad] == ["document"] * 4


def test_python_opens_every_sealed_seed() -> None:
    rng = np.random.default_rng(4)
    secret, public = sealing_key()
    opener, given = Opener(secret), []
    for _ in range(500):
        content, info = rng.bytes(16), rng.bytes(int(rng.integers(0, 120)))
        given.append([content, info])
    key = base64.b64encode(canonical.decode_base64url(public)).decode()
    packed = [[base64.b64encode(each).decode() for each in pair] for pair in given]
    found = answers([{"what": "seal", "key": key, "content": content, "info": info} for content, info in packed])
    for (content, info), each in zip(given, found, strict=True):
        assert opener.open(base64.b64decode(each["sealed"]), info) == content


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_tagged_reports_are_equal() -> None:
    rng, made = np.random.default_rng(6), []
    for _ in range(200):
        slot, key, plan, body = (rng.bytes(n) for n in (16, 16, 32, int(rng.integers(0, 200))))
        epoch, round_, version, key_id = (int(rng.integers(0, top)) for top in (2**32, 2**16, 2, 256))
        report = TaggedReport.make(
            key, plan, slot=slot, epoch=epoch, round_=round_, version=version, key_id=key_id, body=body
        )
        given = {"what": "report", "slot": {"slot": _b64(slot), "collector": _b64(key), "epoch": epoch},
                 "plan": _b64(plan), "round": round_, "version": version, "key": key_id,
                 "body": _b64(body)}  # fmt: skip
        made.append((report, given))
    found = answers([given for _, given in made])
    assert [base64.b64decode(each["report"]) for each in found] == [report.to_bytes() for report, _ in made]


def test_one_seed_and_the_tickets_key_are_sealed_for_all_parts_of_a_round() -> None:
    secret, public = sealing_key()
    sizes, rounds, (slot, own, helper, task) = (2, 5), 2, (b"s" * 16, b"c" * 16, b"h" * 16, b"t" * 32)
    devices = [{"kind": "Counts", "domain": {"kind": "Ball", "dim": dim, "bound": 1.0}, "scale": 4.0, "trials": 40,
                "probability": 0.5} for dim in sizes]  # fmt: skip
    part = {"arm": None, "form": "shares", "dtype": "<u8", "stream": None, "mixer": "{}"}
    batch = _batch(arms=[], plays=[], rounds=[{"parts": [{**part, "length": dim} for dim in sizes]}] * rounds)
    plan = {"rounds": batch_plan.rounds_digest(batch), "users": 6, "devices": [devices] * rounds}
    device = {"choose": {"kind": "ThompsonChooser"}, "plans": [plan], "tells": [[{"kind": "Row"}] * 2] * rounds}
    keys = {"slot": _b64(slot), "collector": _b64(own), "helper": _b64(helper)}
    (found,) = answers([{"what": "drawn", "device": device, "task": _b64(task), "batch": batch, "slot": keys,
                         "key": _b64(canonical.decode_base64url(public))}])  # fmt: skip
    read, messages, opener = Batch.from_dict(batch), iter(found["messages"]), Opener(secret)
    reports = split_reports(base64.b64decode(found["request"]), rounds)
    for report, asked in zip(reports, read.rounds, strict=True):
        assert is_tagged(report, own, read.digest)
        assert (report[0], report[2], report[4:6]) == (slot, 0, (0, 3))
        opened = opener.open(asked.sealed(report[6]), sealing_info(task, read, report[3], slot))
        assert opened[16:] == helper
        shares = [own.numbers([body])[0] for own, body in zip(asked.own, asked.cut(report[6]), strict=True)]
        hidden = expand_masks(opened[:16], asked.lengths)
        sums = [(share + mask).tolist() for share, mask in zip(shares, hidden, strict=True)]
        assert sums == [[int(number) for number in next(messages)] for _ in sizes]
    assert [len(report[6]) for report in reports] == [each.size for each in read.rounds] == [8 * 7 + 80] * rounds


def test_share_plus_mask_is_the_counts_modulo_2_to_the_64() -> None:
    rng = np.random.default_rng(5)
    given = []
    for length in [*range(1, 40)] * 5:
        counts = rng.integers(0, 2**40, length)
        given.append((counts, rng.bytes(16)))
    cases_ = [{"what": "share", "message": [*map(str, counts.tolist())], "seed": base64.b64encode(seed).decode()}
              for counts, seed in given]  # fmt: skip
    for (counts, seed), each in zip(given, answers(cases_), strict=True):
        share = np.array([int(one) for one in each["share"]], dtype=np.int64)
        assert (share + expand_mask(seed, len(counts)) == counts).all()
        assert base64.b64decode(each["bytes"]) == share.astype("<u8").tobytes()


@pytest.mark.parametrize("kind", ["Noisy", "Direction", "Something"])
def test_devices_that_browsers_cannot_run_are_refused(kind: str) -> None:
    device = {"kind": kind, "domain": {"kind": "Ball", "dim": 2, "bound": 1.0}, "std": 1.0, "grid": 0.1}
    (found,) = answers([{"what": "encode", "device": device, "values": [0.0, 0.0], "words": ""}])
    assert found["reason"] == "device"
    assert "Python" in found["error"]
