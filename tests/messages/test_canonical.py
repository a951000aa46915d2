"""Tickets: keys of slots, made from keys that two parties agree upon and nobody sends."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from pathlib import Path

import certifi
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandanna.deployment.messages.canonical import (
    COLLECTOR,
    HELPER,
    TicketKeys,
    agreed_key,
    encode_base64url,
    encode_label,
    make_tls_context,
    prove_unused,
    sealing_key,
    ticket_key_info,
)
from bandanna.deployment.messages.report import FINAL, HEADER, TaggedReport, is_tagged, split_reports
from bandanna.errors import Unreadable

KEYS = st.binary(min_size=32, max_size=32)
SLOTS = st.binary(min_size=16, max_size=16)


def _hmac(key: bytes, purpose: str, *parts: bytes) -> bytes:
    """By the standard library: purpose padded to 32 bytes, then fields of fixed widths."""
    message = f"bandanna/3 {purpose}".encode().ljust(32, b"\0") + b"".join(parts)
    return hmac.new(key, message, hashlib.sha256).digest()[:16]


@given(
    KEYS,
    KEYS,
    st.sampled_from([COLLECTOR, HELPER]),
    st.lists(st.tuples(st.integers(0, 2**32 - 1), SLOTS), max_size=6),
)
def test_keys_of_slots_are_hmacs(key: bytes, task: bytes, verifier: str, some: list[tuple[int, bytes]]) -> None:
    tickets = TicketKeys(key, task, verifier)
    for epoch, slot in [*some, *reversed(some)]:
        expected = _hmac(key, f"ticket {verifier}", task, epoch.to_bytes(4, "little"), slot)
        assert tickets.key(epoch, slot) == expected
    for epoch, slot in some:
        assert prove_unused(key, task, epoch, slot) == _hmac(key, "refused", task, epoch.to_bytes(4, "little"), slot)


@given(SLOTS, KEYS, SLOTS, st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.binary(max_size=40))
def test_the_tag_of_a_report_is_an_hmac_of_everything_else(
    key: bytes, plan: bytes, slot: bytes, epoch: int, round_: int, body: bytes
) -> None:
    made = TaggedReport.make(key, plan, slot=slot, epoch=epoch, round_=round_, version=FINAL, key_id=7, body=body)
    content = made.to_bytes()
    assert made.tag == _hmac(key, "tag", content[:16], content[32:], plan)
    assert TaggedReport.from_bytes(content) == made
    (fields,) = split_reports(len(content).to_bytes(4, "little") + content, 1)
    assert is_tagged(fields, key, plan)
    for place in range(len(content)):
        changed = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
        (fields,) = split_reports(len(content).to_bytes(4, "little") + changed, 1)
        assert not is_tagged(fields, key, plan)
    assert not is_tagged(
        split_reports(len(content).to_bytes(4, "little") + content, 1)[0], key, bytes([plan[0] ^ 1]) + plan[1:]
    )
    assert len(content) == HEADER + len(body)


def test_purposes_are_as_long_as_each_other() -> None:
    purposes = ("pair", "tag", "refused", "seed", "report", f"ticket {COLLECTOR}", f"ticket {HELPER}")
    assert {len(encode_label(purpose)) for purpose in purposes} == {32}
    assert len({encode_label(purpose) for purpose in purposes}) == len(purposes)


def test_another_half_task_or_purpose_agrees_on_another_key() -> None:
    (one, one_public), (two, two_public), (three, _) = sealing_key(), sealing_key(), sealing_key()
    task, info = bytes(32), ticket_key_info(COLLECTOR)
    key = agreed_key(one, two_public, salt=task, info=info)
    assert key == agreed_key(two, one_public, salt=task, info=info)
    others = [
        agreed_key(three, two_public, salt=task, info=info),
        agreed_key(one, two_public, salt=b"t" * 32, info=info),
        agreed_key(one, two_public, salt=task, info=ticket_key_info(HELPER)),
    ]
    assert len({key, *others}) == 4


@pytest.mark.parametrize("point", [0, 1, 2**255 - 19])
def test_a_public_half_of_small_order_is_refused(point: int) -> None:
    with pytest.raises(Unreadable, match="for agreement"):
        agreed_key(
            sealing_key()[0],
            encode_base64url(point.to_bytes(32, "little")),
            salt=bytes(32),
            info=ticket_key_info(HELPER),
        )


# Certificates are read once, and are those that httpx would read


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


def test_they_are_httpxs_own_and_read_once() -> None:
    known, usual = make_tls_context(), httpx.create_ssl_context()
    assert make_tls_context() is known
    assert (
        (known.verify_mode, known.check_hostname)
        == (ssl.CERT_REQUIRED, True)
        == (usual.verify_mode, usual.check_hostname)
    )
    assert known.cert_store_stats() == usual.cert_store_stats()
    assert known.minimum_version == usual.minimum_version


def test_those_of_the_environment_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, _, _ = Path(certifi.where()).read_text().partition("-----END CERTIFICATE-----")
    (tmp_path / "one.pem").write_text(one + "-----END CERTIFICATE-----\n")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "one.pem"))
    assert make_tls_context(environment=True).cert_store_stats()["x509"] == 1
    assert make_tls_context().cert_store_stats()["x509"] > 1
    monkeypatch.delenv("SSL_CERT_FILE")
    assert make_tls_context(environment=True).cert_store_stats()["x509"] > 1
