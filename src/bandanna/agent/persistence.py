"""Saving, loading and resuming an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bandanna.agent.episodes import (
    TASK,
    AgentProgress,
    EpisodeClients,
    EpisodeSpan,
    OpenSlots,
    next_span,
    slot_count_of_member,
    to_span,
)
from bandanna.agent.preflight import calibrations_by_phase, count_features, find_first_query, restore_calibrations
from bandanna.agent.runner import AgentRunner
from bandanna.data.features.map import Map
from bandanna.errors import BandannaError, InvalidArgument, ValueSummary
from bandanna.policies.base import PlayedRounds, Policy, RunningSumPolicy
from bandanna.policies.registry import columns_from_played, make_save_format
from bandanna.privacy.stores.journal import ReplicatedJournal, find_journal_path, refuse_journal
from bandanna.protocols.base import Protocol, StreamProtocol
from bandanna.protocols.factory import check_stream_state
from bandanna.protocols.running_sum import RunningSumProtocol, find_mismatch
from bandanna.storage import files
from bandanna.storage.encoding import Encoding, check_readable, check_source, is_hex, matches_type
from bandanna.storage.files import SaveFormat

# Checks of what a save and its journal hold: types, ranges, shapes, and parts that fit together.


MAX_BATCHES = 10**7  # at most so many with noise in a phase: each has a place in a table
_LARGEST_NUMBER = 1e60  # of a number in a state: its square is a float
_FIELD_TYPES: dict[str, Any] = {
    "name": str, "policy": Policy, "calibrations": dict[int, Any], "grace": int, "seed": int | None, "secret": str,
    "slots": dict[str, Any], "clients": dict[str, Any], "kept": dict[int, Any], "arms": tuple[Any, ...] | None,
    "features": str | None, "made": int, "beside": int, "late": int, "over": bool,
}  # fmt: skip
_PROGRESS: dict[str, Any] = {
    "state": Any, "source": dict[str, Any] | None, "streams": dict[int, Any], "forgot": dict[str, int], "begin": int,
    "asked": int, "closed": int, "released": int, "reports": int, "missing": int, "clipped": int,
}  # fmt: skip
_COLUMNS = {
    "numbers": "i8", "batches": "i8", "features": "f8", "arms": "i8", "groups": "i8", "answered": "b1", "rewards": "f8",
}  # fmt: skip
_LISTS = "sessions", "users"


def check_save(content: Mapping[str, Any]) -> None:
    """Refuse a save by all checks that do not call its policy."""
    _check_plain(content, _FIELD_TYPES)
    check_readable(is_hex(content["name"], 32) and is_hex(content["secret"], 64), "name or secret is not one of ours")
    check_readable(content["beside"] <= content["made"], "more decisions beside than there were")
    check_calibrations(content["policy"], content["calibrations"])
    _check_columns(count_features(content["policy"]), content["slots"])
    _check_clients(content["clients"])


def check_arms(arms: Any, policy: Policy[Any]) -> Any:
    """Return fixed arms as an agent takes them: names, or features by name."""
    if arms is None:
        return None
    check_readable(len(arms) == 2 and isinstance(arms[0], tuple), "arms without their parts")
    ids, features = arms
    numbers = isinstance(features, np.ndarray) and features.dtype == np.float64
    check_readable(numbers and features.shape == (len(ids), count_features(policy)), "arms of another shape")
    named = getattr(policy, "n_arms", None) is not None  # what features there are belong to users
    return ids if named or not count_features(policy) else dict(zip(ids, features, strict=True))


def check_progress(note: Any, seeded: bool) -> None:
    """Refuse progress of a save or journal with missing or wrong parts."""
    check_readable(isinstance(note, Mapping), "a journal without its state")
    _check_plain(note, _PROGRESS)
    check_readable(seeded == (note["source"] is not None), "seed and source do not agree")
    if note["source"] is not None:
        check_source(note["source"])


def _check_plain(content: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name, hint in hints.items():
        check_readable(name in content and matches_type(content[name], hint), f"{name} is missing or of a wrong type")
        check_readable(type(content[name]) is not int or content[name] >= 0, f"{name} is negative")


def check_calibrations(policy: Policy[Any], saved: Any) -> None:
    """Refuse phases other than 0, 1, ..., or protocols that do not suit the policy."""
    check_readable(
        matches_type(saved, dict[int, Any]) and sorted(saved) == list(range(len(saved))), "phases are missing"
    )
    check_readable(not saved or isinstance(policy, RunningSumPolicy), "channels of a policy that has none")
    check_readable(len(saved) <= (64 if policy.horizon is None else 1), "too many phases")
    for phase, pair in saved.items():
        assert isinstance(policy, RunningSumPolicy)
        check_readable(isinstance(pair, tuple) and len(pair) == 2, "a phase is not a channel and its sizes")
        channel, runs = pair
        check_readable(
            isinstance(channel, RunningSumProtocol) and matches_type(runs, list) and runs and not len(runs) % 2,
            "wrong sizes",
        )
        check_readable(all(type(number) is int and number > 0 for number in runs), "wrong sizes")
        sizes, times = runs[::2], runs[1::2]
        longest = next(policy._iterate_phases())._planned_rounds << phase
        users = sum(size * often for size, often in zip(sizes, times, strict=True))
        most = MAX_BATCHES if policy.privacy.noisy else longest
        check_readable(sum(times) <= most and users <= longest, "more batches than the horizon has")
        check_readable(set(channel.protocols) == set(sizes), "batches without a protocol")
        for size, protocol in channel.protocols.items():
            _check_protocol(policy, protocol, size, steps=sum(times))


def _check_protocol(policy: RunningSumPolicy[Any], protocol: Protocol, size: int, steps: int) -> None:
    fault = find_mismatch(next(policy._iterate_phases())._batch_privacy, protocol, size=size, steps=steps)
    check_readable(fault is None, f"{fault}")
    check_readable(protocol.domain == policy._domain, "a protocol for other statistics")


def check_state(policy: Policy[Any], fresh: Any, given: AgentProgress) -> None:
    """Refuse a state of another structure, with infinite numbers, or out of place."""
    check_same_structure(given.state, fresh)
    episode = policy.episode(given.state)
    check_readable(episode is None or episode.number == given.closed, "the state after another number of episodes")
    horizon = policy.horizon
    check_readable(horizon is None or given.closed <= horizon + 1, "more episodes than the horizon has rounds")
    check_readable(set(given.forgot) <= set(policy.execution.retained_groups), "rows of no group")
    policy.publish(given.state)


def check_streams(policy: Policy[Any], given: AgentProgress, protocol: Any, number: int, steps: int) -> None:
    """Refuse states of streams that the query's protocol cannot have."""
    if not isinstance(protocol, StreamProtocol):
        check_readable(not given.streams, "streams of a policy that has none")
        return
    check_readable(set(given.streams) <= set(range(number + 1)), "streams that have not begun")
    if steps:
        check_readable(number in given.streams, "a stream without its state")
        check_stream_state(given.streams[number], protocol.begin(), steps=steps)


