"""Code of other libraries in docs/how-to/coming-from.md runs, if they are installed."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "coming-from.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r'^```py title="with (\w+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
(TASK,) = re.findall(r'^```python title="task.py"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.full
def test_peers_run_as_shown(tmp_path: Path) -> None:
    """Somebody who knows mabwiser, Vowpal Wabbit or river finds code that it does not run."""
    assert set(BLOCKS) == {"mabwiser", "vowpalwabbit", "river"}
    (tmp_path / "task.py").write_text(TASK, encoding="utf-8")
    for name, code in BLOCKS.items():
        if importlib.util.find_spec(name) is None:
            continue
        (tmp_path / "peer.py").write_text(code, encoding="utf-8")
        done = subprocess.run([sys.executable, "peer.py"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{name}: {done.stderr}"
