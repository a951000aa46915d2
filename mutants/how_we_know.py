"""Write docs/appendix/evidence.md: every guarantee, its theorem, its exact test, the audit's bound, a mutant that dies.

    python -m mutants.how_we_know        audits everything of the catalogue, and writes the page

What is named here is looked up: a test that is gone, a mutant without its place, or a name of the catalogue without
evidence raises LookupError. tests/mutants holds the page to the catalogue.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from bandanna.audit.gallery import EPSILON, GALLERY_DELTA, known_truths, run_gallery
from bandanna.audit.mechanisms import MECHANISMS, PROTOCOLS
from bandanna.audit.policies import policy_target
from bandanna.audit.targets import AuditRow
from bandanna.policies.algorithm import ALGORITHMS
from bandanna.privacy.guarantee import format_rounded_up
from mutants.sites import mutants

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "appendix" / "evidence.md"
EVIDENCE = Path(__file__).with_name("evidence.toml")


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What an audit has found, as the page prints it."""

    claimed: str
    delta: str
    found: str
    share: str
    how: str
    through: str = ""  # of an algorithm: protocols, whose theorem, test and mutant are its own

    @classmethod
    def of(cls, row: AuditRow) -> Figures:
        """Of a row of the gallery."""
        if row.claim.epsilon == float("inf"):
            return cls(claimed="nothing", delta="", found="", share="", how="")
        through = ""
        if row.target in ALGORITHMS:
            through = ", ".join(policy_target(row.target, epsilon=EPSILON, delta=GALLERY_DELTA).through)
        how = "exact" if row.confidence == 1 else f"{row.trials:,} runs"
        return cls(
            claimed=format_rounded_up(row.claim.epsilon),
            delta=f"{row.claim.delta:.3g}",
            found=f"{row.lower_bound:.3g}",
            share=f"{row.reached:.3f}",
            how=how,
            through=through,
        )

    @property
    def cells(self) -> str:
        """Of a table."""
        return " | ".join((self.claimed, self.delta, self.found, self.share, self.how))


def page(figures: dict[str, Figures]) -> str:
    """The whole page, for these figures of the catalogue's names."""
    evidence = tomllib.loads(EVIDENCE.read_text(encoding="utf-8"))
    parts = [evidence["page"]["begin"]]
    for title, names in (("Mechanisms", tuple(MECHANISMS)), ("Protocols", tuple(PROTOCOLS))):
        parts.append(f"## {title}\n")
        parts.append("| | promise | theorem | claimed | delta | found | share | by |\n" + "| --- " * 8 + "|")
        for name in names:
            held = looked_up(name, evidence)
            parts.append(f"| `{name}` | {held['promise']} | {held['theorem']} | {figures[name].cells} |")
        parts.append("\n| | exact test | mutant that dies |\n| --- | --- | --- |")
        for name in names:
            held = looked_up(name, evidence)
            parts.append(f"| `{name}` | `{held['test']}` | `{held['mutant'].removeprefix('src/bandanna/')}` |")
        parts.append("")
    parts.append("## Algorithms\n")
    parts.append(evidence["page"]["algorithms"])
    parts.append("| | model | through | claimed | delta | found | share | by |\n" + "| --- " * 8 + "|")
    for name, entry in ALGORITHMS.items():
        parts.append(f"| `{name}` | {entry.trust} | {figures[name].through} | {figures[name].cells} |")
    return "\n".join(parts) + "\n"


def looked_up(name: str, evidence: dict[str, dict[str, str]]) -> dict[str, str]:
    """A name's evidence, if all that it names is there."""
    if name not in evidence:
        raise LookupError(f"nothing is written about {name} in {EVIDENCE.name}")
    held = evidence[name]
    file, _, function = held["test"].partition("::")
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    if not any(
        isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name == function for each in tree.body
    ):
        raise LookupError(f"{name}: no such test any more: {held['test']}")
    path = held["mutant"].partition("::")[0]
    if not any(each.name.startswith(held["mutant"] + " [") for each in mutants(ROOT / path, ROOT)):
        raise LookupError(f"{name}: no place for this mutant any more: {held['mutant']}")
    return held


def printed(text: str) -> dict[str, Figures]:
    """The figures of a page that was written: the last cells of its rows of figures."""
    found: dict[str, Figures] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")] if line.startswith("| `") else []
        if len(cells) >= 6 or (len(cells) >= 3 and "nothing" in cells):
            name, shown = cells[0].strip("`"), [cell.strip(" |") for cell in line.split("|")][-6:-1]
            figures = Figures(claimed=shown[0], delta=shown[1], found=shown[2], share=shown[3], how=shown[4])
            found[name] = replace(figures, through=cells[2]) if name in ALGORITHMS else figures
    return found


def measured() -> dict[str, Figures]:
    """An audit of everything that is known to be good."""
    result = run_gallery(select=lambda name, known: known == "good")
    assert not result.surprises, result.surprises
    return {row.target: Figures.of(row) for row in result.rows}


def main() -> int:
    """Audit, and write."""
    missing = set(known_truths()) ^ {*MECHANISMS, *PROTOCOLS, *ALGORITHMS}
    assert not missing, missing
    PAGE.write_text(page(measured()), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}, at epsilon {EPSILON:g} and delta {GALLERY_DELTA:g} where a budget is chosen")
    return 0


if __name__ == "__main__":
    sys.exit(main())
