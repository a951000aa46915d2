"""The pages of the dashboard as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bandanna.deployment.dashboard import charts
from bandanna.deployment.dashboard.charts import ChartLine, ChartRow
from bandanna.deployment.dashboard.markup import Element, Node, format_band, format_number, h, render_document

# Parts of every page


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


def render_page(
    title: str,
    *main: Node,
    twin: str,
    trail: Sequence[tuple[str, str]] = (),
    events: str | None = None,
    admin: bool | None = None,
) -> bytes:
    """A page. `trail`: the pages above it; `events`: where news of it come from; `admin`: None if there is no login."""
    return render_document(
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


def render_section(name: str, title: str, *inside: Node, class_: str = "card") -> Element:
    """A section that is replaced when there is news."""
    heading = f"{name}-heading"
    return h.section(h.h2(title, id=heading), *inside, id=name, class_=class_, aria_labelledby=heading, data_live=True)


def render_table(
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


def render_chart_table(name: str, summary: str, inside: Node) -> Element:
    """The table behind a chart."""
    return h.details(h.summary(summary), inside, id=name)


def render_state(state: Any) -> Element:
    """A state as a word with a colour; the word says it all."""
    words, kind = STATES.get(state, (str(state), "quiet")) if isinstance(state, str) else ("unknown", "quiet")
    return h.span(words, class_=f"pill {kind}")


def render_fact(name: str, value: Node, note: Node = None) -> Element:
    """One of the numbers at the top."""
    return h.div(h.dt(name), h.dd(value, h.small(note) if note else None))


def render_warnings(found: Sequence[str], trouble: str) -> Node:
    """What stands against what is shown."""
    shown = [h.li(each) for each in found]
    if trouble:
        shown.insert(
            0, h.li(f"No news from the analyzer: {trouble}. It is asked again and again; what is below is old.")
        )
    if not shown:
        return h.div(id="warnings", data_live=True)
    return h.div(h.ul(shown), id="warnings", class_="warning", role="alert", data_live=True)


def shorten_hash(text: Any) -> Element:
    """The beginning of a hash."""
    return h.code(str(text)[:12] + "\u2026", class_="hash")


def format_count(count: Any, noun: str) -> str:
    """With its plural."""
    return f"{format_number(count)} {noun}{'s' * (count != 1)}"


# Releases


_SHOWN = 12  # rows of the table behind a curve
_UNRELEASED = "How often each arm was played is not released."


def choose_x_axis(document: dict[str, Any]) -> str:
    """What a chart has from left to right: users, where all points know how many there were; else publications."""
    return "users" if all(each["users"] is not None for each in document["series"]) else "publication"


def make_curve(
    document: dict[str, Any], value: str, half: str | None = None
) -> list[tuple[float, float, float | None]]:
    """A number over time."""
    key = choose_x_axis(document)
    return [
        (float(each[key]), each[value], each[half] if half else None)
        for each in document["series"]
        if each[value] is not None
    ]


def _over_time(document: dict[str, Any], name: str, caption: str, value: str) -> Node:
    """The table behind a curve: some of its points, all of which are in the page's twin."""
    known = [each for each in document["series"] if each[value] is not None]
    step = max(1, -(-len(known) // _SHOWN))
    rows = [
        (
            str(each["publication"]),
            format_number(each["users"]),
            format_band({"value": each[value], "half": each[f"{value}_half"]}),
        )
        for each in known[::-step][::-1]
    ]
    return render_chart_table(
        f"{name}-numbers", "The numbers", render_table(caption, ("publication", "users", caption), rows)
    )


def render_reward(document: dict[str, Any]) -> Node:
    """Mean reward so far, with the noise of the releases as a band."""
    found, drawn = document["estimates"]["reward"], make_curve(document, "mean", "mean_half")
    if found["mean"] is None or not drawn:
        return render_section("reward", "Rewards", h.p(found["note"]))
    title, words = "Mean reward of a user so far", f"Mean reward of a user so far: {format_band(found['mean'])}."
    return render_section(
        "reward",
        "Rewards",
        charts.draw_lines("reward-chart", title, words, [ChartLine(points=drawn)], across=choose_x_axis(document)),
        h.p(words, " ", found["note"], " Band: two standard deviations of the noise."),
        _over_time(document, "reward", "mean reward so far", "mean"),
    )


def render_regret(document: dict[str, Any]) -> Node:
    """An estimate where there is one, and what was simulated before the task began."""
    found, drawn = document["estimates"]["regret"], make_curve(document, "regret", "regret_half")
    forecast = h.p(h.strong("Simulated before it began: "), document["forecast"])
    if found["sum"] is None or not drawn:
        return render_section("regret", "Regret", h.p(found["note"]), forecast)
    title, words = "Estimated regret so far", f"Estimated regret of all users so far: {format_band(found['sum'], 3)}."
    return render_section(
        "regret",
        "Regret",
        charts.draw_lines(
            "regret-chart", title, words, [ChartLine(points=drawn, kind="two")], across=choose_x_axis(document)
        ),
        h.p(words, " ", found["note"]),
        _over_time(document, "regret", "estimated regret", "regret"),
        forecast,
    )


def render_theta(document: dict[str, Any]) -> Node:
    """Parameters or means, and arms that are left."""
    found, left = document["estimates"]["theta"], document["estimates"]["left"]
    kept = None if left is None else h.p(f"Arms that may still be the best: {', '.join(left)}.")
    if not found["rows"]:
        return render_section("theta", "What is learned", kept or h.p("No parameter is published."))
    drawn = _named("theta", "Estimates", "Each estimate, and how far it may be off.", found, "parameter", bars=False)
    return render_section("theta", "What is learned", drawn, kept)


def render_plays(document: dict[str, Any]) -> Node:
    """How often each arm was played, as far as that is released or public."""
    found = document["estimates"]["plays"]
    if not found["rows"]:
        return render_section("plays", "Arms played", h.p(_UNRELEASED))
    title = "How often each arm was played"
    return render_section(
        "plays", "Arms played", _named("plays", title, "A bar for each arm.", found, "arm", bars=True)
    )


def _named(name: str, title: str, summary: str, found: dict[str, Any], column: str, *, bars: bool) -> Node:
    rows = [each for each in found["rows"] if each["value"] is not None]
    drawn = [ChartRow(name=each["name"], value=each["value"], half=each["half"]) for each in rows]
    listed = render_table(title, (column, "estimate"), [(each["name"], format_band(each)) for each in rows])
    return [
        charts.draw_rows(f"{name}-chart", title, summary, drawn, bars=bars),
        h.p(found["note"]),
        h.p(f"{format_number(found['more'])} more are not shown.") if found["more"] else None,
        render_chart_table(f"{name}-numbers", "The numbers", listed),
    ]


# The list of tasks


def render_index(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The list of tasks."""
    main = h.h1("Bandanna"), _tasks(document["tasks"])
    return render_page("Overview", *main, twin="/index.json", events="/events", admin=admin)


def _tasks(tasks: list[dict[str, Any]]) -> Node:
    inside: Node = [_task(each) for each in tasks] or h.p("No task is watched.")
    return h.section(
        h.h2("Tasks", id="tasks-heading"), h.div(inside, class_="list"), id="tasks", aria_labelledby="tasks-heading",
        data_live=True,
    )  # fmt: skip


def _task(task: dict[str, Any]) -> Node:
    title, batch = task["title"], task["batch"]
    heading = h.h3(
        h.a(title, href=f"/tasks/{task['id']}") if task["id"] else title,
        [" ", render_state(task["status"])] if task["status"] else None,
    )
    if task["trouble"]:
        words = f"No news from the analyzer: {task['trouble']}. It is asked again."
        return h.article(heading, h.p(words, class_="bad"))
    sick = [each["role"] for each in task["roles"] if each["state"] in ("unwell", "silent")]
    said = "Nothing is published yet."
    if task["publication"] is not None:
        said = f"Publication {format_number(task['publication'])}"
        said += f", epsilon = {task['spent']:.4g} spent." if isinstance(task["spent"], int | float) else "."
    return h.article(
        heading,
        h.p(said),
        h.p(_filling(batch)) if batch else None,
        h.p(f"Not well: {', '.join(sick)}.", class_="bad") if sick else None,
        h.p(f"Warnings: {task['warnings']}; see its page.", class_="bad") if task["warnings"] else None,
    )


def _filling(batch: dict[str, Any]) -> str:
    if batch["slots"] is None:
        return f"Batch {batch['epoch']} has {format_number(batch['wanted'])} slots; how many are open is not told."
    return (
        f"Batch {batch['epoch']}: {format_number(batch['slots'])} of {format_number(batch['wanted'])} slots are open."
    )


# Login and errors


_SAID = {
    404: "There is nothing at this address.",
    401: "That is not the token.",
    403: "That request did not come from this site.",
    502: "The analyzer does not answer, or not what was asked for. Try again later.",
}


def render_login(document: dict[str, Any]) -> bytes:
    """With what was wrong the last time."""
    return render_page(
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


def render_error(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """An error as a page."""
    words = _SAID.get(document["status"], "That did not work.")
    return render_page(
        "Error",
        h.h1("That did not work"),
        h.p(words),
        h.p(document["error"]) if document["error"] else None,
        h.p(h.a("To the overview", href="/")),
        twin="/index.json",
        trail=[("Overview", "/")],
        admin=admin,
    )


# The promise


def render_privacy(document: dict[str, Any]) -> Node:
    """The ledger against the budget, and the guarantee in sentences."""
    found = document["privacy"]
    spent, limit = found["spent"], found["epsilon"]
    told = isinstance(spent, int | float)
    words = f"The budget of one person: {found['budget']}."
    if told:
        words += f" Spent by whoever took part most, at most: epsilon = {spent:.4g}."
    often = "1 batch" if found["participations"] == 1 else f"{format_number(found['participations'])} batches"
    entries = "" if found["entries"] is None else f" Entries so far: {format_number(found['entries'])}."
    sight = [(each["role"], each["sees"], each["left"]) for each in found["sight"]]
    return render_section(
        "privacy",
        "Privacy",
        h.p(words, id="spent-words"),
        h.progress(f"{spent:.4g} of {limit:g}", max=limit, value=min(spent, limit), aria_labelledby="spent-words")
        if told and limit
        else None,
        h.p(f"A person is in at most {often}, and the ledger adds up what those cost.{entries}"),
        _spent(document, words, limit),
        h.h3("What is promised"),
        h.p(found["promise"] or "The document's own words are not shown: they could not be checked."),
        render_table("Who sees what", ("role", "sees", "left against it"), sight, left=(0, 1, 2)) if sight else None,
        _prices(found["prices"]),
    )


def _spent(document: dict[str, Any], words: str, limit: float | None) -> Node:
    drawn = make_curve(document, "spent")
    if len(drawn) < 2:
        return None
    lines = [ChartLine(points=drawn, kind="three")]
    if limit:
        ends = drawn[0][0], drawn[-1][0]
        lines.append(ChartLine(points=[(end, limit, None) for end in ends], kind="limit"))
    return [
        charts.draw_lines("spent-chart", "Epsilon spent, and the budget", words, lines, across=choose_x_axis(document)),
        h.p("Line: epsilon spent; dashed: the budget.", class_="quiet") if limit else None,
    ]


def _prices(prices: list[dict[str, Any]]) -> Node:
    if not prices:
        return None
    rows = [(h.code(each["event"]), format_number(each["entries"])) for each in prices]
    return render_chart_table(
        "prices", "What was paid for", render_table("Prices in the ledger", ("event", "times"), rows)
    )


def render_tree(document: dict[str, Any]) -> Node:
    """Of concurrent shufflers."""
    found = document["tree"]
    if found is None:
        return None
    full = [f"{format_number(each['full'])} of {format_number(each['batches'])}" for each in found["levels"]]
    levels = list(zip(found["levels"], full, strict=True))
    words = "; ".join(f"level {each['level']}: {many} batches are full" for each, many in levels)
    rows = [
        (str(each["level"]), format_number(each["users"]), many, f"{100 * each['filled']:.0f} %")
        for each, many in levels
    ]
    title = "Batches of each level inside the one above that fills"
    return render_section(
        "tree",
        "Tree of batches",
        charts.draw_tree("tree-chart", title, words, found["levels"]),
        h.p("Every user is in one batch of each level; those inside the batch above that fills are drawn."),
        h.p("Dark: full, and released. Lighter: it fills. Empty: to come."),
        render_table("Levels", ("level", "users in a batch", "full", "the next is filled by"), rows),
    )


# History


def render_releases(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """Newest first."""
    root = f"/tasks/{document['id']}"
    rows = [
        (
            h.a(str(each["number"]), href=f"{root}/releases/{each['number']}"),
            each["outcome"],
            str(each["epoch"]),
            str(each["round"]),
            format_number(each["spent"]),
            each["status"],
            shorten_hash(each["chain"]),
        )
        for each in document["rows"]
    ]
    columns = ("publication", "outcome", "batch", "round", "epsilon spent", "status", "chain")
    meanings = [h.li(h.strong(name), f": {words}.") for name, words in document["meanings"].items()]
    return render_page(
        f"Releases of {document['title']}",
        h.h1("Releases"),
        render_section(
            "lines",
            "Publications",
            render_table("Publications, newest first", columns, rows, left=(0, 1, 5, 6)),
            _pages(document, root),
        ),
        render_section("meanings", "What became of a batch", h.ul(meanings)),
        twin=f"{root}/releases.json?page={document['page']}",
        trail=[("Overview", "/"), (document["title"], root)],
        admin=admin,
    )


def _pages(document: dict[str, Any], root: str) -> Node:
    page, pages = document["page"], document["pages"]
    newer = h.a("Newer", href=f"{root}/releases?page={page - 1}", rel="prev") if page > 1 else None
    older = h.a("Older", href=f"{root}/releases?page={page + 1}", rel="next") if page < pages else None
    return h.nav(
        newer,
        h.span(f"Page {format_number(page)} of {format_number(pages)}"),
        older,
        aria_label="Pages",
        class_="pages",
    )


def render_release(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """What was released, with its noise."""
    root, own = f"/tasks/{document['id']}", document["own"]
    place, newest = document["publication"], document["newest"]
    spent = f"{document['spent']:.4g}" if isinstance(document["spent"], int | float) else "\u2013"
    around = h.nav(
        h.a("The one before", href=f"{root}/releases/{place - 1}", rel="prev") if place > 0 else None,
        h.span(f"Publication {format_number(place)}"),
        h.a("The next", href=f"{root}/releases/{place + 1}", rel="next") if place < newest else None,
        aria_label="Publications",
        class_="pages",
    )
    return render_page(
        f"Publication {place} of {document['title']}",
        h.h1(f"Publication {place}"),
        around,
        render_section(
            "said",
            "What it says",
            h.dl(
                render_fact("Status", render_state(document["status"])),
                render_fact("Awaited batch", f"{document['epoch']}, round {document['round']}"),
                render_fact("Epsilon spent", spent, f"of {document['budget']}"),
                render_fact("Users in releases", format_number(document["users"])),
                class_="facts",
            ),
            h.p("Signed by the task's analyzer, and checked. Chain: ", h.code(document["chain"])),
            h.p("It follows upon: ", h.code(document["previous"])) if document["previous"] else None,
        ),
        render_section("own", "What the batch before it has added", *_own(own, document)),
        render_section("sums", "Sums so far", _sums(document)),
        render_section("theta", "Estimates", *_listed(document["theta"], "parameter", "Estimates", document["left"])),
        render_section(
            "plays", "Arms played", *_listed(document["plays"], "arm", "How often each arm was played", None)
        ),
        twin=f"{root}/releases/{place}.json",
        trail=[("Overview", "/"), (document["title"], root), ("Releases", f"{root}/releases")],
        admin=admin,
    )


def _own(own: dict[str, Any] | None, document: dict[str, Any]) -> list[Node]:
    if own is None:
        return [h.p("Not known: nothing was released before it, or it does not follow from what is published.")]
    words = f"{format_number(own['users'])} users."
    if own["reward"] is None:
        return [h.p(words, " ", document["reward"]["note"])]
    return [
        h.p(words, f" Sum of their rewards: {format_band(own['reward'])}, off by two standard deviations of the noise.")
    ]


def _sums(document: dict[str, Any]) -> Node:
    rows = [
        (name, format_band(found["sum"], 5), found["note"])
        for name, found in (("rewards", document["reward"]), ("estimated regret", document["regret"]))
    ]
    return render_table("Sums so far", ("of", "sum", "how it is known"), rows, left=(0, 2))


def _listed(found: dict[str, Any], column: str, title: str, left: list[str] | None) -> list[Node]:
    kept = None if left is None else h.p(f"Arms that may still be the best: {', '.join(left)}.")
    if not found["rows"]:
        return [kept or h.p("None are published.")]
    rows = [(each["name"], format_band(each)) for each in found["rows"]]
    return [h.p(found["note"]), render_table(title, (column, "estimate"), rows), kept]


# A task


_UNNAMED = (
    "The task was read from its analyzer, and addresses in it are no reason to call there: name those that you know"
    " (--ask ADDRESS), or give the task's own directory."
)


def render_task(document: dict[str, Any], *, admin: bool | None) -> bytes:
    """The page."""
    root = f"/tasks/{document['id']}"
    return render_page(
        document["title"],
        h.h1(document["title"]),
        _about(document),
        render_warnings(document["warnings"], document["trouble"]),
        _now(document, root),
        h.div(
            render_reward(document),
            render_regret(document),
            render_theta(document),
            render_plays(document),
            class_="grid",
        ),
        render_privacy(document),
        render_tree(document),
        _roles(document),
        _inside(document),
        twin=f"{root}.json",
        trail=[("Overview", "/")],
        events=f"{root}/events",
        admin=admin,
    )


def _about(document: dict[str, Any]) -> Node:
    now = document["now"]
    return h.p(
        f"{document['algorithm']} \u00b7 {document['trust']} model \u00b7 task ",
        shorten_hash(document["id"]),
        " ",
        render_state(now["status"]) if now else None,
        [" ", h.span("a test: protects nobody", class_="pill bad")] if document["test"] else None,
        id="about",
        data_live=True,
    )


def _now(document: dict[str, Any], root: str) -> Node:
    now, released = document["now"], document["released"]
    if now is None:
        return render_section("now", "Now", h.p("Nothing was read from the analyzer yet."))
    mean, lost = document["estimates"]["reward"]["mean"], document["estimates"]["regret"]["sum"]
    spent = f"{now['spent']:.4g}" if isinstance(now["spent"], int | float) else "\u2013"
    users = None if released["horizon"] is None else f"of {format_number(released['horizon'])}"
    return render_section(
        "now",
        "Now",
        h.p(document["sentence"]),
        _batch(document["batch"]),
        h.dl(
            render_fact("Publication", str(now["publication"]), f"seen here since {document['since']}"),
            render_fact("Users in releases", format_number(released["users"]), users),
            render_fact("Mean reward", format_band(mean), None if mean else "not released"),
            render_fact("Estimated regret", format_band(lost, 3), None if lost else "not estimated"),
            render_fact("Epsilon spent", spent, f"of {document['privacy']['budget']}"),
            class_="facts",
        ),
        h.p(h.a("All releases", href=f"{root}/releases")),
        h.ul([h.li(each) for each in document["notes"]], class_="notes") if document["notes"] else None,
    )


def _batch(batch: dict[str, Any] | None) -> Node:
    if batch is None:
        return h.p("No batch is awaited.")
    name = f"Batch {batch['epoch']}"
    if batch["rounds"] > 1:
        name += f", round {batch['round']} of {batch['rounds']} (counted from 0)"
    rule = f" It {batch['closes']}."
    if batch["closes_at"]:
        rule = f" It {batch['closes']}, at {batch['closes_at']} by its collector's clock."
    following = batch["next"]
    after = (
        f" Batch {following['epoch']}, of {format_count(following['wanted'], 'slot')}, follows." if following else ""
    )
    wanted = format_count(batch["wanted"], "slot")
    if batch["slots"] is None:
        return h.p(f"{name} has {wanted}; how many are open is not told.{rule}{after}")
    filled = min(batch["slots"], batch["wanted"])
    return [
        h.p(f"{name}: {format_number(batch['slots'])} of {wanted} are open.{rule}{after}", id="batch-words"),
        h.progress(f"{filled} of {wanted}", max=batch["wanted"], value=filled, aria_labelledby="batch-words"),
    ]


def _roles(document: dict[str, Any]) -> Node:
    rows = [(each["name"], render_state(each["state"]), h.code(each["url"])) for each in document["roles"]]
    shown = render_table("Health of the roles", ("role", "state", "address"), rows, left=(0, 1, 2))
    unnamed = any(each["state"] == "unnamed" for each in document["roles"])
    return render_section("roles", "Roles", shown, h.p(_UNNAMED) if unnamed else None)


def _inside(document: dict[str, Any]) -> Node:
    """What is not public."""
    found = document.get("admin")
    if found is None:
        return None
    counts = [
        (each["role"], each["metric"], each["label"] or "\u2013", format_number(each["value"], 7))
        for each in found["counts"]
    ]
    statuses = [(each["role"], h.code(each["status"])) for each in found["statuses"]]
    told = h.p("Tokens of roles were not given: a task's folder with its secrets has them.")
    if statuses:
        told = render_table("Status of the roles", ("role", "status"), statuses, left=(0, 1))
    return render_section(
        "inside",
        "For administrators",
        h.p("Not public: counts of requests and answers, and why some were refused."),
        render_table(
            "Refusals and answers, by reason", ("role", "what", "reason or result", "times"), counts, left=(0, 1, 2)
        ),
        told,
    )
