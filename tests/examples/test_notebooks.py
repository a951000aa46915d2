"""The notebooks of examples/ run from the first cell to the last, as in Jupyter, and are kept without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_the_four_are_there() -> None:
    """A notebook that the documentation promises is missing, or no page leads to it."""
    names = [path.name for path in NOTEBOOKS]
    assert names == ["deployment.ipynb", "logs_and_ope.ipynb", "own_data.ipynb", "quick_start.ipynb"]
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    assert [name for name in names if f"examples/{name}" not in pages] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_clean(path: Path) -> None:
    """A notebook has outputs of somebody's machine in it, or is none that Jupyter opens."""
    nbformat.validate(nbformat.read(path, as_version=4))
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell["metadata"] == {}
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell of a notebook raises an error, or warns of something."""
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    said = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.get("name") == "stderr"]
    assert said == []
