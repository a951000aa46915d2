"""LDP-UCB: every device sends one randomized bit about its reward; users trust it alone.

    P(bit = 1 | y) = (1 - q) + (2q - 1) (y - low)/w,   q = e^epsilon / (1 + e^epsilon)
    I_a(t) = low + w (mean of arm a's N bits - (1 - q)) / (2q - 1) + w / (2q - 1) sqrt(b log t / (2N))

Privacy: pure epsilon, local, by `LocalBits`: the reward is rounded to a bit at random, and the bit may lie.
Reference: Ren, Zhou, Liu and Shroff 2020 (LDP-UCB with Bernoulli responses).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic
from bandanna.errors import InvalidBudget
from bandanna.policies.arms.rewards import BITS
from bandanna.policies.arms.ucb1 import EveryRound
from bandanna.policies.base import Ask, Played
from bandanna.policies.named import PURE, algorithm
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.opening import open_batch
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as


@algorithm("LDP-UCB", paper="004", trust="local", guarantee="local DP, pure", budgets=(PURE,))
@stored_as("LDPUCB")
@dataclass(frozen=True, kw_only=True)
class LDPUCB(EveryRound):
    """Finite-armed UCB on randomized bits, over `horizon` rounds; rewards are clipped into `reward_range`."""

    trusts = ("local",)
    player = "lockstep"

    privacy: Privacy

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.privacy.noisy:
            raise InvalidBudget("privacy", self.privacy, "a finite epsilon > 0 (UCB1 is the policy without noise)")

    @cached_property
    def ask(self) -> Ask:
        """One answer."""
        return Ask(protocol=open_batch(self.privacy, BITS, 1))

    @property
    def protocol(self) -> LocalBits:
        """What a device answers."""
        assert isinstance(self.ask.protocol, LocalBits)
        return self.ask.protocol

    @property
    def scale(self) -> float:
        """Of log t / N: b / (2 (2q - 1)^2); the argmax of (I - low)/w is that of I."""
        return self.optimism / (2 * self.protocol.mechanism.truth**2)

    @property
    def bits_per_user(self) -> int:
        """The answer."""
        return self.protocol.bits_per_user

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """The reward, rounded to an end of its range at random."""
        return self.domain.bits(played, coins)
