"""What a task's document tells light clients, and whether a batch was announced as it says."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from bandanna.errors import BandannaError
from bandanna.wire.canonical import dumps, packed
from bandanna.wire.plan import EXACT, Batch

VERSION = 1


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


def check_batch(device: Mapping[str, Any], batch: Batch, arms: int | None = None) -> Mapping[str, Any]:
    """What a task's document says of the reports of a batch, if the batch was announced as the document means it.

    `clients/js` has the same function: both refuse the same batches.

    Parameters
    ----------
    device
        What the document tells light clients.
    batch
        As it was announced.
    arms
        How many arms the task has, where they stay.

    Returns
    -------
    The plan: how many people are in each sum at least, and the devices that protect it. BandannaError if there is none.
    """
    told = batch.to_dict()
    rounds, least = rounds_digest(told), least_users(told)
    plan: Mapping[str, Any] | None = next((each for each in device["plans"] if each["rounds"] == rounds), None)
    assigned = device["choose"]["kind"] == "PlaceChooser"
    known = all(0 <= arm < (EXACT if arms is None else arms) for arm in batch.arms)
    if plan is None or least < plan["users"] or bool(batch.arms) != assigned or not known:
        raise BandannaError(f"batch {batch.epoch} was announced with another plan than the task has")
    return plan


def least_users(batch: Mapping[str, Any]) -> int:
    """How many people are behind each sum of a batch, at least; 0 if its plan does not add up."""
    reported = [part["arm"] for each in batch["rounds"] for part in each["parts"]]
    arms, plays, everybody = list(batch["arms"]), list(batch["plays"]), set(reported) == {None}
    if batch["clients"] or len(plays) != len(arms) or not (everybody or reported == arms != []):
        return 0
    if arms and (min(plays) < 1 or sum(plays) != batch["slots"]):
        return 0
    return int(batch["slots"]) if everybody else int(min(plays))


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
