"""Who may see what is not public: whoever has the token, or a cookie that was given for it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from bandanna.errors import InvalidArgument

COOKIE = "bandanna-session"
LEAST = 16  # letters of a token
_HOURS = 12
_SESSIONS = 64
_LOCAL = ("127.0.0.1", "localhost", "::1")


class Admin:
    """A token, compared in constant time, and the sessions that it has opened: random names, kept in memory."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        if len(token) < LEAST or not token.isascii() or not token.isprintable() or " " in token:
            raise InvalidArgument("token", "***", f"at least {LEAST} letters, digits and signs, without spaces")
        self.token = token
        self._digest, self._clock = _digest(token), clock
        self._sessions: dict[bytes, float] = {}  # digests of names, and when they end

    def agrees(self, token: str) -> bool:
        """Whether that is the token."""
        return hmac.compare_digest(_digest(token), self._digest)

    def admits(self, headers: Mapping[str, str]) -> bool:
        """By a cookie, or by `Authorization: Bearer`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.agrees(token.strip())
        name = _cookie(headers.get("cookie", ""))
        ends = self._sessions.get(_digest(name)) if name else None
        return ends is not None and self._clock() < ends

    def open(self, headers: Mapping[str, str], *, https: bool) -> str:
        """A new session: the header that gives its cookie."""
        now = self._clock()
        self._sessions = {name: ends for name, ends in self._sessions.items() if now < ends}
        while len(self._sessions) >= _SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        name = secrets.token_urlsafe(32)
        self._sessions[_digest(name)] = now + 3600 * _HOURS
        return _header(name, 3600 * _HOURS, headers, https=https)

    def close(self, headers: Mapping[str, str], *, https: bool) -> str:
        """End the session that was shown; the header that takes its cookie away."""
        self._sessions.pop(_digest(_cookie(headers.get("cookie", ""))), None)
        return _header("", 0, headers, https=https)


def token_in(body: bytes) -> str:
    """Of a form; "" where there is none."""
    try:
        fields = parse_qs(body.decode("ascii"), max_num_fields=4, encoding="utf-8", errors="replace")
    except (UnicodeDecodeError, ValueError):
        return ""
    return fields.get("token", [""])[0]


def own_form(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent from this very site, as browsers say of every form.

    They do so by Sec-Fetch-Site where a connection is safe, and by Origin elsewhere, which may be "null" beside it.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def _header(name: str, seconds: int, headers: Mapping[str, str], *, https: bool) -> str:
    """Only browsers on this machine may keep it without https."""
    secure = "; Secure" if https or not _local(headers.get("host", "")) else ""
    return f"{COOKIE}={name}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _local(host: str) -> bool:
    try:
        return (urlsplit(f"//{host}").hostname or "") in _LOCAL
    except ValueError:
        return False


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header[:4096]).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", errors="replace")).digest()
