"""An agent goes on from its save, or from the newest release that its journal has noted since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bandanna.agent.arms import features_of
from bandanna.agent.clients import Clients
from bandanna.agent.loop import Loop
from bandanna.agent.plan import Batch, batch_of, following
from bandanna.agent.progress import Progress
from bandanna.agent.release import TASK
from bandanna.agent.releases import first_ask, recalibrate
from bandanna.agent.rows import from_columns
from bandanna.agent.schema import check_calibrations, check_progress, check_rows, check_state, check_streams
from bandanna.agent.slots import Slots, seats
from bandanna.errors import BandannaError
from bandanna.policies.base import RunningSums
from bandanna.storage.checks import demand


def resume(loop: Loop, saved: Mapping[str, Any], notes: Mapping[str, Any]) -> None:
    """Put everything in its place; what does not fit together is refused."""
    seeded, fresh = loop.seed is not None, loop.progress.state
    for name in Loop.PLAIN:
        setattr(loop, name, saved[name])
    loop.slots = Slots.from_columns(features_of(loop.policy), dict(saved["slots"]))
    loop.clients = Clients.from_columns(dict(saved["clients"]))
    check_progress(saved, seeded)
    loop.progress = Progress.read(saved)
    check_state(loop.policy, fresh, loop.progress)
    loop.see()
    _check_slots(loop)
    rows = saved["kept"]
    if loop.ledger is not None:
        rows = rows | {int(key[5:]): value for key, value in notes.items() if key.startswith("kept ")}
        newest = _newest(loop, saved, notes)
        check_progress(newest, seeded)
        loop.progress = Progress.read(newest)
        check_state(loop.policy, fresh, loop.progress)
    _check_streams(loop)
    for number, kept in sorted(rows.items()):
        if kept is not None:
            check_rows(kept)
            loop.kept[number] = from_columns(kept)
    loop.tidy()


def _newest(loop: Loop, saved: Mapping[str, Any], notes: Mapping[str, Any]) -> Mapping[str, Any]:
    """What was released after the save counts, if it was by the noise that the policy has."""
    phases = notes.get("calibrations") or {}
    check_calibrations(loop.policy, phases)
    recalibrate(loop.policy, phases)
    entries = loop.journals.entries()
    if len(entries) < saved["released"]:
        raise BandannaError("the journal is older than the save: it lacks releases")
    if isinstance(loop.policy, RunningSums):
        _check_entries(loop.policy, [entry for entry in entries if entry.task == TASK])
    if len(entries) == saved["released"]:
        return saved
    note = notes["state"]
    demand(isinstance(note, dict), "a journal without its state")
    return dict(note)


def _check_entries(policy: RunningSums[Any], entries: list[Any]) -> None:
    """Every batch of the public schedule, by the noise that the policy has, with all its members."""
    batch = batch_of(policy.episode(policy.init()), 0)
    for number, entry in enumerate(entries):
        fits = batch is not None and batch.episode.released and (str(number), _event(policy, batch))
        if not fits or fits != (entry.batch, entry.event):
            raise BandannaError(
                f"batch {entry.batch} in the journal was released with other noise than the save's policy has: "
                "half a stream of one noise and half of another has no price"
            )
        assert batch is not None
        whole = entry.release is not None and sum(map(seats, entry.members)) == batch.users
        demand(whole, "a batch without its members")
        batch = following(policy, batch)


def _event(policy: RunningSums[Any], batch: Batch) -> Any:
    return policy.ask(batch.episode).protocol.event  # type: ignore[arg-type]


def _check_streams(loop: Loop) -> None:
    """Streams are where the releases say."""
    progress = loop.progress
    ask = first_ask(loop.policy, progress.state)
    if ask is None or not isinstance(loop.policy, RunningSums):
        return
    batches = getattr(progress.state, "inner", progress.state).batches
    steps = batches + progress.asked
    check_streams(loop.policy, progress, ask.protocol, ask.stream, steps)


def _check_slots(loop: Loop) -> None:
    """Every decision of the open episodes has its slot, and no other one has."""
    policy, batch, made = loop.policy, loop.now.batch, loop.made
    horizon = policy.horizon
    demand(horizon is None or made - loop.beside <= horizon, "more decisions than the horizon has")
    demand(loop.progress.begin <= made, "another number of decisions than the batch that is filling has")
    expected: list[tuple[int, int]] = []
    while batch is not None and batch.begin < made:
        if batch.clients is None:
            expected += [(number, batch.number) for number in range(batch.begin, min(batch.end, made))]
        batch = following(policy, batch)
    demand(loop.slots.places() == expected, "slots of other decisions than the open ones")
