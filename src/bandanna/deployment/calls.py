"""Calls between roles, with the certificates that they trust."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from bandanna.deployment.messages.canonical import make_tls_context
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra, raise_without_context

# Calls


class RoleUnreachable(BandannaError):
    """Another role does not answer, or answers what is no answer; to be tried again."""


class RoleConnection:
    """A connection to another role."""

    def __init__(self, url: str, *, seconds: float = 30.0, verify_tls: Any = True) -> None:
        try:
            import httpx
        except ImportError as error:  # pragma: no cover - tests have it
            raise MissingExtra("serve", "calling another role") from error
        self._httpx = httpx
        self._url = url
        known = make_tls_context() if verify_tls is True else verify_tls
        self._client = httpx.Client(base_url=url, timeout=seconds, verify=known, trust_env=False)

    def ask(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers; Unreachable if there is no answer, or one that asks to come again (5xx)."""
        try:
            answer = self._client.request(method, path, content=content or None, headers=headers)
        except self._httpx.HTTPError as error:
            raise_without_context(
                RoleUnreachable(f"no answer from {self._url} ({type(error).__name__})")
            )  # it holds the request
        if answer.status_code >= 500:
            raise RoleUnreachable(f"{self._url} answers {answer.status_code}, to be tried again")
        return answer.status_code, answer.content, dict(answer.headers)

    def publication(self, task_id: str, after: int | None = None, wait: float = 0.0) -> SignedPublication | None:
        """The analyzer's publication in force; None if it is not newer than `after`."""
        query = "" if after is None else f"?after={after}&wait={wait:g}"
        status, content, headers = self.ask("GET", f"/tasks/{task_id}/snapshot{query}")
        if status == 204:
            return None
        if status != 200:
            raise RoleUnreachable(f"no publication: {status}")
        return SignedPublication.of(content, headers)

    def close(self) -> None:
        """Hang up."""
        self._client.close()


# Certificates


def trusted_certificates(trust: Path) -> ssl.SSLContext:
    """Those of a file, beside the system's."""
    try:
        return ssl.create_default_context(cafile=str(trust))
    except OSError as error:  # an SSLError is one
        raise InvalidArgument("trust", trust, "a readable file of PEM certificates") from error
