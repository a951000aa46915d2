"""Serving: what we promise about the CPU seconds of a request, beside a bare ASGI application on the same server.

An upload may take twice as long, a route three times; `bandanna bench --only serving` measures the same.
"""

from __future__ import annotations

from bandanna.bench.serving import NAMES, costs
from benchmarks import Ratio

PROMISED = {"upload": 2.0, "route": 3.0}  # times the bare server


def measure() -> list[Ratio]:
    """Ours, and Starlette alone, of which nothing is promised."""
    least = costs(rounds=9, requests=250)
    bare = least["bare"]
    return [
        Ratio(
            what=f"CPU of {name}",
            ours=least[kind],
            beside="bare ASGI",
            theirs=bare,
            promise=PROMISED[kind] * bare if kind in PROMISED else None,
        )
        for kind, name in NAMES.items()
    ]
