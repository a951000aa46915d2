"""Certificates are read once, and are those that httpx would read."""

from __future__ import annotations

import ssl
from pathlib import Path

import certifi
import httpx
import pytest

from bandanna.deployment.messages.canonical import make_tls_context


@pytest.fixture(autouse=True)
def _no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine says."""
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
