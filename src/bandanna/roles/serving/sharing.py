"""Which answers a page of another origin may read (CORS): those of routes that are public, and no others.

A client in a browser runs on its host's page, so analyzer, collector and helper are other origins to it. `*` lets every
page read what everybody may fetch anyway, and never with cookies or other credentials; nothing here has any.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bandanna.roles.serving.refusals import Mistake
from bandanna.roles.serving.routing import Headers, Target, guarded

if TYPE_CHECKING:
    from starlette.responses import Response

_ANYBODY = (b"access-control-allow-origin", b"*")
SHARED: Headers = [_ANYBODY, (b"access-control-expose-headers", b"etag, retry-after, signature, witness")]
_KEPT = 86_400  # seconds for which a browser need not ask again


def shared(targets: Sequence[Target], public: Collection[str]) -> list[Target]:
    """The targets, those of `public` ("GET /task") marked so, and the answers to browsers that ask before they send."""
    names = {f"{target.method} {target.template}" for target in targets}
    for name in public:
        if name not in names or guarded(name.partition(" ")[2]):
            raise Mistake("public", name, "routes of the role, none of them its administrator's")
    marked = [replace(target, public=f"{target.method} {target.template}" in public) for target in targets]
    methods: dict[str, list[str]] = {}
    for target in marked:
        if target.public:
            methods.setdefault(target.template, []).append(target.method)
    return [*marked, *(_asked(template, found) for template, found in methods.items())]


def _asked(template: str, methods: Sequence[str]) -> Target:
    handle = _preflight(", ".join(sorted(methods)))
    return Target(method="OPTIONS", template=template, handle=handle, raw=False, light=True, public=True)


def _preflight(methods: str) -> Callable[..., Awaitable[Response]]:
    from starlette.responses import Response

    response = Response(
        status_code=204,
        headers={
            "access-control-allow-methods": methods,
            "access-control-allow-headers": "content-type",
            "access-control-max-age": str(_KEPT),
        },
    )

    async def preflight(_: object) -> Response:
        return response

    return preflight
