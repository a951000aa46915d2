"""Whose certificates are believed, where nobody says otherwise: read once, not for every connection."""

from __future__ import annotations

import os
import ssl
from functools import cache


def authorities(*, environment: bool = False) -> ssl.SSLContext:
    """httpx's own; with `environment`, those that SSL_CERT_FILE or SSL_CERT_DIR names.

    Without a context every client of httpx reads all of them anew: 50 ms, of a call that takes one.
    """
    return _read(*(os.environ.get(name) if environment else None for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx

    return httpx.create_ssl_context(trust_env=file is not None or folder is not None)