def check_same_structure(given: Any, fresh: Any) -> None:
    """Refuse types other than those of a fresh value, infinite numbers, and other array shapes."""
    if isinstance(fresh, np.ndarray | np.generic):
        check_readable(
            np.ndim(given) == np.ndim(fresh) and isinstance(given, np.ndarray | np.generic | int | float), "a state"
        )
        array, model = np.asarray(given), np.asarray(fresh)
        check_readable(
            array.dtype.kind == model.dtype.kind or (array.dtype.kind, model.dtype.kind) == ("i", "f"), "a state"
        )
        check_readable(
            bool(np.all(np.abs(array.astype(float)) <= _LARGEST_NUMBER)), "a state with numbers that no sum has"
        )
        check_readable(
            array.ndim < 2 or array.shape[-1] == model.shape[-1] or not model.size, "a state of other features"
        )
    elif isinstance(given, float | int) and not isinstance(given, bool):
        check_readable(abs(given) <= _LARGEST_NUMBER, "a state with numbers that no sum has")
    elif is_dataclass(given):
        check_readable(fresh is None or type(given) is type(fresh), "the state of another policy")
        for each in fields(given):
            check_same_structure(getattr(given, each.name), getattr(fresh, each.name, None))
    elif isinstance(given, np.ndarray):
        check_readable(
            given.dtype.kind in "biuf" and bool(np.all(np.isfinite(given))), "a state with numbers that are none"
        )
    elif isinstance(given, tuple):
        for part in given:
            check_same_structure(part, None)


def _check_columns(dim: int, columns: Mapping[str, Any]) -> None:
    check_readable(set(columns) == {*_COLUMNS, *_LISTS}, "slots without a column, or with another one")
    numbers = columns["numbers"]
    count = len(numbers) if isinstance(numbers, np.ndarray) and numbers.ndim else -1
    for name, dtype in _COLUMNS.items():
        shape = (count, dim) if name == "features" else (count,)
        good = isinstance(columns[name], np.ndarray) and columns[name].dtype == dtype and columns[name].shape == shape
        check_readable(good and bool(np.all(np.isfinite(columns[name]))), f"slots with wrong {name}")
    check_readable(
        all(isinstance(columns[name], list) and len(columns[name]) == count for name in _LISTS), "slots of two lengths"
    )
    _check_names(columns)


