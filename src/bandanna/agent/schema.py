"""What a save and its journal must hold to make an agent: types, ranges, shapes, and parts that fit together.

A checksum tells damage, not sense: whatever does not pass here is refused before anything is built from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.agent.plan import Policy
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.anytime import State as AnytimeState
from bandanna.policies.linear.linucb import Snapshot, State
from bandanna.protocols.base import Protocol
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.channel import Channel
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.kinds import check_stream
from bandanna.protocols.local_gaussian import LocalGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian
from bandanna.protocols.trust import Privacy
from bandanna.storage.checks import demand, is_hex
from bandanna.storage.declared import conforms

BATCHES = 10**7  # at most so many with noise in a phase: each has a place in a table
_LARGEST = 1e60  # of a number in a state: its square is a float
_PLAIN = {
    "name": str, "policy": Policy, "calibrations": dict[int, Any], "grace": int, "seed": int | None, "secret": str,
    "source": dict[str, Any] | None, "slots": dict[str, Any], "state": State | AnytimeState, "made": int,
    "filling": int, "closed": int, "late": int, "missing": int, "clipped": int, "over": bool,
}  # fmt: skip
_COLUMNS = {"numbers": "i8", "batches": "i8", "features": "f8", "answered": "b1", "rewards": "f8"}


def check_save(content: Mapping[str, Any]) -> None:
    """Everything in a save that can be checked without its policy at work."""
    for name, hint in _PLAIN.items():
        demand(name in content and conforms(content[name], hint), f"{name} is missing or of a wrong type")
        demand(type(content[name]) is not int or content[name] >= 0, f"{name} is negative")
    demand(is_hex(content["name"], 32) and is_hex(content["secret"], 64), "name or secret is not one of ours")
    demand(content["closed"] <= content["filling"] <= content["made"], "batches and decisions do not agree")
    demand((content["seed"] is None) == (content["source"] is None), "seed and source do not agree")
    check_calibrations(content["policy"], content["calibrations"])
    demand(0 in content["calibrations"], "there are no calibrations")
    total = sum(sum(runs[1::2]) for _, runs in content["calibrations"].values())
    demand(content["filling"] <= total + 1, "more batches than were planned")
    check_state(content["policy"], content["calibrations"], content["state"], content["closed"])
    _check_columns(content["policy"].dim, content["slots"])


def check_calibrations(policy: Policy, saved: Any) -> None:
    """Phases 0, 1, ..., each with protocols for its batch sizes that suit the policy."""
    demand(conforms(saved, dict[int, Any]) and sorted(saved) == list(range(len(saved))), "phases are missing")
    demand(len(saved) <= (64 if isinstance(policy, Anytime) else 1), "too many phases")
    for phase, pair in saved.items():
        demand(isinstance(pair, tuple) and len(pair) == 2, "a phase is not a channel and its sizes")
        channel, runs = pair
        demand(isinstance(channel, Channel) and conforms(runs, list) and runs and not len(runs) % 2, "wrong sizes")
        demand(all(type(number) is int and number > 0 for number in runs), "wrong sizes")
        sizes, times = runs[::2], runs[1::2]
        longest = policy.first.horizon << phase if isinstance(policy, Anytime) else policy.horizon
        users = sum(size * often for size, often in zip(sizes, times, strict=True))
        most = BATCHES if policy.privacy.noisy else longest
        demand(sum(times) <= most and users <= longest, "more batches than the horizon has")
        demand(set(channel.protocols) == set(sizes), "batches without a protocol")
        for size, protocol in channel.protocols.items():
            _check_protocol(policy, protocol, size, steps=sum(times))


def _check_protocol(policy: Policy, protocol: Protocol, size: int, steps: int) -> None:
    privacy = policy.privacy
    demand(isinstance(protocol, _expected(privacy)), "a protocol of another trust model")
    demand(protocol.domain == policy.domain, "a protocol for other statistics")
    if not privacy.noisy:
        return
    demand(protocol.participations == privacy.participations, "a protocol for other participations")
    if isinstance(protocol, CentralContinual):
        demand(protocol.factorisation.horizon == steps, "a stream of another length")
    if isinstance(protocol, ShuffleBinomial):
        demand(protocol.noise.users == size, "noise for another batch size")
    if isinstance(protocol, ShuffleGaussian):
        demand(protocol.batch == size, "noise for another batch size")
    if isinstance(protocol, ConcurrentShuffle):
        demand(protocol.tree.sizes[0] == size and protocol.tree.horizon == steps * size, "a tree of other batches")


def _expected(privacy: Privacy) -> type:
    if not privacy.noisy:
        return Clear
    if privacy.model == "shuffle":
        return ShuffleGaussian if privacy.protocol == "gaussian" else ShuffleBinomial
    return {"central": CentralContinual, "local": LocalGaussian, "concurrent": ConcurrentShuffle}[privacy.model]


def check_state(policy: Policy, calibrations: Mapping[int, Any], state: Any, closed: int) -> None:
    """A state of this policy after so many batches."""
    phased = isinstance(policy, Anytime)
    demand(isinstance(state, AnytimeState if phased else State), "the state of another policy")
    phase = state.phase if isinstance(state, AnytimeState) else 0
    demand(phase in calibrations, "the state of a phase without calibrations")
    before = sum(sum(runs[1::2]) for number, (_, runs) in calibrations.items() if number < phase)
    demand(before + state.running.batches == closed, "the state after another number of batches")
    demand(_count(state.repairs) and (not phased or _count(state.inner.repairs)), "repairs are no count")
    demand(np.shape(state.running.estimate.total) == (policy.domain.dim,), "a state of other features")
    channel, _ = calibrations[phase]
    check_stream(state.running, channel.begin(), steps=state.running.batches)


def _count(value: Any) -> bool:
    return bool(np.ndim(value) == 0 and value >= 0)


def _check_columns(dim: int, columns: Mapping[str, Any]) -> None:
    lists = "sessions", "users"
    demand(set(columns) == {*_COLUMNS, *lists}, "slots without a column, or with another one")
    numbers = columns["numbers"]
    count = len(numbers) if isinstance(numbers, np.ndarray) and numbers.ndim else -1
    for name, dtype in _COLUMNS.items():
        shape = (count, dim) if name == "features" else (count,)
        fits = isinstance(columns[name], np.ndarray) and columns[name].dtype == dtype and columns[name].shape == shape
        demand(fits and bool(np.all(np.isfinite(columns[name]))), f"slots with wrong {name}")
    demand(
        all(isinstance(columns[name], list) and len(columns[name]) == count for name in lists), "slots of two lengths"
    )
    demand(all(is_hex(session, 16) for session in columns["sessions"]), "slots of a session that is none")
    demand(all(user is None or is_hex(user, 64) for user in columns["users"]), "slots of a user who is none")


def check_note(note: Any) -> None:
    """What a journal holds of the newest release, beside its state: as `Progress.note`; counts came later."""
    counts = {"closed", "missing", "clipped"}
    demand(isinstance(note, dict) and set(note) - counts == {"state", "source"}, "a journal without its state")
    demand(all(type(note[name]) is int and note[name] >= 0 for name in counts & set(note)), "a count that is none")


def check_snapshot(snapshot: Snapshot) -> None:
    """One with which arms can be compared."""
    numbers = np.concatenate([snapshot.theta, snapshot.inverse.ravel(), [snapshot.radius]])
    demand(bool(np.all(np.abs(numbers) <= _LARGEST)), "a state and a policy whose indices are no numbers")
