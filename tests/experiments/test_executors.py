"""Sweeps on a Dask cluster: the numbers of local processes, whoever dies."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import bandanna as bd
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.experiments import executors, runner
from bandanna.experiments.executors import (
    InProcessExecutor,
    ProcessExecutor,
    call_here,
    choose_executor,
    needs_main,
    single_threaded,
)
from bandanna.experiments.experiment import Experiment
from bandanna.experiments.study import study
from bandanna.simulation.result import Result

from ..datasets import files
from ..nursery import nursery

TOML = """
horizon = 800
n_seeds = 1
[environment]
name = "LinearContextual"
dim = 3
n_arms = 4
fixed = true
[[algorithm]]
name = "LinUCB"
width = [0.0, 0.2, 0.4, 0.6]
[[algorithm]]
name = "LinUCB-LDP"
epsilon = [1.0, 10.0]
delta = 1e-5
"""
SHELL = [sys.executable, "-c", "from bandanna.cli.main import main; main()", "run"]


def timeless(results: Any) -> dict[str, Result]:
    """Results without the only thing that differs between runs."""
    return {label: replace(result, seconds=0.0) for label, result in results.items()}


def identity(directory: Path) -> dict[str, tuple[int, int]]:
    """Inode and time of every block file: a file written again would have others."""
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in directory.glob("blocks/*.csv")}


@pytest.fixture
def threads() -> Iterator[Any]:
    """A cluster whose scheduler and only worker are threads of this process."""
    import distributed

    with (
        single_threaded(),
        distributed.LocalCluster(
            processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A real one: a scheduler, and two worker processes that are watched over."""
    import distributed

    local = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **local) as made:
        yield made


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six blocks, some noise."""
    file = tmp_path_factory.mktemp("experiment") / "mine.toml"
    file.write_text(TOML, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def local(experiment: Path) -> dict[str, Result]:
    """What processes of this machine find."""
    return timeless(bd.experiments.run(Experiment.from_toml(experiment), jobs=1))


def test_a_cluster_gives_the_numbers_of_this_process(threads: Any, experiment: Path, local: dict[str, Result]) -> None:
    told: list[tuple[int, int, str]] = []
    made = Experiment.from_toml(experiment)
    found = bd.experiments.run(
        made, executor="dask", scheduler=threads.scheduler_address, progress=lambda *step: told.append(step)
    )
    assert timeless(found) == local
    assert [done for done, _, _ in told] == list(range(7))


def test_a_killed_worker_changes_nothing(cluster: Any, experiment: Path, local: dict[str, Result]) -> None:
    workers = {name: worker.process.pid for name, worker in cluster.workers.items()}
    told: list[tuple[int, int, str]] = []

    def watch(*step: Any) -> None:
        told.append(step)
        if len(told) == 2:  # the first block has ended: both workers are at the next ones
            os.kill(workers[0], signal.SIGKILL)

    made = Experiment.from_toml(experiment)
    found = bd.experiments.run(made, executor="dask", scheduler=cluster.scheduler_address, progress=watch)
    assert timeless(found) == local
    assert [done for done, _, _ in told] == list(range(7))
    end = time.monotonic() + 600
    while cluster.workers[0].process is not None and cluster.workers[0].process.pid == workers[0]:
        assert time.monotonic() < end  # its nanny may notice later than the scheduler
        time.sleep(0.05)


@pytest.mark.full
def test_a_local_cluster_gives_the_same_numbers(experiment: Path, local: dict[str, Result]) -> None:
    assert timeless(bd.experiments.run(Experiment.from_toml(experiment), executor="dask", jobs=2)) == local


@pytest.mark.full
def test_a_killed_run_on_a_cluster_resumes_without_repeating(
    cluster: Any, experiment: Path, local: dict[str, Result], tmp_path: Path
) -> None:
    out, address = tmp_path / "out", cluster.scheduler_address
    command = [*SHELL, str(experiment), "--executor", "dask", "--scheduler", address, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not identity(out) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    _, said = process.communicate(timeout=300)
    kept = identity(out)
    assert kept, said
    assert not (out / "summary.json").exists()
    again = bd.experiments.run(experiment, out=out, executor="dask", scheduler=address, resume=True)
    assert timeless(again) == local
    after = identity(out)
    assert {name: after[name] for name in kept} == kept


@pytest.mark.full
def test_audits_on_a_cluster_give_the_same_rows(cluster: Any) -> None:
    there: dict[str, Any] = {"executor": "dask", "scheduler": cluster.scheduler_address}
    few: dict[str, Any] = {"trials": 600, "wanted": lambda name, known: name in ("half the noise", "gaussian")}
    assert bd.audit.run_gallery(**few, **there).to_dict() == bd.audit.run_gallery(**few).to_dict()
    one: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "trials": 600}
    assert bd.audit.audit("LinTS-SDP", **one, **there).rows == bd.audit.audit("LinTS-SDP", **one).rows


def test_studies_on_a_cluster_give_the_same_rows(threads: Any, tmp_path: Path) -> None:
    there: dict[str, Any] = {"executor": "dask", "scheduler": threads.scheduler_address}
    (tmp_path / "ACTG175.csv").write_text(files.actg())
    trial = bd.datasets.load("actg175", path=tmp_path / "ACTG175.csv")
    small: dict[str, Any] = {"epsilons": (1.0,), "trusts": ("central",), "n_seeds": 2, "horizon": 60}
    rows = [study(trial, algorithms=("LinTS", "random"), **small, **each) for each in ({}, there)]
    for row in [*rows[0], *rows[1]]:
        del row["seconds"]
    assert rows[0] == rows[1]


def test_an_absent_scheduler_is_named_in_seconds(tmp_path: Path) -> None:
    began = time.monotonic()
    tasks: dict[int, dict[str, Any]] = {0: {}}
    with pytest.raises(BandannaError, match=r"no Dask scheduler .* tcp://127\.0\.0\.1:9. Start `dask scheduler`"):
        list(executors.DaskExecutor(jobs=1, scheduler="tcp://127.0.0.1:9").call_all(os.getpid, tasks))
    assert time.monotonic() - began < 300
    with pytest.raises(BandannaError, match="no Dask scheduler"):
        list(executors.DaskExecutor(jobs=1, scheduler="not an address").call_all(os.getpid, tasks))


def greeted(server: socket.socket, greeting: bytes) -> None:
    """One who comes; then nothing is said until they go."""
    heard, _ = server.accept()
    with heard, suppress(ConnectionResetError):
        heard.sendall(greeting)
        heard.recv(1)


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request\r\n"], ids=["silent", "in letters"])
def test_another_server_is_not_waited_for(greeting: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=greeted, args=(server, greeting), daemon=True).start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(BandannaError, match=f"no Dask scheduler with workers answers at {address}"):
            executors.DaskExecutor(jobs=1, scheduler=address).ready()


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tls://127.0.0.1:9", ""])
def test_an_absent_scheduler_leaves_nothing(
    address: str, experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executors, "_PATIENCE", 0.2)
    there: dict[str, Any] = {"executor": "dask", "scheduler": address}
    with pytest.raises(BandannaError, match="no Dask scheduler with workers"):
        bd.experiments.run(experiment, out=tmp_path / "run", **there)
    (tmp_path / "ACTG175.csv").write_text(files.actg())
    trial = bd.datasets.load("actg175", path=tmp_path / "ACTG175.csv")
    with pytest.raises(BandannaError, match="no Dask scheduler with workers"):
        study(trial, algorithms=("random",), out=tmp_path / "study", **there)
    assert [each.name for each in tmp_path.iterdir()] == ["ACTG175.csv"]


def test_a_scheduler_without_workers_leaves_nothing(
    experiment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    monkeypatch.setattr(executors, "_JOINING", 0.2)
    with distributed.LocalCluster(processes=False, n_workers=0, dashboard_address="127.0.0.1:0") as made:
        there: dict[str, Any] = {"executor": "dask", "scheduler": made.scheduler_address}
        with pytest.raises(BandannaError, match="no Dask scheduler with workers"):
            bd.experiments.run(experiment, out=tmp_path / "run", **there)
        assert list(tmp_path.iterdir()) == []
        done = bd.experiments.run(experiment, out=tmp_path / "run", jobs=1)
        assert timeless(bd.experiments.run(experiment, out=tmp_path / "run", resume=True, **there)) == timeless(done)


def test_a_wrong_address_is_one_line(experiment: Path, tmp_path: Path) -> None:
    command = [*SHELL, str(experiment), "--executor", "dask", "--scheduler", "nonsense", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 2
    assert done.stderr.startswith("error: no Dask scheduler with workers answers at nonsense (missing port number")
    assert len(done.stderr.splitlines()) == 1


def test_only_what_our_error_says_is_kept_out_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("distributed.client")
    monkeypatch.setattr(log, "propagate", False)
    log.addHandler(caplog.handler)
    try:
        with executors._quiet_dask_logs():
            for error in (ConnectionRefusedError("gone"), asyncio.CancelledError(), ValueError("of another kind")):
                log.error("a task failed", exc_info=error)
            log.error("Failed to reconnect to scheduler after %.2f seconds, closing client", 5.0)
            log.warning("something else")
        log.error("afterwards", exc_info=ConnectionRefusedError("gone"))
    finally:
        log.removeHandler(caplog.handler)
    assert [record.getMessage() for record in caplog.records] == ["a task failed", "something else", "afterwards"]


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_scheduler_that_goes_is_one_line(number: int, experiment: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    address, out, file = f"tcp://127.0.0.1:{port}", tmp_path / "out", tmp_path / "long.toml"
    file.write_text(TOML.replace("800", "40_000"), encoding="utf-8")
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    program = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", port]
    working = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    with single_threaded():
        scheduler = subprocess.Popen([*program, "--no-dashboard"], **silent)
        worker = subprocess.Popen(working, **silent)
    try:
        time.sleep(3)
        command = [*SHELL, str(file), "--executor", "dask", "--scheduler", address, "--out", str(out)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not identity(out) and process.poll() is None:
            time.sleep(0.01)
        scheduler.send_signal(number)
        _, said = process.communicate(timeout=600)
    finally:
        for each in (worker, scheduler):
            each.kill()
            each.wait()
    assert process.returncode == 2
    assert said.startswith("error: the Dask workers or their scheduler died")
    assert len(said.splitlines()) == 1
    assert identity(out)


def test_workers_that_could_give_other_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in executors.THREAD_VARIABLES:
        monkeypatch.setenv(name, "1")
    assert executors._run_in_worker(os.getpid, {}, executors._describe_versions()) == os.getpid()
    with pytest.raises(BandannaError, match="numbers could differ"):
        executors._run_in_worker(os.getpid, {}, {**executors._describe_versions(), "numpy": "0.1"})
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    with pytest.raises(BandannaError, match="OPENBLAS_NUM_THREADS': '4'"):
        executors._run_in_worker(os.getpid, {}, executors._describe_versions())


def test_bad_executors_are_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidArgument, match=r"executor must be one of 'processes', 'dask', got 'dusk'"):
        executors.choose_executor("dusk", jobs=1)
    with pytest.raises(InvalidArgument, match='scheduler must be None unless executor="dask"'):
        executors.choose_executor("processes", jobs=1, scheduler="tcp://x:1")
    with pytest.raises(InvalidArgument, match="scheduler must be an address"):
        executors.choose_executor("dask", jobs=1, scheduler=3)  # type: ignore[arg-type]

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(executors.importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"bandanna\[dask\]"):
        executors.choose_executor("dask", jobs=1)


def test_a_sweep_runs_on_an_executor_of_ones_own(tmp_path: Path) -> None:

    class Here:
        """In this process."""

        def call_all(self, function: Any, tasks: Any) -> Iterator[Any]:
            """One after the other, the last first."""
            yield from ((key, function(**tasks[key])) for key in reversed(list(tasks)))

    world, tables = {"name": "FiniteArms", "means": [0.2, 0.8]}, [{"name": "UCB1"}, {"name": "Thompson"}]
    made = Experiment.from_dict({"title": "", "horizon": 9, "n_seeds": 2, "environment": world, "algorithm": tables})
    assert list(runner.run_sweep(made, tmp_path / "here", executor=Here())) == ["UCB1", "Thompson"]  # type: ignore[arg-type]


# Scripts that run experiments: once, whatever the number of processes, with or without a guard


EXPERIMENT = """
print("begins", flush=True)
import bandanna as bd
{policy}
found = bd.experiments.run(
    dict(
        horizon=60,
        n_seeds=2,
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