def _check_clients(columns: Mapping[str, Any]) -> None:
    check_readable(set(columns) == {"episode", "sums", "counts", "rounds", *_LISTS}, "clients without a column")
    lists = [columns[name] for name in ("sums", "counts", "rounds", *_LISTS)]
    check_readable(
        matches_type(columns["episode"], int) and all(isinstance(each, list) for each in lists), "clients of no episode"
    )
    check_readable(len({len(each) for each in lists}) == 1, "clients of two lengths")
    for sums, counts, rounds in zip(*lists[:3], strict=True):
        good = all(isinstance(each, np.ndarray) and each.dtype == np.float64 for each in (sums, counts))
        check_readable(
            good and sums.shape == counts.shape and bool(np.all(np.isfinite(sums + counts))), "a client's rewards"
        )
        check_readable(isinstance(rounds, list) and all(type(each) is int for each in rounds), "a client's rounds")
    _check_names(columns)


def _check_names(columns: Mapping[str, Any]) -> None:
    check_readable(all(is_hex(session, 16) for session in columns["sessions"]), "slots of a session that is none")
    check_readable(all(user is None or is_hex(user, 64) for user in columns["users"]), "slots of a user who is none")


def check_rows(rows: Any) -> None:
    """Refuse kept rows of an episode with missing or wrong columns."""
    check_readable(isinstance(rows, dict) and "rewards" in rows, "rows without rewards")
    check_readable(set(rows) <= {"rewards", "features", "arms", "groups"}, "rows with foreign columns")
    good = all(isinstance(each, np.ndarray) and each.dtype.kind in "if" for each in rows.values())
    check_readable(good and len({len(each) for each in rows.values()}) == 1, "rows of two lengths")
    check_readable(all(bool(np.all(np.isfinite(each))) for each in rows.values()), "rows that are no numbers")


# Resume.


def resume(runner: AgentRunner, file: Path, saved: Mapping[str, Any], features: Map | None, encoding: Encoding) -> None:
    """Continue from a save, or from the newest release in its journal; refuse files that do not fit together."""
    seeded, fresh = runner.seed is not None, runner.progress.state
    runner.take_identity(saved["name"], bytes.fromhex(saved["secret"]))
    notes: dict[str, Any] = {}
    if runner.ledger is None:
        refuse_journal(file)
    else:
        terms = _journal_terms(runner, features)
        journals, notes = ReplicatedJournal.load(
            find_journal_path(file), agent=runner.name, terms=terms, secret=runner.secret, encoding=encoding
        )
        runner.open_ledger(journals)
    check_progress(saved, seeded)
    progress = AgentProgress.read(saved)
    slots = OpenSlots.from_columns(count_features(runner.policy), dict(saved["slots"]))
    clients = EpisodeClients.from_columns(dict(saved["clients"]))
    check_state(runner.policy, fresh, progress)
    runner.restore(progress, counters=saved, slots=slots, clients=clients)
    _check_slots(runner)
    rows = saved["kept"]
    if runner.ledger is not None:
        rows = rows | {int(key[5:]): value for key, value in notes.items() if key.startswith("kept ")}
        newest = _check_newest_release(runner, saved, notes)
        check_progress(newest, seeded)
        progress = AgentProgress.read(newest)
        check_state(runner.policy, fresh, progress)
    _check_streams(runner.policy, progress)
    kept = {number: columns for number, columns in sorted(rows.items()) if columns is not None}
    for columns in kept.values():
        check_rows(columns)
    runner.go_on_from(progress, {number: PlayedRounds(**columns) for number, columns in kept.items()})


