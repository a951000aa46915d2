"""What docs/deploy.md says of tasks, made from tasks: `python -m tests.deploy.page` prints it, to be put there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
SMALL = {"dim": 2, "horizon": 60, "epsilon": 5.0, "delta": 1e-3}
MODELS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "central": ("LinTS-JDP", {"batch": 20}, {}),
    "local": ("LinTS-LDP", {"batch": 20}, {}),
    "shuffle, one mixer": ("LinTS-SDP", {"batch": 20}, {}),
    "shuffle, the mixer draws the noise": ("LinTS-SDP", {"batch": 20}, {"noise": "mixer"}),
    "shuffle, two mixers": ("LinTS-SDP", {"batch": 20}, {"mixers": 2}),
    "shuffle, Gaussian reports": ("LinUCB-SDP-Amp", {"batch": 20}, {}),
    "concurrent shufflers": ("LinUCB-CSDP", {}, {}),
}


def toml() -> str:
    """The file of the page."""
    found = re.search(r'```toml title="tea\.toml"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def commands() -> list[str]:
    """What the page's section about a laptop lets the reader type, in order."""
    section = PAGE.read_text().partition("## On a laptop")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (bandanna .*)$", section, re.MULTILINE)


def of_the_example() -> list[str]:
    """Who sees what in the page's own task."""
    import tomllib

    from bandanna.deployment.task.creation import create_task
    from bandanna.deployment.task.description import visibility_table

    task, _ = create_task(tomllib.loads(toml()), expect=False)
    return [f"| {each.role} | {each.sees} | {each.left} |" for each in visibility_table(task)]


def of_the_models() -> list[str]:
    """What shuffler, helper and analyzer see in every trust model: before the traces that the collector has."""
    from bandanna.deployment.task.creation import create_task
    from bandanna.deployment.task.description import visibility_table

    lines = []
    for name, (algorithm, more, rules) in MODELS.items():
        document = {"title": name, "algorithm": algorithm, "policy": SMALL | more, "rules": rules}
        task, _ = create_task(document, expect=False)
        sees = {each.role: each.sees.partition("; the slot")[0] for each in visibility_table(task)}
        seen = " | ".join(sees.get(role, "-") for role in ("shuffler", "helper", "analyzer"))
        lines.append(f"| {name} | {seen} |")
    return lines


if __name__ == "__main__":
    print("\n".join([*of_the_example(), "", *of_the_models()]))
