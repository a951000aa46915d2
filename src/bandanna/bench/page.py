"""The page of the documentation, from a report: docs/benchmarks.md is written by this and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from bandanna.bench.report import OURS, SLOW, Report, Row

AXES = ("rounds", "horizon", "arms", "dim", "seeds", "users")
FLOOR = (  # in a sentence
    "A floor is what cannot be done without: drawing a round's arms and rewards where they are fresh, finding the "
    "largest score where they stay and in a single decision, answering a request by a bare server. It learns nothing "
    "and protects nobody."
)
PROSE = {
    "simulation": (
        "## Every algorithm, many seeds at once\n\nCPU time for one round of one seed in `bd.simulate`, the most "
        "memory the whole simulation held, and how its time grows with rounds, arms (K), features (d), seeds, and "
        "users asked in a phase: exponents fitted to three sizes. Elsewhere a round is a user. What does not grow "
        "makes exponents smaller. `fixed`, `sphere`: arms that stay; `fresh`, `contexts`, `logistic`: arms drawn "
        "anew in every round; `people`: one action for a population."
    ),
    "agent": (
        "## One decision at a time\n\n`Agent.act` and `observe` for one stream, seeded noise. Growth of the same "
        "number of decisions with the policy's horizon, arms and features (0: it does not matter), and of all "
        "decisions with the number of different users who came (1: each costs the same); from two sizes."
    ),
    "peer": (
        "## Beside others\n\nThe nearest equivalent of each library, without privacy, in the same run. Theirs have a "
        "model for every arm; our LinUCB has one model for all arms. Many seeds: theirs run one after another, ours "
        "side by side. Above 1 in the last column: slower than ours."
    ),
    "serving": "## Serving\n\nCPU time of the server for one record over a kept connection.",
    "floor": (
        "## Floors\n\nWhat cannot be done without. A simulation's floor is drawing its arms and rewards where arms "
        "are fresh, and one product of arms and a vector with its argmax where they stay; the floor of drawing and of "
        "argmax is copying as many numbers in memory."
    ),
}


def short(number: float) -> str:
    """Three digits, and never a power of ten."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}" if number >= 1e-4 else f"{number:.5f}"


def page_of(report: Report) -> str:
    """Markdown."""
    parts = [_head(report), *(_part(report, part) for part in PROSE), _slow(report)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(report: Report) -> str:
    machine = report.machine
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    absent = "".join(f"\n* not installed: {each.name} (extra `{each.extra}`)" for each in report.absent)
    return (
        "# How fast\n\n"
        "This page is made from the report [benchmarks.json](benchmarks.json), and not by hand. To measure again:\n\n"
        "```text\nOMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 bandanna bench --json --page docs/benchmarks.md "
        "> docs/benchmarks.json\n```\n\n"
        "All times are CPU times: another machine has others, and the ratios are what to trust. "
        f"{FLOOR} Every row was measured beside its floor, and *times its floor* says how many times longer it takes "
        f"(in bold where it is one of ours, and above {SLOW:g}), all in {_runs(report)}. "
        "`bandanna bench --compare docs/benchmarks.json` says what has become "
        "slower or faster since, as ratios to floors. A part, an algorithm or a peer:\n\n"
        "```text\nbandanna bench --only LinUCB --only 'river LinUCB'\n```\n\n"
        f"* {machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GB, "
        f"{machine['system']}, Python {machine['python']}, {machine['blas']}\n"
        f"* {libraries}\n"
        f"* load of the machine at the end: {machine['load']}{absent}"
    )


def _runs(report: Report) -> str:
    took = f"took {report.cpu_seconds:.0f} CPU seconds"
    if report.runs == 1:
        return f"one run, which {took}"
    return f"{report.runs} runs of some parts each, which {took}"


def _rows(report: Report, part: str) -> list[Row]:
    """Of a section: other servers stand beside ours, not beside other bandits."""
    if part == "serving":
        return [row for row in report.rows if row.unit == "request" and row.part != "floor"]
    return [row for row in report.rows if row.part == part and (part != "peer" or row.unit != "request")]


def _part(report: Report, part: str) -> str:
    rows = _rows(report, part)
    if not rows:
        return ""
    axes = [axis for axis in AXES if any(axis in row.growth for row in rows)]
    remembers = any(row.memory is not None for row in rows)
    columns = ["", "world" if part in ("simulation", "agent", "floor") else "how", "CPU us", "a CPU second"]
    columns += ["MB"] * remembers + [f"{axis}^" for axis in axes] + ["times its floor"]
    columns += ["times ours"] * (part == "peer")
    table = [_cells(row, axes, remembers=remembers) for row in rows]
    return f"{PROSE[part]}\n\n{_sizes(rows)}{_table(columns, table)}"


def _sizes(rows: Sequence[Row]) -> str:
    """What is the same in all of them, if anything is."""
    same = set(rows[0].sizes.items()).intersection(*(row.sizes.items() for row in rows))
    told = ", ".join(f"{size:,} {name}" for name, size in rows[0].sizes.items() if (name, size) in same)
    return f"All with {told}.\n\n" if told else ""


def _cells(row: Row, axes: Sequence[str], *, remembers: bool) -> list[str]:
    cells = [row.name, row.world, short(1e6 * row.cpu_seconds), f"{1 / row.cpu_seconds:,.0f}"]
    if remembers:
        cells.append("" if row.memory is None else f"{row.memory / 1e6:.2g}")
    cells += [f"{row.growth[axis]:.2f}" if axis in row.growth else "" for axis in axes]
    ratio = "" if row.ratio is None else short(row.ratio)
    cells.append(f"**{ratio}**" if row.slow else ratio)
    if row.ours is not None:
        cells.append(short(row.cpu_seconds / row.ours[1]))
    return cells


def _slow(report: Report) -> str:
    ours = sum(row.ratio is not None for row in report.rows if row.part in OURS)
    lines = [
        f"| {row.part} | {row.name} | {row.world} | {short(row.ratio or 0)} | {row.floor[0] if row.floor else ''} |"
        for row in sorted(report.slow, key=lambda row: -(row.ratio or 0))
    ]
    head = (
        f"## Slower than {SLOW:g} times its floor\n\n{len(lines)} of {ours} rows. A floor learns nothing, protects "
        "nobody and does no bookkeeping: this is a list of where time could be found, the longest way first."
    )
    table = "\n\n| part | name | world | times | its floor |\n| --- | --- | --- | ---: | --- |\n" + "\n".join(lines)
    return head + (table if lines else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---", "---", *("---:" for _ in columns[2:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, rule, *rows))
