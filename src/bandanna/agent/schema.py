"""What a save and its journal must hold to make an agent: types, ranges, shapes, and parts that fit together.

A checksum tells damage, not sense: whatever does not pass here is refused before anything is built from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from bandanna.agent.arms import features_of
from bandanna.agent.progress import Progress
from bandanna.policies.base import Policy, RunningSums
from bandanna.protocols.base import Protocol, StreamProtocol
from bandanna.protocols.channel import Channel, fits
from bandanna.protocols.kinds import check_stream
from bandanna.storage.checks import check_source, demand, is_hex
from bandanna.storage.declared import conforms

BATCHES = 10**7  # at most so many with noise in a phase: each has a place in a table
_LARGEST = 1e60  # of a number in a state: its square is a float
_PLAIN: dict[str, Any] = {
    "name": str, "policy": Policy, "calibrations": dict[int, Any], "grace": int, "seed": int | None, "secret": str,
    "slots": dict[str, Any], "clients": dict[str, Any], "kept": dict[int, Any], "arms": tuple[Any, ...] | None,
    "features": str | None, "made": int, "beside": int, "late": int, "over": bool,
}  # fmt: skip
_PROGRESS: dict[str, Any] = {
    "state": Any, "source": dict[str, Any] | None, "streams": dict[int, Any], "forgot": dict[str, int], "begin": int,
    "asked": int, "closed": int, "released": int, "reports": int,
    "missing": int, "clipped": int,
}  # fmt: skip
_COLUMNS = {
    "numbers": "i8", "batches": "i8", "features": "f8", "arms": "i8", "groups": "i8", "answered": "b1", "rewards": "f8",
}  # fmt: skip
_LISTS = "sessions", "users"


def check_save(content: Mapping[str, Any]) -> None:
    """Everything in a save that can be checked without its policy at work."""
    _check_plain(content, _PLAIN)
    demand(is_hex(content["name"], 32) and is_hex(content["secret"], 64), "name or secret is not one of ours")
    demand(content["beside"] <= content["made"], "more decisions beside than there were")
    check_calibrations(content["policy"], content["calibrations"])
    _check_columns(features_of(content["policy"]), content["slots"])
    _check_clients(content["clients"])


def check_arms(arms: Any, policy: Policy[Any]) -> Any:
    """Arms that stay, as an agent takes them: names, or features by name."""
    if arms is None:
        return None
    demand(len(arms) == 2 and isinstance(arms[0], tuple), "arms without their parts")
    ids, features = arms
    numbers = isinstance(features, np.ndarray) and features.dtype == np.float64
    demand(numbers and features.shape == (len(ids), features_of(policy)), "arms of another shape")
    named = getattr(policy, "n_arms", None) is not None  # what features there are belong to users
    return ids if named or not features_of(policy) else dict(zip(ids, features, strict=True))


def check_progress(note: Any, seeded: bool) -> None:
    """What saves and journals hold of the newest release."""
    demand(isinstance(note, Mapping), "a journal without its state")
    _check_plain(note, _PROGRESS)
    demand(seeded == (note["source"] is not None), "seed and source do not agree")
    if note["source"] is not None:
        check_source(note["source"])


def _check_plain(content: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    for name, hint in hints.items():
        demand(name in content and conforms(content[name], hint), f"{name} is missing or of a wrong type")
        demand(type(content[name]) is not int or content[name] >= 0, f"{name} is negative")


def check_calibrations(policy: Policy[Any], saved: Any) -> None:
    """Phases 0, 1, ..., each with protocols for its batch sizes that suit the policy."""
    demand(conforms(saved, dict[int, Any]) and sorted(saved) == list(range(len(saved))), "phases are missing")
    demand(not saved or isinstance(policy, RunningSums), "channels of a policy that has none")
    demand(len(saved) <= (64 if policy.horizon is None else 1), "too many phases")
    for phase, pair in saved.items():
        assert isinstance(policy, RunningSums)
        demand(isinstance(pair, tuple) and len(pair) == 2, "a phase is not a channel and its sizes")
        channel, runs = pair
        demand(isinstance(channel, Channel) and conforms(runs, list) and runs and not len(runs) % 2, "wrong sizes")
        demand(all(type(number) is int and number > 0 for number in runs), "wrong sizes")
        sizes, times = runs[::2], runs[1::2]
        longest = next(policy.phases()).span << phase
        users = sum(size * often for size, often in zip(sizes, times, strict=True))
        most = BATCHES if policy.privacy.noisy else longest
        demand(sum(times) <= most and users <= longest, "more batches than the horizon has")
        demand(set(channel.protocols) == set(sizes), "batches without a protocol")
        for size, protocol in channel.protocols.items():
            _check_protocol(policy, protocol, size, steps=sum(times))


def _check_protocol(policy: RunningSums[Any], protocol: Protocol, size: int, steps: int) -> None:
    fault = fits(next(policy.phases()).spends, protocol, size=size, steps=steps)
    demand(fault is None, f"{fault}")
    demand(protocol.domain == policy.domain, "a protocol for other statistics")


def check_state(policy: Policy[Any], fresh: Any, given: Progress) -> None:
    """A state of this policy: of the make of a fresh one, with numbers that can be computed with, and in its place."""
    check_like(given.state, fresh)
    episode = policy.episode(given.state)
    demand(episode is None or episode.number == given.closed, "the state after another number of episodes")
    horizon = policy.horizon
    demand(horizon is None or given.closed <= horizon + 1, "more episodes than the horizon has rounds")
    demand(set(given.forgot) <= set(policy.keeps), "rows of no group")
    policy.publish(given.state)


def check_streams(policy: Policy[Any], given: Progress, protocol: Any, number: int, steps: int) -> None:
    """The states of streams: of the make of a fresh one of the protocol that is asked for."""
    if not isinstance(protocol, StreamProtocol):
        demand(not given.streams, "streams of a policy that has none")
        return
    demand(set(given.streams) <= set(range(number + 1)), "streams that have not begun")
    if steps:
        demand(number in given.streams, "a stream without its state")
        check_stream(given.streams[number], protocol.begin(), steps=steps)


def check_like(given: Any, fresh: Any) -> None:
    """Types of a fresh value, finite numbers, arrays of as many axes; what a policy may leave out may be missing."""
    if isinstance(fresh, np.ndarray | np.generic):
        demand(np.ndim(given) == np.ndim(fresh) and isinstance(given, np.ndarray | np.generic | int | float), "a state")
        array, model = np.asarray(given), np.asarray(fresh)
        demand(array.dtype.kind == model.dtype.kind or (array.dtype.kind, model.dtype.kind) == ("i", "f"), "a state")
        demand(bool(np.all(np.abs(array.astype(float)) <= _LARGEST)), "a state with numbers that no sum has")
        demand(array.ndim < 2 or array.shape[-1] == model.shape[-1] or not model.size, "a state of other features")
    elif isinstance(given, float | int) and not isinstance(given, bool):
        demand(abs(given) <= _LARGEST, "a state with numbers that no sum has")
    elif is_dataclass(given):
        demand(fresh is None or type(given) is type(fresh), "the state of another policy")
        for each in fields(given):
            check_like(getattr(given, each.name), getattr(fresh, each.name, None))
    elif isinstance(given, np.ndarray):
        demand(given.dtype.kind in "biuf" and bool(np.all(np.isfinite(given))), "a state with numbers that are none")
    elif isinstance(given, tuple):
        for part in given:
            check_like(part, None)


def _check_columns(dim: int, columns: Mapping[str, Any]) -> None:
    demand(set(columns) == {*_COLUMNS, *_LISTS}, "slots without a column, or with another one")
    numbers = columns["numbers"]
    count = len(numbers) if isinstance(numbers, np.ndarray) and numbers.ndim else -1
    for name, dtype in _COLUMNS.items():
        shape = (count, dim) if name == "features" else (count,)
        good = isinstance(columns[name], np.ndarray) and columns[name].dtype == dtype and columns[name].shape == shape
        demand(good and bool(np.all(np.isfinite(columns[name]))), f"slots with wrong {name}")
    demand(
        all(isinstance(columns[name], list) and len(columns[name]) == count for name in _LISTS), "slots of two lengths"
    )
    _check_names(columns)


def _check_clients(columns: Mapping[str, Any]) -> None:
    demand(set(columns) == {"episode", "sums", "counts", "rounds", *_LISTS}, "clients without a column")
    lists = [columns[name] for name in ("sums", "counts", "rounds", *_LISTS)]
    demand(conforms(columns["episode"], int) and all(isinstance(each, list) for each in lists), "clients of no episode")
    demand(len({len(each) for each in lists}) == 1, "clients of two lengths")
    for sums, counts, rounds in zip(*lists[:3], strict=True):
        good = all(isinstance(each, np.ndarray) and each.dtype == np.float64 for each in (sums, counts))
        demand(good and sums.shape == counts.shape and bool(np.all(np.isfinite(sums + counts))), "a client's rewards")
        demand(isinstance(rounds, list) and all(type(each) is int for each in rounds), "a client's rounds")
    _check_names(columns)


def _check_names(columns: Mapping[str, Any]) -> None:
    demand(all(is_hex(session, 16) for session in columns["sessions"]), "slots of a session that is none")
    demand(all(user is None or is_hex(user, 64) for user in columns["users"]), "slots of a user who is none")


def check_rows(rows: Any) -> None:
    """What is kept of an episode."""
    demand(isinstance(rows, dict) and "rewards" in rows, "rows without rewards")
    demand(set(rows) <= {"rewards", "features", "arms", "groups"}, "rows with foreign columns")
    good = all(isinstance(each, np.ndarray) and each.dtype.kind in "if" for each in rows.values())
    demand(good and len({len(each) for each in rows.values()}) == 1, "rows of two lengths")
    demand(all(bool(np.all(np.isfinite(each))) for each in rows.values()), "rows that are no numbers")
