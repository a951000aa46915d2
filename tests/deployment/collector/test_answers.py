"""What devices are told of their reports."""

from __future__ import annotations

import json

import pytest

from bandanna.deployment.messages.canonical import encode_base64url
from bandanna.deployment.messages.report import MALFORMED, REASONS, ReportVerdict, encode_verdicts


def test_places_of_what_is_kept() -> None:
    assert encode_verdicts([ReportVerdict(3), ReportVerdict(0), ReportVerdict(12)]) == (201, b'{"places":[3,0,12]}')


def test_a_malformed_request_is_answered_400() -> None:
    status, content = encode_verdicts([MALFORMED])
    assert (status, json.loads(content)["reason"]) == (400, "malformed")


@pytest.mark.parametrize("reason", [each for each in REASONS if each != "malformed"])
def test_every_reason_is_told_beside_what_is_kept(reason: str) -> None:
    status, content = encode_verdicts([ReportVerdict(5), ReportVerdict(reason=reason, refusal=b"proof")])
    own = reason in ("length", "range", "copy", "ticket", "incomplete")
    assert status == (422 if own else 409)
    told = {"reason": reason, "error": REASONS[reason], "refusal": encode_base64url(b"proof")}
    assert json.loads(content) == {"reason": reason, "results": [{"place": 5}, told]}
