"""Counters on disk: nothing is lost, nothing noised twice, wherever a process was killed."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.continual_sum import ENCODING
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument
from bandanna.privacy.stores.sqlite import SQLiteStore
from bandanna.storage import files

from ..crafting import mutated, rewrite
from ..trouble import Interrupt

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
KINDS: dict[str, tuple[Any, Any]] = {
    "none": (bd.none(), bd.device.Box(dim=2)),
    "blt": (bd.central(**BUDGET, participations=2), bd.device.Box(dim=1)),
    "tree": (bd.central(**BUDGET, mechanism="tree"), bd.device.Ball(dim=2)),
    "matrices": (bd.central(rho=0.1, mechanism="tree"), bd.device.SymmetricMatrix(size=2)),
    "local": (bd.local(**BUDGET, participations=2), bd.device.Box(dim=2)),
    "bits": (bd.local(**BUDGET), bd.device.Bits()),
    "shuffle": (bd.shuffle(**BUDGET), bd.device.Bits()),
    "concurrent": (bd.concurrent(**BUDGET, shufflers=2), bd.device.Box(dim=2)),
}
each = pytest.mark.parametrize("name", KINDS)
noisy = pytest.mark.parametrize("name", [name for name in KINDS if name != "none"])


def counter_of(name: str, source: Any = "seeded") -> bd.agent.ContinualSum:
    privacy, values = KINDS[name]
    made = bd.device.FastNoise(np.random.default_rng(3)) if source == "seeded" else source
    return bd.agent.ContinualSum(horizon=24, privacy=privacy, values=values, source=made)


def stream(name: str) -> list[Any]:
    shape = {"Bits": (), "Box": (2,), "Ball": (2,), "SymmetricMatrix": (2, 2)}[type(KINDS[name][1]).__name__]
    shape = () if name == "blt" else shape
    draws = np.random.default_rng(1).integers(0, 2, size=(24, *shape)) / (1 if name in ("bits", "shuffle") else 2)
    return list((draws + np.swapaxes(draws, -1, -2)) / 2 if shape == (2, 2) else draws)


def sums(counter: bd.agent.ContinualSum, values: list[Any], named: bool = True) -> list[Any]:
    return [np.array(counter.update(one, user=counter.users if named else None)).tolist() for one in values]


def goes_on(counter: bd.agent.ContinualSum, name: str) -> None:
    users = counter.users
    assert sums(counter, stream(name)[users:]) == sums(counter_of(name), stream(name))[users:]


def entries(save: Path) -> list[Any]:
    return SQLiteStore(f"{save}.journal", create=False, encoding=ENCODING).entries()


@pytest.mark.often(when=lambda name, named: named or name in ("none", "blt"))
@each
@pytest.mark.parametrize("named", [False, True])
def test_an_interrupted_run_is_an_uninterrupted_one(name: str, named: bool, tmp_path: Path) -> None:
    values, save = stream(name), tmp_path / "counter"
    expected = sums(counter_of(name), values, named)
    counter, got = counter_of(name), []
    for number, value in enumerate(values):
        got += sums(counter, [value], named)
        if number % 3 == 0:
            counter.save(save)
        if number % 3 == 0 or (number % 3 == 1 and name != "none"):  # what came after a save is in the journal
            counter = bd.agent.ContinualSum.load(save)
    assert got == expected
    assert (counter.users, np.array(counter.estimate).tolist()) == (24, expected[-1])
    with pytest.raises(InvalidArgument, match="horizon"):
        counter.update(values[0])


CHILD = """
import sys, numpy as np, bandanna as bd
counter = bd.agent.ContinualSum.load(sys.argv[1])
for value in np.load(sys.argv[2]):
    print(np.array(counter.update(value, user=counter.users)).tolist(), flush=True)
