"""A policy's episodes as batches on the wire: what mixers and devices must know of them, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.device import SecureNoise
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.mechanisms.sources import FastNoise, NoiseSource
from bandanna.policies.base import Ask, Assigned, Episode, Policy, Until
from bandanna.protocols.base import StreamProtocol
from bandanna.protocols.concurrent_shuffle.shuffler import LevelMixer
from bandanna.protocols.mixing import mixers
from bandanna.protocols.roles import Adding, Mixer
from bandanna.protocols.shuffle_gaussian.shuffler import Sorting
from bandanna.tasks.asking import Planned, planned, users_of
from bandanna.wire.plan import Batch, Part, Round

_ROWS = ("none", "central")  # trust models whose server is sent rows as they are


def sends_rows(policy: Policy[Any]) -> bool:
    """Whether devices send what happened, for a server that is trusted with it; else they send protected reports."""
    return policy.privacy.model in _ROWS


def check_deployable(policy: Policy[Any]) -> None:
    """Refuse a policy whose episodes end round by round: devices would have to act one after the other."""
    if type(policy).crossing is not Policy.crossing:
        allowed = "one whose episodes have public lengths: this one looks at every round; run it as bandanna.Agent"
        raise InvalidArgument("policy", type(policy).__name__, allowed)


def batch_of(
    policy: Policy[Any], state: Any, episode: Episode, *, epoch: int, mixer_count: int, seeded: bool
) -> tuple[Batch, Planned]:
    """The public plan of an episode, and its asks; without rounds where nothing is released."""
    if isinstance(episode, Until):
        check_deployable(policy)
    assigned = episode if isinstance(episode, Assigned) else None
    rows, plan = sends_rows(policy), Planned(asks=(), rounds=())
    if rows and episode.released:
        averages = 1 if assigned is None or assigned.clients is None else len(assigned.arms)
        length = int(getattr(policy, "dim", 0)) + averages + 3  # arm, group, whether there was an answer
        rounds: tuple[Round, ...] = (Round(parts=(Part(form="row", dtype="<f8", length=length),)),)
    else:
        plan = planned(policy, state, episode)
        rounds = tuple(
            Round(parts=tuple(_part(ask, mixer_count=mixer_count, seeded=seeded) for ask in plan.round_of(number)))
            for number in range(len(plan.rounds))
        )
        for each in rounds:
            _check_lengths(each)
    made = Batch(
        epoch=epoch,
        episode=episode.number,
        slots=users_of(episode),
        rounds=rounds,
        arms=() if assigned is None else tuple(assigned.arms.tolist()),
        plays=() if assigned is None else tuple(assigned.plays.tolist()),
        in_turn=assigned is not None and assigned.in_turn,
        clients=assigned is not None and assigned.clients is not None,
    )
    return made, plan


def _part(ask: Ask, *, mixer_count: int, seeded: bool) -> Part:
    mixer, stream = ask.protocol.mixer, isinstance(ask.protocol, StreamProtocol)
    form, dtype = "plain", _dtype(ask, seeded)
    if mixer_count == 2:
        if not isinstance(mixer, Adding | LevelMixer):
            raise InvalidArgument("mixers", 2, f"1 with {ask.protocol.name}: only counts can be split into shares")
        form, dtype = "shares", "<u8"
    elif isinstance(mixer, Sorting) and ask.protocol.trust == "shuffle":
        form = "sealed"
    return Part(
        arm=ask.arm,
        form=form,
        dtype=dtype,
        length=mixer.length,
        stream=ask.stream if stream else None,
        mixer=mixers().dumps(mixer),
    )


def _dtype(ask: Ask, seeded: bool) -> str:
    """Counts are not negative; whatever else a device sends are steps of a grid, or reals in a seeded test."""
    if isinstance(ask.protocol.mixer, Adding | LevelMixer):
        return "<u4" if _largest(ask.protocol.mixer) < 2**32 else "<u8"
    source: NoiseSource = FastNoise(np.random.default_rng(0)) if seeded else SecureNoise()
    return "<i8" if ask.protocol.device.zero(source).dtype.kind in "iu" else "<f8"


def _largest(mixer: Mixer) -> int:
    levels = mixer.levels if isinstance(mixer, LevelMixer) else (mixer,)
    return max(int(np.max(level.largest)) for level in levels if isinstance(level, Adding))


def _check_lengths(round_: Round) -> None:
    """In one round everybody reports for all its parts, or everybody for the own arm, at one length."""
    arms = {part.arm is None for part in round_.parts}
    if len(arms) > 1 or (round_.by_arm and len({(part.size, part.dtype) for part in round_.parts}) > 1):
        raise BandannaError("asks of one round whose reports have different lengths: not deployable")
