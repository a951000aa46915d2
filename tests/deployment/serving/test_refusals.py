"""What clients are told."""

from __future__ import annotations

import pytest

from bandanna.deployment.http.limits import parse_json_body
from bandanna.deployment.http.requests import ProgramError, RequestRefused, locate_error, mark_errors_safe, to_refusal
from bandanna.errors import BandannaError, InvalidArgument


class StorageError(BandannaError):
    pass


class DiskFull(StorageError):
    pass


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (RequestRefused(409, "stale"), 409, "stale"),
        (InvalidArgument("x", "secret", "other"), 400, "invalid"),
        (DiskFull("secret"), 503, "storage"),
        (ProgramError("x", "secret", "other"), 500, "internal"),
        (ValueError("secret"), 500, "internal"),
    ],
)
def test_every_error_has_its_status_and_shows_no_message(error: Exception, status: int, reason: str) -> None:
    refused = to_refusal(error)
    assert (refused.status, refused.reason) == (status, reason)
    assert "secret" not in str(refused.document)
    assert (refused.retry_after is not None) == (status == 503)


def test_a_refusal_has_reason_text_and_details() -> None:
    assert RequestRefused(409, "stale", epoch=3).document == {"error": "conflict", "reason": "stale", "epoch": 3}
    assert RequestRefused(409, "stale", error="too old").document == {"error": "too old", "reason": "stale"}
    assert RequestRefused(503, "busy", retry_after=0.2).headers == [(b"retry-after", b"1")]
    assert RequestRefused(401, "token").headers == [(b"www-authenticate", b"Bearer")]


@pytest.mark.parametrize("reason", ["", "Bad", "two words", "bad\r\nx: 1", "x" * 41, "1st", None])
def test_reasons_are_words_of_the_program(reason: str) -> None:
    with pytest.raises(ProgramError, match="reason"):
        RequestRefused(400, reason)


def test_a_refusal_that_http_does_not_know_is_refused() -> None:
    for status in (200, 399, 600, 499):
        with pytest.raises(ProgramError, match="status"):
            RequestRefused(status, "x")
    for seconds in (-1.0, float("inf"), float("nan")):
        with pytest.raises(ProgramError, match="retry_after"):
            RequestRefused(503, "x", retry_after=seconds)


def test_only_what_is_marked_is_sent() -> None:
    with pytest.raises(RequestRefused) as caught, mark_errors_safe(422, "range"):
        raise InvalidArgument("epoch", 7, "at most 3")
    assert caught.value.document == {"error": "epoch must be at most 3, got 7", "reason": "range"}
    with pytest.raises(ProgramError), mark_errors_safe():
        RequestRefused(200, "x")


@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"a":1,"a":2}', b"NaN", b"[1e999999", b"\xff", b"[" * 100_000, b"1" * 5000]
)
def test_json_of_clients_is_strict(body: bytes) -> None:
    with pytest.raises(RequestRefused) as caught:
        parse_json_body(body)
    assert (caught.value.status, caught.value.reason) == (400, "json")


def test_a_place_is_a_file_and_a_line() -> None:
    with pytest.raises(ValueError, match="secret") as caught:
        raise ValueError("secret")
    name, _, line = locate_error(caught.value).partition(":")
    assert name == "test_refusals.py"
    assert int(line) > 0
    assert locate_error(ValueError()) == "unknown"
