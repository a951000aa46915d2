"""The notebooks of examples/ run from the first cell to the last, and are kept without outputs.

In this process, by the shell that a Jupyter kernel has; by a kernel in the long tests.
"""

from __future__ import annotations

import builtins
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import KernelManager, start_new_kernel
from nbclient import NotebookClient
from traitlets.config import Config

from ..nursery import _quick_roles as _quick_roles

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def test_four_notebooks_are_linked_from_the_documentation() -> None:
    names = [path.name for path in NOTEBOOKS]
    assert names == ["deployment.ipynb", "logs_and_ope.ipynb", "own_data.ipynb", "quick_start.ipynb"]
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert [name for name in names if f"examples/{name}" not in pages] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_clean(path: Path) -> None:
    nbformat.validate(nbformat.read(path, as_version=4))
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        assert cell["metadata"] == {}
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


@pytest.mark.usefixtures("_quick_roles")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("__IPYTHON__", "display"):  # what the shell leaves behind
        monkeypatch.setattr(builtins, name, None, raising=False)
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "code":
            with capture_output() as said:
                shell.run_cell(cell.source).raise_error()
            assert said.stderr == ""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelManager]:
    """A process of Jupyter's, which has loaded the library once for all notebooks."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("MPLBACKEND", "agg")
        monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
        monkeypatch.setenv("IPYTHONDIR", str(tmp_path_factory.mktemp("ipython")))
        manager, client = start_new_kernel(startup_timeout=600)
        client.stop_channels()
        yield manager
        manager.shutdown_kernel()


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_jupyter(path: Path, kernel: KernelManager, tmp_path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    alone = f"import os\nos.chdir({str(tmp_path)!r})\n%reset -f"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(alone))
    client = NotebookClient(notebook, km=kernel, timeout=300)
    client.execute()
    client.kc.stop_channels()
    said = [out for cell in notebook.cells for out in cell.get("outputs", []) if out.get("name") == "stderr"]
    assert said == []
