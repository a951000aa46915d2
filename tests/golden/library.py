"""Everything that the golden corpus takes from the library beside `bd.*`; adapt it after a renaming."""

from __future__ import annotations

from typing import Any

import numpy as np

import bandanna as bd
from bandanna import environments as worlds
from bandanna.policies.registry import ALGORITHMS
from bandanna.policies.regret_bounds import BOUNDS
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.comparison import compare_protocols as compare_protocols
from bandanna.protocols.comparison import compare_protocols_at_std as invert_protocols

__all__ = ["ALGORITHMS", "BOUNDS", "compare_protocols", "factorise", "invert_protocols", "worlds"]


def seeded(seed: int = 1) -> Any:
    return bd.device.FastNoise(np.random.default_rng(seed))


def guarantee_numbers(guarantee: Any) -> dict[str, Any]:
    shuffler = guarantee.shuffler
    return {
        "trust": guarantee.trust,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "rho": guarantee.rho,
        "unit": guarantee.unit,
        "participations": guarantee.participations,
        "adversary": guarantee.adversary,
        "exposed": guarantee.exposed,
        "against the shuffler": None if shuffler is None else [shuffler.epsilon, shuffler.delta],
    }


def coin_numbers(noise: Any) -> list[float]:
    """Lattice steps per unit, coins per user, users and probability of binomial noise."""
    return [noise.scale, noise.trials, noise.users, noise.probability]


def noise_numbers(protocol: Any) -> dict[str, Any]:
    """Calibrated noise: standard deviations of sums, and coins where there are some."""
    found: dict[str, Any] = {"bits per user": protocol.bits_per_user}
    if hasattr(protocol, "prefix_std"):
        stds = protocol.prefix_std()
        found["std"] = stds[np.unique(np.linspace(0, len(stds) - 1, 6).astype(int))]
    else:
        users = getattr(protocol, "batch", 10)
        found["std"] = [protocol.std(users), protocol.std(3 * users)]
    if hasattr(protocol, "noise"):
        found["coins"] = coin_numbers(protocol.noise)
    if hasattr(protocol, "noises"):
        found["coins"] = [coin_numbers(noise) for noise in protocol.noises]
        found["degrees"] = protocol.tree.degrees
    return found


def is_stream(protocol: Any) -> bool:
    """Whether it releases running sums of a whole stream."""
    return hasattr(protocol, "begin")


def first_protocol(policy: Any, arms: Any) -> Any:
    """The protocol of the first query of a policy; None where the policy's first episode asks nothing."""
    state = policy.init(arms)
    episode = policy.episode(state)
    asked = next(policy.learn(state, episode), None)
    return None if asked is None else asked.protocol
