"""Where the analyzer's noise comes from: the operating system, or in a seeded test the streams of a simulation."""

from __future__ import annotations

from typing import Any

from bandanna.core.coins import Coins, SecureCoins, StreamCoins
from bandanna.core.streams import Streams
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.policies.base import Policy


class Randomness:
    """Noise and coins, from where they were."""

    def __init__(self, policy: Policy[Any], seed: int | None, state: Any) -> None:
        self.source: NoiseSource = SecureNoise()
        self.coins: Coins = SecureCoins()
        self._rng = None
        if seed is not None:
            streams = Streams([seed])
            (self._rng,) = streams.generators(policy.noise_stream)
            if state is not None:
                self._rng.bit_generator.state = state
            self.source, self.coins = FastNoise(self._rng), StreamCoins(streams).of(0)

    def state(self) -> Any:
        """Where seeded noise is now; None for secure noise."""
        return None if self._rng is None else self._rng.bit_generator.state
