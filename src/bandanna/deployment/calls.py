"""Calls of other roles, and the certificates that they need."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from bandanna.deployment.messages.canonical import make_tls_context
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra, raise_without_context


class RoleUnreachable(BandannaError):
    """Another role does not answer, or its answer is invalid."""


class RoleConnection:
    """A connection to another role, with its trusted certificates (True: the system's)."""

    def __init__(self, url: str, *, seconds: float = 30.0, verify_tls: Any = True) -> None:
        try:
            import httpx
        except ImportError as error:  # pragma: no cover - tests have it
            raise MissingExtra("serve", "calling another role") from error
        self._httpx = httpx
        self._url = url
        context = make_tls_context() if verify_tls is True else verify_tls
        self._client = httpx.Client(base_url=url, timeout=seconds, verify=context, trust_env=False)

    def request(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the answer; raise RoleUnreachable for no answer or a status of 5xx."""
        try:
            answer = self._client.request(method, path, content=content or None, headers=headers)
        except self._httpx.HTTPError as error:
            text = f"no answer from {self._url} ({type(error).__name__})"
            raise_without_context(RoleUnreachable(text))  # the other error holds the request
        if answer.status_code >= 500:
            raise RoleUnreachable(f"{self._url} answers {answer.status_code}: try again later")
        return answer.status_code, answer.content, dict(answer.headers)

    def publication(self, task_id: str, after: int | None = None, wait: float = 0.0) -> SignedPublication | None:
        """Return the analyzer's newest publication; None if its number is still `after` after `wait` seconds."""
        query = "" if after is None else f"?after={after}&wait={wait:g}"
        status, content, headers = self.request("GET", f"/tasks/{task_id}/snapshot{query}")
        if status == 204:
            return None
        if status != 200:
            raise RoleUnreachable(f"{self._url} answers {status} instead of a publication")
        return SignedPublication.of(content, headers)

    def close(self) -> None:
        self._client.close()


def trusted_certificates(trust: Path) -> ssl.SSLContext:
    """Return the certificates of a file and the system's."""
    try:
        return ssl.create_default_context(cafile=str(trust))
    except OSError as error:  # an SSLError is one
        raise InvalidArgument("trust", trust, "a readable file of PEM certificates") from error
