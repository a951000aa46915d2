"""Find the tilt and power of an antenna that serve a whole cell, from private answers of a few phones.

A base station has one configuration at a time, which affects all phones in the cell. Throughput is modelled as linear
in features of the configuration (a second-order polynomial in tilt and power), a little different for every phone. The
set of configurations is infinite; a net of radius 0.08 makes it finite. All data are synthetic.

    python examples/antenna_tilt.py
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import bandanna as bd
from bandanna.numeric.rng import SecureRandomness
from bandanna.policies.base import PlayedRounds, SumQuery, drive_learning
from bandanna.policies.design import epsilon_net
from bandanna.simulation.environments.population import Population

Floats = NDArray[np.float64]

THETA = np.array([0.10, 0.62, -0.58, 0.30, -0.24, 0.12])  # the mean reward of the cell, unknown to the policy
HORIZON = 200_000  # rounds: one every few seconds for a week
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def features(settings: Floats) -> Floats:
    """Map tilt in [0, 12] degrees and power in [10, 46] dBm to vectors of norm at most 1: (n, 2) -> (n, 6)."""
    tilt, power = 2 * settings[:, 0] / 12 - 1, 2 * (settings[:, 1] - 10) / 36 - 1
    columns = [np.ones_like(tilt), tilt, tilt**2, power, power**2, tilt * power]
    return np.stack(columns, axis=1) / np.sqrt(6)


def configurations() -> tuple[Floats, Floats]:
    """Return settings whose features form a net of all configurations, and the features."""
    tilts, powers = np.meshgrid(np.linspace(0, 12, 121), np.linspace(10, 46, 91))
    settings = np.stack([tilts.ravel(), powers.ravel()], axis=1)
    net = epsilon_net(features(settings), radius=0.08)
    places = [int(np.argmin(np.sum((features(settings) - x) ** 2, axis=1))) for x in net]
    return settings[places], net


def compare(net: Floats) -> None:
    """Print the regret of each privacy model in simulated cells."""
    cell = Population(arms=net, theta=THETA, sigma=0.1)
    for name in ("DPE", "CDP-DPE", "SDP-DPE", "LDP-DPE"):
        policy = bd.make(name, dim=6, horizon=HORIZON, sigma=0.1, **({} if name == "DPE" else BUDGET))
        result = bd.simulate(policy, cell, n_seeds=10)
        asked, bits = result.counts["clients"].mean(), result.counts["bits"].mean() / 8e3
        print(f"{name:8} regret {result.mean()[-1]:8,.0f}   {asked:6,.0f} phones asked, {bits:8,.0f} kB in all")


def operate(net: Floats, settings: Floats) -> None:
    """Run the policy step by step as a base station would, with secure noise."""
    phones = np.random.default_rng(1)  # stands for the cell; the noise comes from the operating system
    policy = bd.make("SDP-DPE", dim=6, horizon=HORIZON, sigma=0.1, **BUDGET)
    state, played = policy.init(net), 0
    while len(state.active) > 1:
        phase = policy.episode(state)  # public: what to play, how often, and how many phones to ask
        played += int(np.sum(phase.plays))
        if played > HORIZON:  # a phase that cannot be finished is not released
            break
        models = THETA + 0.1 * phones.standard_normal((phase.clients, 6))
        chances = np.clip((1 + models @ net[phase.arms].T) / 2, 0, 1)
        averages = 2 * phones.binomial(phase.plays, chances) / phase.plays - 1  # each phone's, in [-1, 1]

        def answer(query: SumQuery, seen: PlayedRounds = PlayedRounds(rewards=averages)) -> bd.device.Estimate:  # noqa: B008
            return query.protocol.release(policy.report(query, seen, SecureRandomness()), bd.device.SecureNoise())

        state = drive_learning(policy.learn(state, phase), answer)
    best = int(np.argmax(net @ THETA))
    kept = settings[state.active]
    print(f"{len(kept)} of {len(net)} configurations are left after {state.number - 1} phases: tilt", end=" ")
    print(f"{kept[:, 0].min():.1f} to {kept[:, 0].max():.1f} degrees, power {kept[:, 1].min():.0f} to", end=" ")
    print(f"{kept[:, 1].max():.0f} dBm (best: {settings[best, 0]:.1f}, {settings[best, 1]:.0f})")
    print(policy.guarantee)


if __name__ == "__main__":
    chosen, actions = configurations()
    print(f"{len(actions)} configurations")
    compare(actions)
    operate(actions, chosen)
