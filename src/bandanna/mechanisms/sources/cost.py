"""How long secure noise takes: random numbers of a release, counted before it, and the time of one."""

from __future__ import annotations

from dataclasses import dataclass

# Seconds on one core of a server of 2026
RELEASE = 1e-3  # any release: checks, linear algebra, the ledger
GAUSSIAN = 2.5e-7  # a discrete Gaussian or Laplace
WORD = 1e-7  # a binomial of up to 2^24 trials
NUMBER = 1e-7  # a number of a user's statistic: clipped, rounded, added, fingerprinted


@dataclass(frozen=True, kw_only=True)
class Draws:
    """What a release takes: discrete Gaussians (or Laplaces), words for binomials, numbers of its users' statistics."""

    gaussians: int = 0
    words: int = 0
    numbers: int = 0

    def seconds(self, *, secure: bool) -> float:
        """An estimate, right to a factor of 3 or so; seeded noise takes no time that matters."""
        noise = GAUSSIAN * self.gaussians + WORD * self.words if secure else 0.0
        return RELEASE + noise + NUMBER * self.numbers
