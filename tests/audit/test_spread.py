"""One target over several workers: the same numbers, whoever runs its blocks and in whatever order they end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna import environments as worlds
from bandanna.audit.audit import audit
from bandanna.errors import InvalidArgument
from tests.policies.conformance.own_policy import copied


class Backwards:
    """An executor whose last task ends first; it counts what it was asked for and what was done."""

    def __init__(self) -> None:
        self.asked = self.done = 0

    def call_all(self, function: Any, tasks: Any) -> Iterator[Any]:
        """Pairs in another order, so that blocks must wait for each other."""
        self.asked = len(tasks)
        keys = sorted(tasks, key=lambda number: number ^ 3)
        for key in keys:
            self.done += 1
            yield key, function(**tasks[key])


@pytest.mark.parametrize(
    ("target", "more"),
    [("gaussian", {}), ("LinUCB-CSDP", {}), ("LinUCB-JDP-batched", {"view": "snapshot"}), ("priv_unit", {"seed": 3})],
)
def test_the_order_of_blocks_does_not_matter(target: str, more: dict[str, Any]) -> None:
    at: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "trials": 1200, **more}
    working = Backwards()
    alone, spread = audit(target, **at), audit(target, executor=working, **at)  # type: ignore[arg-type]
    assert working.done == working.asked > 8
    assert alone.rows == spread.rows
    assert alone.rows[0].curve is not None
    assert (alone.rows[0].curve.missed == spread.rows[0].curve.missed).all()  # type: ignore[union-attr]


def test_blocks_are_not_run_when_the_claim_is_refuted() -> None:
    quiet = bd.audit.gallery.UnderstatedGaussian(std=1.0, sensitivity=1.0, share=0.3)
    at: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-3, "trials": 40_000}
    working = Backwards()
    alone, spread = audit(quiet, **at), audit(quiet, executor=working, **at)  # type: ignore[arg-type]
    assert alone.refuted
    assert alone.rows == spread.rows
    assert working.done < working.asked / 2


def test_processes_know_a_policy_by_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spread_policy.py").write_text(copied("Spread"), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    at: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-3, "trust": "shuffle", "trials": 600}
    assert audit("spread_policy:Greedy", jobs=1, **at).rows == audit("spread_policy:Greedy", **at).rows


def test_what_cannot_be_sent_is_refused_by_name() -> None:

    class Mine(bd.LinUCB):  # type: ignore[misc]
        """Nobody can import this."""

    env = worlds.LinearContextual(dim=2, n_arms=3)
    policy = Mine(dim=2, horizon=10, width=0.2, privacy=bd.local(epsilon=1.0, delta=1e-3))
    with pytest.raises(InvalidArgument, match="a class that can be imported"):
        audit(policy, env=env, executor=Backwards(), trials=600)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one run"):
        audit("LinUCB-LDP", view="one-run", jobs=2)
