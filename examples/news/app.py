"""Serve a front page that learns which headline is read, with differential privacy for each click.

One process, one `bandanna.Agent`: it chooses a headline for every reader, and a click is the reward. What leaves the
process - the headlines that others see, the numbers below them - comes from noisy sums alone. See README.md.

    python examples/news/app.py
"""

from __future__ import annotations

import argparse
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from html import escape
from pathlib import Path
from string import Template

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

import bandanna as bd

HERE = Path(__file__).parent
HEADLINES = [
    "Rain is likely on Thursday",
    "Take an umbrella: Thursday will be wet",
    "The wettest Thursday since 1954?",
    "What forecasters will not wear on Thursday",
]
EVERY = 50  # decisions between two saves
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def make_agent() -> bd.Agent:
    """Create the agent: 0.1-zCDP for a reader's click, which may come ten readers later."""
    policy = bd.make("AdaC-UCB", n_arms=len(HEADLINES), horizon=100_000, rho=0.1)
    return bd.Agent(policy, arms=HEADLINES, grace=10)


class FrontPage:
    """Routes around an agent that is saved to a file. Handlers run in threads, which share the agent."""

    def __init__(self, save: Path) -> None:
        self.save = save
        self.agent = bd.Agent.load(save) if save.exists() else make_agent()
        self.agent.save(save)  # from now on every release is in the journal beside it, before anybody sees it

    def front(self, request: Request) -> Response:
        """Show a headline to this reader. A cookie identifies readers, so that none is counted twice."""
        reader = request.cookies.get("reader") or secrets.token_urlsafe(16)
        try:
            made = self.agent.act(user=reader)
            headline, decision = made.arm, f"?decision={made.id}"
            if self.agent.decisions % EVERY == 0:
                self.agent.save(self.save)
        except (bd.errors.BudgetExceeded, bd.errors.HorizonReached):  # served, and not learned from
            headline, decision = self.agent.recommend(), ""
        where = f"/story/{HEADLINES.index(headline)}{decision}"
        response = page("index.html", headline=headline, where=where, rows=self._rows(), promise=self.agent.guarantee)
        response.set_cookie("reader", reader, max_age=365 * 86_400, httponly=True, samesite="lax")
        return response

    def click(self, request: Request) -> Response:
        """Record a click as a reward of 1. A reader without a click counts as 0."""
        with suppress(bd.errors.InvalidArgument):  # a second click, or an id that is not ours
            self.agent.observe(request.query_params.get("decision", ""), 1.0)  # False: too late, and dropped
        return RedirectResponse(request.url.path, status_code=303, headers=HEADERS)

    def story(self, request: Request) -> Response:
        """Show the text of the story."""
        number = request.path_params["number"]
        found = number < len(HEADLINES)
        return page("story.html", 200 if found else 404, headline=HEADLINES[number] if found else "No such story")

    def leave(self, request: Request) -> Response:
        """Delete the cookie, to try the page as another reader."""
        response = RedirectResponse("/", status_code=303, headers=HEADERS)
        response.delete_cookie("reader", httponly=True, samesite="lax")
        return response

    def _rows(self) -> list[tuple[str, str, str]]:
        """Return for each headline the readers of its last episode and their noisy share of clicks."""
        known, std = self.agent.snapshot, self.agent.policy.protocol.std(1)
        return [
            (name, f"{n}", f"{share:.2f} ± {std / n:.2f}" if n else "nothing yet")
            for name, n, share in zip(HEADLINES, known.lengths, known.estimates, strict=True)
        ]


def page(name: str, status: int = 200, rows: Sequence[Sequence[str]] = (), **parts: object) -> HTMLResponse:
    """Fill a template with escaped values and the rows of its table."""
    texts = {key: escape(str(part)) for key, part in parts.items()}
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    texts["rows"] = "\n".join(f"<tr>{row}</tr>" for row in cells)
    return HTMLResponse(Template((HERE / name).read_text("utf-8")).substitute(texts), status, headers=HEADERS)


def build(save: Path) -> Starlette:
    """Return the application, with its agent in the file `save`."""
    front = FrontPage(save)

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        yield
        front.agent.save(save)

    return Starlette(
        routes=[
            Route("/", front.front),
            Route("/story/{number:int}", front.story),
            Route("/story/{number:int}", front.click, methods=["POST"]),
            Route("/leave", front.leave, methods=["POST"]),
            Route("/style.css", lambda _: FileResponse(HERE / "style.css")),
        ],
        lifespan=life,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A front page that learns from clicks, privately.")
    parser.add_argument("--save", type=Path, default=Path("news.agent"), help="the agent's file (default: news.agent)")
    parser.add_argument("--port", type=int, default=8712)
    chosen = parser.parse_args()
    uvicorn.run(build(chosen.save), port=chosen.port, access_log=False)  # who reads what is nobody's business