def _check_newest_release(runner: AgentRunner, saved: Mapping[str, Any], notes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the progress after the newest release; refuse releases of other noise."""
    phases = notes.get("calibrations") or {}
    check_calibrations(runner.policy, phases)
    restore_calibrations(runner.policy, phases)
    entries = runner.journals.entries()
    if len(entries) < saved["released"]:
        raise BandannaError("the journal is older than the save: it lacks releases")
    if isinstance(runner.policy, RunningSumPolicy):
        _check_entries(runner.policy, [entry for entry in entries if entry.task == TASK])
    if len(entries) == saved["released"]:
        return saved
    note = notes["state"]
    check_readable(isinstance(note, dict), "a journal without its state")
    return dict(note)


def _check_entries(policy: RunningSumPolicy[Any], entries: list[Any]) -> None:
    """Refuse entries other than the public schedule's batches, with the policy's noise and all members."""
    batch = to_span(policy.episode(policy.init()), 0)
    for number, entry in enumerate(entries):
        fits = batch is not None and batch.episode.released and (str(number), _expected_event(policy, batch))
        if not fits or fits != (entry.batch, entry.event):
            raise BandannaError(
                f"batch {entry.batch} in the journal was released with other noise than the save's policy has: "
                "half a stream of one noise and half of another has no price"
            )
        assert batch is not None
        whole = entry.release is not None and sum(map(slot_count_of_member, entry.members)) == batch.users
        check_readable(whole, "a batch without its members")
        batch = next_span(policy, batch)


def _expected_event(policy: RunningSumPolicy[Any], batch: EpisodeSpan) -> Any:
    return policy._query(batch.episode).protocol.event  # type: ignore[arg-type]


def _check_streams(policy: Policy[Any], progress: AgentProgress) -> None:
    """Refuse streams at other places than the releases say."""
    query = find_first_query(policy, progress.state)
    if query is None or not isinstance(policy, RunningSumPolicy):
        return
    batches = getattr(progress.state, "inner", progress.state).batches
    steps = batches + progress.asked
    check_streams(policy, progress, query.protocol, query.stream, steps)


def _check_slots(runner: AgentRunner) -> None:
    """Refuse slots outside of the open episodes."""
    policy, batch, made = runner.policy, runner.now.batch, runner.made
    horizon = policy.horizon
    check_readable(horizon is None or made - runner.beside <= horizon, "more decisions than the horizon has")
    check_readable(runner.progress.begin <= made, "another number of decisions than the batch that is filling has")
    expected: list[tuple[int, int]] = []
    while batch is not None and batch.begin < made:
        if batch.clients is None:
            expected += [(number, batch.number) for number in range(batch.begin, min(batch.end, made))]
        batch = next_span(policy, batch)
    check_readable(runner.slots.places() == expected, "slots of other decisions than the open ones")


# Save and load.


def save_agent(file: Path, runner: AgentRunner, features: Map | None) -> None:
    """Write an agent atomically, and begin or continue the journal beside it."""
    files.check_regular_file(file)
    content = {
        "name": runner.name,
        "policy": runner.policy,
        "calibrations": calibrations_by_phase(runner.policy),
        "grace": runner.grace,
        "seed": runner.seed,
        "secret": runner.secret.hex(),
        "slots": runner.slots.to_columns(),
        "clients": runner.clients.to_columns(),
        "kept": {number: columns_from_played(rows) for number, rows in runner.kept.items()},
        "arms": None if runner.arms is None else (runner.arms.ids, runner.arms.features),
        "features": None if features is None else features.to_json(),
    }
    counters = {name: getattr(runner, name) for name in AgentRunner.COUNTERS}
    text = make_save_format(type(runner.policy)).text_of(content | counters | runner.progress.note())
    if runner.ledger is None:
        refuse_journal(file)
        files.write_private_file(file, text)
        return
    runner.journals.attach(file, runner.all_notes())
    files.write_private_file(file, text)
    runner.journals.saved(file)


def new_journals(runner: AgentRunner, features: Map | None, encoding: Encoding) -> ReplicatedJournal:
    """Return journals of an agent that has released nothing."""
    terms = _journal_terms(runner, features)
    return ReplicatedJournal(agent=runner.name, terms=terms, secret=runner.secret, encoding=encoding)


def _journal_terms(runner: AgentRunner, features: Map | None) -> Any:
    """Return the policy, fixed arms and map, to which a journal is bound."""
    mapped = () if features is None else (features.to_json(),)
    arms = () if runner.arms is None else runner.arms.as_terms()
    return (runner.policy, *arms, *mapped) if arms or mapped else runner.policy


def check_can_be_saved(policy: Policy[Any], state: Any, encoding: Encoding) -> None:
    """Refuse a policy whose state cannot be saved."""
    try:
        encoding.encode(state)
    except InvalidArgument as fault:
        name, given = type(policy).__name__, fault.value
        allowed = f"one whose {name}.init is annotated with its state, a dataclass of numbers, strings and arrays"
        given = ValueSummary(f"a state with a {given}")
        raise InvalidArgument("policy", given, allowed, "See docs/how-to/write-a-policy.md") from None


def read_save(file: Path, saves: SaveFormat, own: type[Policy[Any]] | None) -> dict[str, Any]:
    """Return the content of a save; `own` is the class of a caller's own policy."""
    try:
        return saves.read(file)
    except BandannaError as error:
        if own is None and "not the name of a known value" in str(error):
            raise BandannaError(f"{error}. Pass the class of your own policy: load(path, policy=...)") from error
        raise


def arguments_from_save(content: dict[str, Any], own: type[Policy[Any]] | None) -> dict[str, Any]:
    """Return the checked arguments of the saved agent, its policy calibrated as it was."""
    check_save(content)
    made, seed = content["policy"], content["seed"]
    if own is not None and not isinstance(made, own):
        raise InvalidArgument("policy", ValueSummary(own.__name__), f"{type(made).__name__}, the class that was saved")
    restore_calibrations(made, content["calibrations"])
    arms = check_arms(content["arms"], made)
    return {"policy": made, "arms": arms, "grace": content["grace"], "test": seed is not None, "seed": seed}
