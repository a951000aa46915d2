"""Saves and journals with the right checksum and wrong content: refused by name, or an agent that behaves."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.errors import BandannaError
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.linucb import LinUCB
from bandanna.privacy.events import GaussianEvent
from bandanna.privacy.stores import sqlite
from bandanna.privacy.stores.base import LedgerEntry
from bandanna.privacy.stores.sqlite import SQLiteStore

from ..crafting import mutated, pick, rewrite

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
PRIVACY = {
    "none": bd.none(),
    "central": bd.central(**BUDGET, mechanism="tree"),
    "anytime": bd.central(**BUDGET),
    "local": bd.local(**BUDGET, participations=2),
    "shuffle": bd.shuffle(**BUDGET),
    "concurrent": bd.concurrent(**BUDGET, shufflers=2),
}
each = pytest.mark.parametrize("name", PRIVACY)
SETS = np.random.default_rng(0).normal(size=(64, 3, 2)) / 3


def agent_of(name: str, folder: Path) -> Path:
    """A save in the middle of a batch, and one more release after it."""
    policy: Any = LinUCB(dim=2, horizon=8 if name == "anytime" else 60, batch=4, privacy=PRIVACY[name])
    agent = Agent(policy=Anytime(first=policy) if name == "anytime" else policy, grace=1, test=True, seed=0)
    play(agent, 10)
    agent.save(folder / "agent")
    play(agent, 4)
    return folder / "agent"


def play(agent: Agent, count: int) -> None:
    """Decide and observe."""
    for number in range(agent.decisions, agent.decisions + count):
        decision = agent.act(SETS[number], user=f"user {number}")
        if number % 3:
            agent.observe(decision.id, 0.5)


def generator(name: str, seed: int) -> np.random.Generator:
    """Of one mutation."""
    return np.random.default_rng([seed, list(PRIVACY).index(name)])


def loaded(save: Path) -> Agent | str:
    """The agent, or why it is refused."""
    try:
        return Agent.load(save)
    except BandannaError as error:
        return str(error)


def behaves(save: Path, *names: str) -> bool:
    """Refused with the name of a file, or an agent that works; anything else raises."""
    agent = loaded(save)
    if isinstance(agent, str):
        assert any(str(save.with_name(name)) in agent for name in names), agent
        assert "\n" not in agent
        return False
    try:
        play(agent, 6)
        agent.recommend(SETS[0])
        agent.save(save)
    except BandannaError:  # by its own account
        return False
    return True


@each
def test_a_crafted_save_raises_only_errors_of_this_library(name: str, tmp_path: Path) -> None:
    save = agent_of(name, tmp_path)
    plain = json.loads(save.read_text().split("\n")[1])
    journal = tmp_path / "agent.journal"
    kept = journal.read_bytes() if journal.exists() else b""
    assert behaves(save, "agent")
    for seed in range(45):
        rewrite(save, json.dumps(mutated(plain, generator(name, seed))))
        if kept:
            journal.write_bytes(kept)
        behaves(save, "agent", "agent.journal")


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 500 + "]" * 500,
        '{"dict": ' * 60 + "[]" + "}" * 60,
        "null",
        "[]",
        '{"dict": []}',
        '{"dict": [["name", 1], ["name", 2]]}',
        '{"dict": [["name", 1]], "dict": []}',
        '{"dict": [[{"dict": []}, 1]]}',
        '{"dict": [["name", 1e999]]}',
        '{"dict": [["name", NaN]]}',
        '{"dict": [["name", ' + "9" * 5000 + "]]}",
    ],
    ids=lambda text: text[:24],
)
def test_crafted_json_raises_only_errors_of_this_library(text: str, tmp_path: Path) -> None:
    save = tmp_path / "agent"
    rewrite(save, text)
    assert not behaves(save, "agent")


@pytest.mark.parametrize("name", ["central", "shuffle", "anytime"])
def test_a_crafted_journal_raises_only_errors_of_this_library(name: str, tmp_path: Path) -> None:
    save = agent_of(name, tmp_path)
    journal, kept = tmp_path / "agent.journal", (tmp_path / "agent.journal").read_bytes()
    columns = [
        ("meta", "value"),
        ("events", "event"),
        ("entries", "release"),
        ("entries", "batch"),
        ("members", "member"),
    ]
    for seed in range(30):
        rng = generator(name, seed)
        journal.write_bytes(kept)
        sql = sqlite3.connect(journal, isolation_level=None)
        table, column = pick(rng, columns)
        where = " where key not in ('secret', 'sum')" if table == "meta" else ""
        texts = [text for (text,) in sql.execute(f"select {column} from {table}{where}")]
        before = pick(rng, texts)
        try:
            after: Any = json.dumps(mutated([json.loads(before)], rng)[:1][0])
        except (IndexError, ValueError):
            after = pick(rng, ["", "x", 7, b"x", None])
        try:
            sql.execute(f"update or ignore {table} set {column} = ? where {column} is ?", (after, before))
            (secret,) = sql.execute("select value from meta where key = 'secret'").fetchone()
            total = sqlite.sum_rows(sql, secret)
            sql.execute("update meta set value = ? where key = 'sum'", (total,))
        except (sqlite3.Error, TypeError):
            pass  # what the tables themselves refuse, or a sum that cannot be made up
        sql.close()
        behaves(save, "agent", "agent.journal")


def test_a_crafted_ledger_raises_only_errors_of_this_library(tmp_path: Path) -> None:
    event = GaussianEvent(std=1.0, sensitivity=1.0)
    SQLiteStore(tmp_path / "l").commit(LedgerEntry(task="t", batch="1", event=event, fingerprint="f"))
    sql = sqlite3.connect(tmp_path / "l", isolation_level=None)
    sql.execute('update events set event = \'{"kind": "GaussianEvent", "fields": {"std": []}}\'')
    total = sqlite.sum_rows(sql, sql.execute("select value from meta where key = 'secret'").fetchone()[0])
    sql.execute("update meta set value = ? where key = 'sum'", (total,))
    sql.close()
    with pytest.raises(BandannaError, match="GaussianEvent"):
        SQLiteStore(tmp_path / "l").entries()
