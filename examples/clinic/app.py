"""Run the clinic's own server: it serves the page, checks the login, and gets tickets for patients.

It has the registrar's token, which no page may have. It sees who takes part, and nothing of what is reported: the page
acts and reports by itself, with the browser client, to the task's analyzer and shuffler. See docs/tutorials/clinic.md.

    python examples/clinic/app.py --task clinic
"""

from __future__ import annotations

import argparse
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from bandanna.deployment.task.document import Secrets, Task

HERE = Path(__file__).parent
CLIENT = HERE.parents[1] / "clients" / "js" / "dist" / "bandanna.mjs"  # made by `make client`
FILES = {"/": "index.html", "/clinic.js": "clinic.js", "/clinic.css": "clinic.css"}
PATIENT = re.compile(r"[\w .-]{1,40}")


class Clinic:
    """Routes of the host of a task."""

    def __init__(self, folder: Path) -> None:
        self.task = Task.read(folder)
        self._token = Secrets.read(folder, "registrar", self.task).token
        self._staff: set[str] = set()  # cookies of who is signed in
        self.registrar = httpx.AsyncClient(base_url=self.task.url("registrar"), timeout=30, trust_env=False)

    @property
    def policy(self) -> str:
        """Return the Content-Security-Policy: own files and the task's roles only, and nothing inline."""
        roles = {self.task.url(role) for role in self.task.roles if role != "registrar"}
        return (
            f"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self' {' '.join(sorted(roles))}; "
            "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
        )

    async def about(self, request: Request) -> Response:
        """Return the task of the page, its features, and whether a doctor is signed in."""
        content, schema = self.task.content, self.task.content["schema"]
        return JSONResponse(
            {
                "task": self.task.id,
                "analyzer": self.task.url("analyzer"),
                "collector": self.task.collector,
                "promise": content["promise"],
                "columns": [[name, schema["ranges"][name]] for name in schema["names"]],
                "staff": request.cookies.get("staff") in self._staff,
            }
        )

    async def sign_in(self, _: Request) -> Response:
        """Sign in: a stub, which a real clinic replaces by its login."""
        cookie = secrets.token_urlsafe(32)
        self._staff.add(cookie)
        response = Response(status_code=204)
        response.set_cookie("staff", cookie, httponly=True, samesite="strict")
        return response

    async def ticket(self, request: Request) -> Response:
        """Return a ticket for a patient and a batch. The registrar limits the tickets of each patient."""
        if request.cookies.get("staff") not in self._staff:
            return JSONResponse({"refused": "sign in"}, 401)
        try:
            asked = dict(await request.json())
            patient = PATIENT.fullmatch(asked["patient"])
        except (KeyError, TypeError, ValueError):
            patient = None
        if patient is None:
            return JSONResponse({"refused": "patient"}, 400)
        wanted: dict[str, Any] = {"user": f"patient {patient[0]}", "epoch": asked.get("epoch")}
        if asked.get("refused"):
            wanted["refused"] = asked["refused"]  # proofs that earlier tickets were not used
        answer = await self.registrar.post(
            f"/tasks/{self.task.id}/tickets",
            json={"tickets": [wanted]},
            headers={"authorization": f"Bearer {self._token}"},
        )
        found = answer.json()
        return JSONResponse(found["tickets"][0] if "tickets" in found else found, answer.status_code)


def build(folder: Path) -> Starlette:
    """Return the application for the folder of a task."""
    clinic = Clinic(folder)

    async def secure(request: Request, answer: RequestResponseEndpoint) -> Response:
        response = await answer(request)
        response.headers["content-security-policy"] = clinic.policy
        response.headers["cache-control"] = "no-cache"
        response.headers["referrer-policy"] = "no-referrer"
        response.headers["x-content-type-options"] = "nosniff"
        return response

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        yield
        await clinic.registrar.aclose()

    def file(path: Path) -> Any:
        return lambda _: FileResponse(path)

    return Starlette(
        routes=[
            *(Route(path, file(HERE / name)) for path, name in FILES.items()),
            Route("/bandanna.mjs", file(CLIENT)),
            Route("/about", clinic.about),
            Route("/sign-in", clinic.sign_in, methods=["POST"]),
            Route("/tickets", clinic.ticket, methods=["POST"]),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=secure)],
        lifespan=life,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A clinic's page, and the server that gets tickets for its patients.")
    parser.add_argument("--task", type=Path, required=True, help="the folder that `bandanna task create` has made")
    parser.add_argument("--port", type=int, default=8711)
    chosen = parser.parse_args()
    if not CLIENT.exists():
        parser.error("the browser client is not built yet: make client")
    uvicorn.run(build(chosen.task), port=chosen.port, access_log=False)
