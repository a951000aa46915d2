"""Where the analyzer's noise comes from: the operating system, or in a seeded test the streams of a simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandanna.core.coins import Coins, SecureCoins, StreamCoins
from bandanna.core.streams import Streams
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.policies.base import Policy


class Randomness:
    """Noise and coins, from where they were; `stream`: the noise of stream protocols."""

    def __init__(self, policy: Policy[Any], seed: int | None, state: Any) -> None:
        self.source: NoiseSource = SecureNoise()
        self.stream: NoiseSource = self.source
        self.coins: Coins = SecureCoins()
        self._rngs: dict[str, np.random.Generator] = {}
        if seed is not None:
            streams, names = Streams([seed]), (policy.noise_stream, policy.stream_noise or policy.noise_stream)
            self._rngs = {name: streams.generators(name)[0] for name in names}
            for name, rng in self._rngs.items():
                if state is not None:
                    rng.bit_generator.state = state[name]
            self.source, self.stream = (FastNoise(self._rngs[name]) for name in names)
            self.coins = StreamCoins(streams).of(0)

    def state(self) -> Any:
        """Where seeded noise is now; None for secure noise."""
        return {name: rng.bit_generator.state for name, rng in self._rngs.items()} or None
