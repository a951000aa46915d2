"""The constants of paper 000's simulations as its authors ran them (they are not the constants of its theorems).

    beta = sqrt(Gamma) sqrt(d) + 1/2 sqrt(d ln((1 + T L^2 / Gamma) T)),    L = sqrt 2,    ridge = 2 Gamma,

with one beta for the whole run; LinUCB has Gamma = 1 in beta and ridge 1e-4. Released are sums of (x y, x x^T) with

    LinUCB          nothing added
    LinUCB-LDP      every user: sigma = sqrt(ln(2.5/delta)) / epsilon,             Gamma = sigma sqrt(T d)
    LinUCB-SDP-Amp  every user: sigma = sqrt(ln(2.5 B/delta)) / (epsilon sqrt B),  Gamma = sigma sqrt(T d)
    LinUCB-JDP      every draw: sigma = sqrt(ln T) ln(2.5/delta) / epsilon,        Gamma = sigma sqrt(d ln T)
    LinUCB-SDP-Vec  every user: Bin(floor b, 1/4) per entry, in steps of L/g,
                    g = max(2 sqrt B, d, 4),   b = c g^2 ln(d/delta)^2 / (epsilon^2 B),
                    c = 1 at epsilon = 0.2 and 10 at 1 and 10,   Gamma = ln(d/delta) sqrt(T d) / (4 epsilon sqrt B)

Symbols: d `dim`, T `horizon`, B `batch`, beta `radius`, Gamma `spread`, g `steps`, b `bits`, c `factor`.
Reference: Chowdhury and Zhou 2022 [000], section 5; constants as in its authors' public code.
Deviations: c for epsilons that were not published is ours (1 below epsilon = 1). Vec's entries are taken to lie in
[-L, L], as its authors' code does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bandanna.core import require

ALGORITHMS = ("LinUCB", "LinUCB-LDP", "LinUCB-JDP", "LinUCB-SDP-Amp", "LinUCB-SDP-Vec")
LENGTH = math.sqrt(2)  # L, the norm of (u, 1)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One algorithm at one nominal budget, with the constants that follow from it (formulas above)."""

    algorithm: str
    epsilon: float
    delta: float = 0.1
    dim: int = 5
    horizon: int = 20_000
    batch: int = 20

    def __post_init__(self) -> None:
        require.one_of("algorithm", self.algorithm, ALGORITHMS)
        require.positive("epsilon", self.epsilon)
        require.chance("delta", self.delta)
        for name, least in (("dim", 2), ("horizon", 2), ("batch", 1)):
            object.__setattr__(self, name, require.whole(name, getattr(self, name), least=least))

    @property
    def every(self) -> int:
        """Rounds between two releases."""
        return self.batch if "SDP" in self.algorithm else 1

    @property
    def std(self) -> float:
        """sigma per entry and draw; for Vec that of the binomial bits of one user, 0 for LinUCB."""
        if self.algorithm == "LinUCB-LDP":
            return math.sqrt(math.log(2.5 / self.delta)) / self.epsilon
        if self.algorithm == "LinUCB-JDP":
            return math.sqrt(math.log(self.horizon)) * math.log(2.5 / self.delta) / self.epsilon
        if self.algorithm == "LinUCB-SDP-Amp":
            return math.sqrt(math.log(2.5 * self.batch / self.delta)) / (self.epsilon * math.sqrt(self.batch))
        if self.algorithm == "LinUCB-SDP-Vec":
            return LENGTH / self.steps * math.sqrt(math.floor(self.bits) * 3 / 16)
        return 0.0

    @property
    def steps(self) -> float:
        """g: Vec's steps per length L."""
        return max(2 * math.sqrt(self.batch), float(self.dim), 4.0)

    @property
    def bits(self) -> float:
        """b before truncation: Vec's random bits per user and entry."""
        factor = 1.0 if self.epsilon < 1 else 10.0  # c
        return factor * (self.steps * math.log(self.dim / self.delta) / self.epsilon) ** 2 / self.batch

    @property
    def spread(self) -> float:
        """Gamma."""
        if self.algorithm == "LinUCB":
            return 1.0
        if self.algorithm == "LinUCB-JDP":
            return self.std * math.sqrt(self.dim * math.log(self.horizon))
        if self.algorithm == "LinUCB-SDP-Vec":
            scale = math.log(self.dim / self.delta) / (4 * self.epsilon * math.sqrt(self.batch))
            return scale * math.sqrt(self.horizon * self.dim)
        return self.std * math.sqrt(self.horizon * self.dim)

    @property
    def ridge(self) -> float:
        """2 Gamma; 1e-4 for LinUCB."""
        return 1e-4 if self.algorithm == "LinUCB" else 2 * self.spread

    @property
    def radius(self) -> float:
        """beta."""
        growth = math.log((1 + self.horizon * LENGTH**2 / self.spread) * self.horizon)
        return math.sqrt(self.spread * self.dim) + 0.5 * math.sqrt(self.dim * growth)
