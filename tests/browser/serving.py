"""Programs that serve pages, as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

import bandanna

from .conftest import ROOT

ENV = {**os.environ, "PYTHONPATH": str(Path(bandanna.__file__).parents[1])}  # the package under test
_BEGIN = 60.0  # seconds in which a program must answer


@contextmanager
def served(command: Sequence[str], url: str, log: Path, cwd: Path = ROOT) -> Iterator[str]:
    """`python command...`, until the end of the block; its url when it answers there."""
    with log.open("wb") as out:
        process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=out, cwd=cwd, env=ENV)
    try:
        end = time.monotonic() + _BEGIN
        while not _answers(url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run(command: Sequence[str], cwd: Path = ROOT) -> str:
    """`python command...` to its end; what it has said."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=cwd, env=ENV)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _answers(url: str) -> bool:
    try:
        httpx.get(url, trust_env=False, timeout=5)
    except httpx.HTTPError:
        return False
    return True
