"""Examples of docs/how-to/deploy.md, made from its task: `python -m tests.deploy.page` prints who sees what."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "deploy.md"


def toml() -> str:
    found = re.search(r'```toml title="tea\.toml"\n(.*?)```', PAGE.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def commands() -> list[str]:
    """Return the commands of the page's section about one machine, in order."""
    section = PAGE.read_text().partition("## Deploy on one machine")[2].partition("\n## ")[0]
    return re.findall(r"^\$ (bandanna .*)$", section, re.MULTILINE)


def of_the_example() -> list[str]:
    import tomllib

    from bandanna.deployment.task.creation import create_task
    from bandanna.deployment.task.description import visibility_table

    task, _ = create_task(tomllib.loads(toml()), expect=False)
    return [f"| {each.role} | {each.sees} | {each.left} |" for each in visibility_table(task)]


if __name__ == "__main__":
    print("\n".join(of_the_example()))
