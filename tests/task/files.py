"""Task files that tests begin with."""

from __future__ import annotations

from typing import Any

LINEAR: dict[str, Any] = {"dim": 2, "horizon": 60}
DP: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-3}
TRUSTED = {  # a name of every privacy model: LinTS, LinUCB
    "none": ("LinTS", "LinUCB"),
    "central": ("LinTS-JDP", "LinUCB-JDP-batched"),
    "local": ("LinTS-LDP", "LinUCB-LDP-batched"),
    "shuffle": ("LinTS-SDP", "LinUCB-SDP-Vec"),
    "concurrent": ("LinTS-CSDP", "LinUCB-CSDP"),
}


def file(algorithm: str = "LinTS-LDP", **tables: Any) -> dict[str, Any]:
    budget = {} if algorithm in TRUSTED["none"] else DP
    batch = {} if "CSDP" in algorithm else {"batch": 20}  # one size: calibrated in no time
    return {"title": "small", "algorithm": algorithm, "policy": LINEAR | batch | budget, **tables}