"""


@pytest.mark.parametrize("name", [pytest.param("blt", marks=pytest.mark.full), "concurrent"])
def test_a_killed_process_continues_from_its_last_save(name: str, tmp_path: Path) -> None:
    expected, save = sums(counter_of(name), stream(name)), tmp_path / "counter"
    counter_of(name).save(save)
    np.save(tmp_path / "values.npy", np.array(stream(name)))
    command = [sys.executable, "-c", CHILD, str(save), str(tmp_path / "values.npy")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        lines = [child.stdout.readline() for _ in range(7)]
        child.kill()
        lines += child.communicate()[0].splitlines(keepends=True)
    assert child.returncode in (0, -signal.SIGKILL)
    seen = [line for line in lines if line.endswith("\n")]
    counter = bd.agent.ContinualSum.load(save)
    assert counter.users >= len(seen)
    assert [json.loads(line) for line in seen] == expected[: len(seen)]
    goes_on(counter, name)


@pytest.mark.often(when=lambda name: name in ("blt", "concurrent"))
@pytest.mark.parametrize("name", ["none", "blt", "tree", "concurrent"])
def test_a_process_killed_at_any_line_continues(name: str, tmp_path: Path) -> None:
    expected, values, save = sums(counter_of(name), stream(name)), stream(name), tmp_path / "counter"
    counter_of(name).save(save)
    for step in (*range(3, 200, 17), *range(200, 1200, 61)):
        counter = bd.agent.ContinualSum.load(save)
        before = counter.users
        if before == 24:
            break
        shown: list[Any] = []
        with suppress(KeyboardInterrupt), Interrupt(step):
            shown += sums(counter, [values[before]])
            counter.save(save)
        again = bd.agent.ContinualSum.load(save)
        assert shown in ([], [expected[before]])
        assert before + len(shown) * (name != "none") <= again.users <= before + 1
        if again.users:
            assert np.array(again.estimate).tolist() == expected[again.users - 1]
    goes_on(bd.agent.ContinualSum.load(save), name)


@pytest.mark.parametrize("name", ["none", "blt", "concurrent", "local"])
def test_a_counter_goes_on_after_an_interrupt(name: str, tmp_path: Path) -> None:
    expected, values = sums(counter_of(name), stream(name)), stream(name)
    counter = counter_of(name)
    counter.save(tmp_path / "counter")
    for step in range(5, 700, 13):
        before = counter.users
        if before == 24:
            break
        with suppress(KeyboardInterrupt), Interrupt(step):
            counter.update(values[before], user=before)
        assert counter.users in (before, before + 1)
        if counter.users:
            assert np.array(counter.estimate).tolist() == expected[counter.users - 1]
    goes_on(counter, name)
    if name != "none":
        assert len(entries(tmp_path / "counter")) == 24


@noisy
def test_an_older_save_never_noises_again(name: str, tmp_path: Path) -> None:
    save = tmp_path / "counter"
    source = bd.device.SecureNoise()
    counter = counter_of(name, source)
    sums(counter, stream(name)[:4])
    counter.save(save)
    old = save.read_bytes()
    seen = sums(counter, stream(name)[4:9])
    counter.save(save)
    save.write_bytes(old)
    again = bd.agent.ContinualSum.load(save)
    assert (again.users, np.array(again.estimate).tolist()) == (9, seen[-1])
    assert isinstance(again.source, bd.device.SecureNoise)
    assert again.guarantee == counter.guarantee
    sums(again, stream(name)[9:12])
    assert [entry.batch for entry in entries(save)] == [str(number) for number in range(4, 12)]
    with pytest.raises(ConflictingRelease):
        counter.update(stream(name)[9], user="somebody")  # it is overtaken


@pytest.mark.parametrize("name", ["blt", "shuffle", "local"])
def test_every_user_is_counted(name: str, tmp_path: Path) -> None:
    privacy, values = KINDS[name][0], stream(name)
    counter, most = counter_of(name), privacy.participations
    for _ in range(most):
        counter.update(values[0], user="ann@example.org")
    with pytest.raises(BudgetExceeded, match=f"counted {most} times"):
        counter.update(values[0], user="ann@example.org")
    with pytest.raises(InvalidArgument, match="user"):
        counter.update(values[0])
    assert counter.users == most
    counter.save(tmp_path / "counter")
    for _ in range(most):
        counter.update(values[0], user=17)
    again = bd.agent.ContinualSum.load(tmp_path / "counter")
    for who in ("ann@example.org", "17"):
        with pytest.raises(BudgetExceeded):
            again.update(values[0], user=who)
    again.update(values[0], user="bob")
    assert again.users == 2 * most + 1
    assert all(b"example.org" not in (tmp_path / name).read_bytes() for name in os.listdir(tmp_path))


def test_a_refused_update_counts_no_user(tmp_path: Path) -> None:
    counter = counter_of("shuffle")
    counter.save(tmp_path / "counter")
    with pytest.raises(bd.errors.InvalidStatistic):
        counter.update(7.0, user="ann@example.org")
    counter.update(1.0, user="ann@example.org")
    assert counter.users == 1


def test_files_are_private_and_replaced_at_once(tmp_path: Path) -> None:
    counter, save = counter_of("blt"), tmp_path / "counter"
    sums(counter, stream("blt")[:3])
    counter.save(save)
    sums(counter, stream("blt")[3:5])
    for name in ("counter", "counter.journal"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    (tmp_path / "link").symlink_to(save)
    with pytest.raises(BandannaError, match="symbolic link"):
        counter.save(tmp_path / "link")
    with pytest.raises(BandannaError, match="not a saved agent"):
        bd.Agent.load(save)
    sql = sqlite3.connect(f"{save}.journal", isolation_level=None)
    sql.execute("update members set member = 'nobody' where entry = 1")
    sql.close()
    with pytest.raises(BandannaError, match=r"counter\.journal is damaged"):
        bd.agent.ContinualSum.load(save)
    (tmp_path / "counter.journal").unlink()
    with pytest.raises(BandannaError, match=r"counter\.journal does not exist"):
        bd.agent.ContinualSum.load(save)


def test_the_budget_of_a_loaded_counter_is_that_of_its_journal(tmp_path: Path) -> None:
    save = tmp_path / "counter"
    counter_of("blt").save(save)
    header, text = save.read_text().splitlines()
    edited = text.replace('"epsilon":1.0', '"epsilon":9.0')
    assert edited != text
    header = json.dumps(json.loads(header) | {"sha256": hashlib.sha256(edited.encode()).hexdigest()})
    save.write_text(f"{header}\n{edited}\n")
    with pytest.raises(BandannaError, match=r"counter\.journal was made for another"):
        bd.agent.ContinualSum.load(save)


def test_an_interrupted_first_save_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = counter_of("blt")
    with monkeypatch.context() as patch:
        patch.setattr(files, "write_private_file", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            counter.save(tmp_path / "counter")
    sums(counter, stream("blt")[:3])
    counter.save(tmp_path / "counter")
    assert bd.agent.ContinualSum.load(tmp_path / "counter").users == 3


class Own(bd.device.FastNoise):
    """A source of somebody's own."""


@pytest.mark.parametrize(
    "source", [Own(np.random.default_rng(0)), bd.device.FastNoise(np.random.Generator(np.random.MT19937(0)))]
)
def test_counters_that_cannot_be_saved_are_refused(source: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="source"):
        counter_of("blt", source).save(tmp_path / "counter")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["none", "blt", "tree", "bits", "concurrent"])
def test_crafted_saves_are_refused(name: str, tmp_path: Path) -> None:
    counter, save = counter_of(name), tmp_path / "counter"
    sums(counter, stream(name)[:5])
    counter.save(save)
    sums(counter, stream(name)[5:7])
    plain, journal = json.loads(save.read_text().split("\n")[1]), tmp_path / "counter.journal"
    kept = journal.read_bytes() if journal.exists() else b""
    for seed in range(30):
        rewrite(save, json.dumps(mutated(plain, np.random.default_rng([seed, list(KINDS).index(name)]))), "counter")
        if kept:
            journal.write_bytes(kept)
        try:
            crafted = bd.agent.ContinualSum.load(save)
        except BandannaError as error:
            told = str(error)
        else:
            told = str(save)
            with suppress(BandannaError):
                crafted.update(stream(name)[7], user=7)
        assert str(save) in told
