"""Questions to the roles of a deployment: GET, with an end to what is waited for and to what is read."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Protocol

from bandanna.errors import BandannaError, MissingExtra
from bandanna.tasks.finding import is_url
from bandanna.wire.canonical import loads

MOST = 1 << 24  # bytes of an answer
_SECONDS = 10.0


class Silent(BandannaError):
    """Nobody answers, or not what was asked for; to be tried again."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    content: bytes
    headers: dict[str, str]

    def document(self) -> Any:
        """As JSON; Silent if it is not one, or if the status is not 200."""
        if self.status != 200:
            raise Silent(f"it answers {self.status}")
        try:
            return loads(self.content)
        except BandannaError as error:
            raise Silent(f"it answers what is no JSON: {error}") from error


class Asking(Protocol):
    """Whoever can be sent with a question."""

    async def get(self, url: str, *, token: str = "", seconds: float = _SECONDS) -> Answer:
        """What is there; Silent if nobody answers."""

    async def close(self) -> None:
        """No more questions."""


class Web:
    """Over HTTP, without following anybody elsewhere."""

    def __init__(self, *, verify_tls: Any = True, transport: Any = None) -> None:
        try:
            import httpx
        except ImportError as error:  # pragma: no cover - tests have it
            raise MissingExtra("serve", "asking a deployment") from error
        self._httpx = httpx
        self._client = httpx.AsyncClient(
            verify=verify_tls,
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            timeout=_SECONDS,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # nobody's are kept
        )

    async def get(self, url: str, *, token: str = "", seconds: float = _SECONDS) -> Answer:
        """Of at most MOST bytes."""
        headers = {"accept-encoding": "identity"} | ({"authorization": f"Bearer {token}"} if token else {})
        content = bytearray()
        if not is_url(url):
            raise Silent("it is said to be where nothing can be asked")
        try:
            async with (
                asyncio.timeout(seconds),  # of all of it: whoever sends a byte now and then is not waited for
                self._client.stream("GET", url, headers=headers, timeout=seconds) as answer,
            ):
                async for part in answer.aiter_bytes():
                    content += part
                    if len(content) > MOST:
                        raise Silent(f"it sends more than {MOST} bytes")
                told = {name.lower(): value for name, value in answer.headers.items()}
                return Answer(status=answer.status_code, content=bytes(content), headers=told)
        except (self._httpx.HTTPError, self._httpx.InvalidURL, ValueError, TimeoutError) as error:
            raise Silent(f"it cannot be reached ({type(error).__name__})") from error

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()
