"""What an experiment's summary and results say, read with suspicion: of the types that it must have, or not at all."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bandanna.dashboard.readings.base import finite
from bandanna.simulation.result import Result

_POINTS = 120  # of a curve


def curve_of(path: Path) -> dict[str, Any]:
    """Regret over time of a result, decimated."""
    result = Result.load(path)
    step = max(1, -(-len(result.checkpoints) // _POINTS))
    columns = result.checkpoints.tolist(), result.mean().tolist(), result.stderr().tolist()
    points = [
        {"round": round_, "regret": finite(regret), "stderr": finite(error)}
        for round_, regret, error in zip(*columns, strict=True)
    ]
    return {"label": result.label, "seeds": result.n_seeds, "points": points[::-step][::-1]}


def rows_of(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """What a summary says of its curves, of the types that it has to have."""
    rows = summary.get("rows")
    found: list[dict[str, Any]] = []
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict) and isinstance(row.get("label"), str) and len(found) < 1000:
            words = {name: str(row.get(name, ""))[:200] for name in ("label", "algorithm", "trust")}
            numbers = ("epsilon", "delta", "mean", "stderr", "median", "n_seeds", "horizon", "bits_per_user", "seconds")
            found.append({**words, **{name: plain(row.get(name)) for name in numbers}, "group": _group(row)})
    return found


def _group(row: dict[str, Any]) -> str:
    """Curves that differ in their budget alone."""
    given = row.get("arguments")
    budgets = ("epsilon", "delta", "rho")
    others = {name: value for name, value in given.items() if name not in budgets} if isinstance(given, dict) else {}
    said = ", ".join(f"{name} = {value}" for name, value in sorted(others.items(), key=lambda pair: str(pair[0])))
    return f"{row.get('algorithm', '')} {f'({said})' if said else ''}".strip()[:120]


def by_epsilon(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Final regret against epsilon, of curves that were run for more than one."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["epsilon"] is not None and row["epsilon"] > 0 and row["mean"] is not None:
            groups.setdefault(row["group"], []).append(row)
    return [
        {
            "group": name,
            "points": [
                {"epsilon": row["epsilon"], "regret": row["mean"], "stderr": row["stderr"]}
                for row in sorted(some, key=lambda row: row["epsilon"])
            ],
        }
        for name, some in groups.items()
        if len({row["epsilon"] for row in some}) > 1
    ]


def plain(value: Any) -> float | int | None:
    """A number that can be shown; None for anything else."""
    fine = (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300 and math.isfinite(value)
    )
    return value if fine else None
