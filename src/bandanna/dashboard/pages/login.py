"""The form for an administrator's token, and what is said when something is not there."""

from __future__ import annotations

from typing import Any

from bandanna.dashboard.markup import h
from bandanna.dashboard.pages.frame import frame

_SAID = {
    404: "There is nothing at this address.",
    401: "That is not the token.",
    403: "That request did not come from this site.",
    502: "The analyzer does not answer, or not what was asked for. Try again later.",
}


def login(document: dict[str, Any]) -> bytes:
    """With what was wrong the last time."""
    return frame(
        "Log in",
        h.h1("Log in"),
        h.p(document["error"], class_="bad", role="alert") if document["error"] else None,
        h.form(
            h.label("Administrator's token", for_="token"),
            h.input(type="password", name="token", id="token", required=True, autocomplete="current-password"),
            h.button("Log in", type="submit"),
            method="post",
            action="/login",
            class_="card",
        ),
        h.p("The token is in the file, or the variable, that the dashboard was started with."),
        h.p("Away from this machine a browser keeps the login only over https."),
        twin="/login.json",
        trail=[("Overview", "/")],
    )  # fmt: skip


def failed(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """An error as a page."""
    words = _SAID.get(document["status"], "That did not work.")
    return frame(
        "Error",
        h.h1("That did not work"),
        h.p(words),
        h.p(document["error"]) if document["error"] else None,
        h.p(h.a("To the overview", href="/")),
        twin="/index.json",
        trail=[("Overview", "/")],
        admin=admin,
    )
