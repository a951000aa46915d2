"""What a device must know that has no policy: how to choose, what to tell, and which reports it may be asked for.

It stands in the task's document (`device`), so that its noise is bound by the document's hash: an analyzer that
announces another batch gets no report from a client that knows nothing but this.

    choose   a chooser of `device.choosing`, as plain values
    tells    by round and part, tells of `device.telling`; {"kind": "Row"} for a server that is trusted with rows
    plans    of every kind of batch: the digest of its rounds, for how many users at least, and by round and part the
             device that protects what is told (None for rows)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bandanna.device.base import plain
from bandanna.device.choosing import ByPlace
from bandanna.device.telling import Rewarded, Tell
from bandanna.policies.arms.successive_elimination import Elimination
from bandanna.policies.base import Ask, Assigned, Episode, Frozen, Policy
from bandanna.policies.linear.rewards_only import LinTSRewards
from bandanna.policies.linear.sums import LinearSums
from bandanna.tasks.batches import batch_of, sends_rows
from bandanna.wire.leaflets import VERSION, least_users, rounds_digest

_MOST = 1_000  # different sizes of batches


def leaflet(policy: Policy[Any], features: Any, *, mixers: int, seeded: bool) -> dict[str, Any] | None:
    """Plain values for JSON; None where a device needs the policy itself.

    seeded  tests whose noise follows from a seed are played by crowds that have it
    """
    if seeded:
        return None
    state = policy.init(features)
    known = _chosen(policy) if isinstance(policy, LinearSums | LinTSRewards) else _placed(policy, state)
    if known is None:
        return None
    choose, tells, episodes = known
    rows, plans = sends_rows(policy), dict[str, dict[str, Any]]()
    for episode in episodes:
        batch, planned = batch_of(policy, state, episode, epoch=0, mixer_count=mixers, seeded=False)
        asks = [planned.round_of(number) for number in range(len(planned.rounds))]
        told = batch.to_dict()
        rounds, devices = rounds_digest(told), [[None]] if rows else [_devices(each) for each in asks]
        users = 1 if rows else least_users(told)
        found = plans.setdefault(rounds, {"rounds": rounds, "users": users, "devices": devices})
        if found["devices"] != devices:
            return None  # what is announced would not tell which
    return {
        "version": VERSION,
        "participations": policy.privacy.participations,
        "choose": plain(choose),
        "tells": [[{"kind": "Row"}]] if rows else [[plain(each) for each in tells]],
        "plans": list(plans.values()),
    }


Known = tuple[Any, tuple[Tell, ...], list[Episode]]  # how to choose, what to tell, an episode of every size


def _chosen(policy: LinearSums | LinTSRewards) -> Known | None:
    """Where devices choose: batches of the schedule."""
    sizes = sorted(policy.channel.sizes.counts())
    episodes: list[Episode] = [Frozen(number=0, users=users) for users in sizes]
    tells = policy.tell if isinstance(policy, LinTSRewards) else (policy.tell,)
    return (policy.choose, tells, episodes) if len(sizes) <= _MOST else None


def _placed(policy: Policy[Any], state: Any) -> Known | None:
    """Where places say what is played: one of the episodes if the server is sent rows, else those of elimination."""
    first = policy.episode(state)
    if not isinstance(first, Assigned) or first.clients is not None:
        return None
    choose = ByPlace(features=int(getattr(policy, "dim", 0)))
    if sends_rows(policy):
        return choose, (), [first]
    if not isinstance(policy, Elimination) or not policy.shuffled:
        return None
    low, high = policy.domain.low, policy.domain.high
    episodes: list[Episode] = [replace(first, plays=np.full(len(first.arms), users)) for users in policy.sizes]
    return choose, (Rewarded(low=low, high=high),), episodes


def _devices(asks: tuple[Ask, ...]) -> list[dict[str, Any]]:
    """Of every part; of one arm, where everybody reports for the own."""
    return [ask.protocol.device.parameters for ask in (asks[:1] if asks[0].arm is not None else asks)]
