"""The experiments of paper 003: its instances, what was run on them, and what it prints.

    table2   probit, d = 3, K = 20, T = 5000, S = 2, 2.5, 3;   nominal epsilon 4, 6, 8
    fig1a    logistic, d = 5, K = 20, T = 15000, S = 3.5;      nominal epsilon 1, 2, 4, 8
    fig1b    probit, d = 5, K = 20, T = 5000, S = 3;           nominal epsilon 1, 2, 4, 8

delta = 0.02 and failure = 0.02 throughout, kappa the instance's own (an oracle; ours have what S implies), 10 runs,
instance seed 109832.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandanna.environments.glm import PublishedGLM

DELTA, FAILURE, SEEDS = 0.02, 0.02, 10


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One instance with its nominal budgets and the algorithms that are run on it without privacy."""

    link: str
    dim: int
    norm: float  # S
    horizon: int
    epsilons: tuple[float, ...]
    baselines: tuple[str, ...]

    def environment(self, rounds: int) -> PublishedGLM:
        """The instance, cut off after so many rounds (kappa is that of these rounds)."""
        return PublishedGLM(dim=self.dim, n_arms=20, link=self.link, norm=self.norm, rounds=rounds)


_PROBIT = ("GLM-UCB", "GLOC", "RS-GLinUCB")
TABLE2 = tuple(
    Panel(link="probit", dim=3, norm=norm, horizon=5000, epsilons=(4.0, 6.0, 8.0), baselines=_PROBIT)
    for norm in (2.0, 2.5, 3.0)
)
FIG1A = (
    Panel(
        link="logistic",
        dim=5,
        norm=3.5,
        horizon=15_000,
        epsilons=(1.0, 2.0, 4.0, 8.0),
        baselines=("ECOLog", "GLOC", "RS-GLinUCB"),
    ),
)
FIG1B = (Panel(link="probit", dim=5, norm=3.0, horizon=5000, epsilons=(1.0, 2.0, 4.0, 8.0), baselines=_PROBIT),)

PRINTED: dict[tuple[str, float | None], tuple[float, float, float]] = {  # Table 2, S = 2, 2.5, 3
    ("GLM-UCB", None): (1400.27, 1943.23, 2323.06),
    ("GLOC", None): (384.68, 631.60, 1346.59),
    ("RS-GLinUCB", None): (289.69, 170.10, 200.62),
    ("Private-GLM", 4.0): (674.17, 721.26, 744.35),
    ("Private-GLM", 6.0): (516.58, 546.97, 559.04),
    ("Private-GLM", 8.0): (425.53, 445.27, 452.60),
}


def printed(algorithm: str, epsilon: float | None, norm: float) -> float | None:
    """Table 2's number for an algorithm of the paper."""
    row = PRINTED.get((algorithm, epsilon))
    return None if row is None else row[(2.0, 2.5, 3.0).index(norm)]
