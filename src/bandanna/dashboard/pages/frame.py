"""What every page has: where one is, what there is, and what to read first; and parts that pages share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.dashboard.markup import Element, Node, h, page
from bandanna.dashboard.words import number

STATES = {
    "well": ("well", "good"),
    "unwell": ("not well", "bad"),
    "silent": ("does not answer", "bad"),
    "untold": ("does not tell us", "quiet"),
    "unasked": ("not asked yet", "quiet"),
    "unnamed": ("not asked: you have not named it", "quiet"),
    "running": ("running", "good"),
    "finished": ("finished", "quiet"),
    "exhausted": ("exhausted", "bad"),
}


def frame(
    title: str,
    *main: Node,
    twin: str,
    trail: Sequence[tuple[str, str]] = (),
    events: str | None = None,
    admin: bool | None = None,
) -> bytes:
    """A page. `trail`: the pages above it; `events`: where news of it come from; `admin`: None if there is no login."""
    return page(
        h.html(
            h.head(
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title(f"{title} \u2013 Bandanna" if trail else "Bandanna"),
                h.link(rel="icon", type="image/svg+xml", href="/assets/icon.svg"),
                h.link(rel="stylesheet", href="/assets/style.css"),
                h.link(rel="alternate", type="application/json", href=twin),
                h.script(src="/assets/live.js", defer=True) if events else None,
            ),
            h.body(
                h.a("Skip to the content", href="#main", class_="skip"),
                h.header(
                    h.nav(_trail(title, trail), aria_label="Where you are"),
                    _login(admin),
                ),
                h.main(*main, id="main", tabindex="-1", data_events=events),
                h.footer(
                    h.p(
                        "Only released and public numbers, unless a part says that it is for administrators. ",
                        h.a("This page as JSON", href=twin),
                    ),
                    h.p("", id="news", role="status", aria_live="polite"),
                ),
            ),
            lang="en",
        )
    )


def _trail(title: str, trail: Sequence[tuple[str, str]]) -> Element:
    above = [h.li(h.a(words, href=address)) for words, address in trail]
    return h.ol(above, h.li(title, aria_current="page"))


def _login(admin: bool | None) -> Node:
    if admin is None:
        return None
    if not admin:
        return h.a("Log in", href="/login")
    return h.form(h.button("Log out", type="submit"), method="post", action="/logout")


def part(name: str, title: str, *inside: Node, class_: str = "card") -> Element:
    """A section that is replaced when there is news."""
    heading = f"{name}-heading"
    return h.section(h.h2(title, id=heading), *inside, id=name, class_=class_, aria_labelledby=heading, data_live=True)


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[Node]], *, left: Sequence[int] = (0,)
) -> Element:
    """With a header for every column, and for every row in its first cell; numbers to the right."""

    def cell(place: int, value: Node) -> Element:
        kind = None if place in left else "number"
        return h.th(value, scope="row", class_=kind) if place == 0 else h.td(value, class_=kind)

    head = [h.th(each, scope="col", class_=None if place in left else "number") for place, each in enumerate(columns)]
    body = [h.tr([cell(place, value) for place, value in enumerate(row)]) for row in rows]
    return h.div(
        h.table(h.caption(caption), h.thead(h.tr(head)), h.tbody(body)),
        class_="wide",
        role="group",
        aria_label=caption,
        tabindex="0",
    )


def numbers(name: str, summary: str, inside: Node) -> Element:
    """The table behind a chart."""
    return h.details(h.summary(summary), inside, id=name)


def pill(state: Any) -> Element:
    """A state as a word with a colour; the word says it all."""
    words, kind = STATES.get(state, (str(state), "quiet")) if isinstance(state, str) else ("unknown", "quiet")
    return h.span(words, class_=f"pill {kind}")


def fact(name: str, value: Node, note: Node = None) -> Element:
    """One of the numbers at the top."""
    return h.div(h.dt(name), h.dd(value, h.small(note) if note else None))


def warnings(found: Sequence[str], trouble: str) -> Node:
    """What stands against what is shown."""
    shown = [h.li(each) for each in found]
    if trouble:
        shown.insert(
            0, h.li(f"No news from the analyzer: {trouble}. It is asked again and again; what is below is old.")
        )
    if not shown:
        return h.div(id="warnings", data_live=True)
    return h.div(h.ul(shown), id="warnings", class_="warning", role="alert", data_live=True)


def short(text: Any) -> Element:
    """The beginning of a hash."""
    return h.code(str(text)[:12] + "\u2026", class_="hash")


def counted(count: Any, noun: str) -> str:
    """With its plural."""
    return f"{number(count)} {noun}{'s' * (count != 1)}"
