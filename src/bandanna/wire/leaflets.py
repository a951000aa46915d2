"""What a task's document tells light clients, and whether a batch was announced as it says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bandanna.wire.canonical import dumps, packed

VERSION = 2


def rounds_digest(batch: Mapping[str, Any]) -> str:
    """SHA-256 of the rounds of a batch (`plan.Batch.to_dict`), as a text: what reports are made like, and how often.

    Where everybody reports for the arm of the own place, in one way for all arms, it is that of one arm, arm = null.
    """
    return packed(hashlib.sha256(dumps([_of_any_arm(each) for each in batch["rounds"]])).digest())


def _of_any_arm(round_: Mapping[str, Any]) -> dict[str, Any]:
    parts = [dict(part) for part in round_["parts"]]
    arms = [part["arm"] for part in parts]
    alike = [{**part, "arm": None} for part in parts]
    one = None not in arms and len(set(arms)) == len(arms) and all(part == alike[0] for part in alike)
    return {"parts": alike[:1] if one else parts}


def least_users(batch: Mapping[str, Any]) -> int:
    """How many people are behind each sum of a batch, at least; 0 if its plan does not add up."""
    arms = [part["arm"] for each in batch["rounds"] for part in each["parts"]]
    if not batch["arms"]:
        return int(batch["slots"]) if set(arms) == {None} and not batch["clients"] else 0
    plays = list(batch["plays"])
    whole = len(plays) == len(batch["arms"]) and sum(plays) == batch["slots"] and not batch["clients"]
    by_arm = arms == list(batch["arms"]) or set(arms) == {None}
    return (int(batch["slots"]) if set(arms) == {None} else min(plays)) if whole and by_arm else 0


BROWSERS = frozenset(
    {"Counts", "Rounded", "Copies", "Answer", "Sign", "Levels", "Plain"}
)  # devices that clients/js has


def clients(leaflet: Mapping[str, Any] | None) -> list[str]:
    """Who can play a task: Python with the whole library, a light Python client, browsers."""
    if leaflet is None:
        return ["python, with the whole library"]
    devices = [device for plan in leaflet["plans"] for part in plan["devices"] for device in part if device is not None]
    kinds = {kind for device in devices for kind in (device["kind"], *(e["kind"] for e in device.get("levels", ())))}
    return ["python", *(["browser"] if kinds <= BROWSERS else [])]
