"""Scripts that run experiments: once, whatever the number of processes, with or without a guard."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from bandanna.experiments.executors import InProcessExecutor, ProcessExecutor, call_here, choose_executor, needs_main

from ..nursery import nursery

EXPERIMENT = """
print("begins", flush=True)
import bandanna as bd
{policy}
found = bd.experiments.run(
    dict(
        horizon=60,
        seeds=2,
        environment=dict(name="LinearContextual", dim=2, n_arms=3),
        algorithm=[dict(name="{name}")],
    ),
    jobs={jobs},
)
print("ends with", *[row["mean"] for row in found.rows()])
"""
POLICY = """
from dataclasses import dataclass
@dataclass(frozen=True, kw_only=True)
class Mine(bd.LinUCB):
    trusts = ("none",)
"""


def ran(folder: Path, *, jobs: int, name: str = "LinUCB", policy: str = "") -> subprocess.CompletedProcess[str]:
    """A script without `if __name__ == "__main__":`."""
    script = folder / "script.py"
    script.write_text(EXPERIMENT.format(jobs=jobs, name=name, policy=policy))
    command = [sys.executable, str(script)]
    out, errors = folder / "out", folder / "errors"
    with out.open("wb") as stdout, errors.open("wb") as stderr:
        code = nursery().start(command, stdout=stdout, stderr=stderr).wait(600)
    return subprocess.CompletedProcess(command, code, out.read_text(), errors.read_text())


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    one, two = (ran(tmp_path, jobs=jobs) for jobs in (1, 2))
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert one.stdout == two.stdout
    assert one.stdout.count("begins") == 1


def test_a_policy_of_the_script_runs_in_its_process(tmp_path: Path) -> None:
    one, two = (ran(tmp_path, jobs=jobs, name="__main__:Mine", policy=POLICY) for jobs in (1, 2))
    assert one.returncode == 0, one.stderr
    assert two.returncode == 1
    assert 'below `if __name__ == "__main__":`' in two.stderr.splitlines()[-1]
    assert two.stderr.count("errors.BandannaError") == 1  # one trace, not one of each worker
    assert "InvalidArgument" not in two.stderr
    assert "ends with" not in two.stdout


def test_what_is_of_the_main_module_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not needs_main(os.getpid, {"a": 1.0})
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "Mine", type("Mine", (), {"__module__": "__main__"}), raising=False)
    assert needs_main({"policy": main.Mine()})  # type: ignore[attr-defined]


def test_one_job_is_this_process() -> None:
    assert isinstance(choose_executor("processes", jobs=1), InProcessExecutor)
    assert isinstance(choose_executor("processes", jobs=2), ProcessExecutor)
    assert dict(choose_executor("processes", jobs=1).call_all(os.getpid, {"a": {}})) == {"a": os.getpid()}
    with threadpool_limits(2):
        ((_, found),) = call_here(threadpool_info, {"a": {}})
    assert {pool["num_threads"] for pool in found} == {1}
