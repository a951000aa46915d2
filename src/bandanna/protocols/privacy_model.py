"""Trust models with their budgets: none, central, local, shuffle, concurrent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidBudget, WeakPrivacyWarning
from bandanna.privacy import gdp
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.ledger import stated_delta
from bandanna.protocols.mixers import COIN_SOURCES
from bandanna.storage.encoding import stored_as
from bandanna.validation import checked_keywords, warn_outside

_WEAK = 10.0  # a larger epsilon gives a warning
_LOCAL = ("default", "gaussian", "unit", "auto")


@stored_as("Privacy")
@dataclass(frozen=True, kw_only=True)
class Privacy:
    """A trust model with its budget; policies turn it into a channel for their own statistics and schedule.

    `participations`: how many batches (central model: rounds) one user may take part in.
    `protocol`: of shuffled sums, see `shuffle`; of local reports, see `local`, where "default" leaves it to the policy.
    `shufflers` and `degrees`: of concurrent shufflers, see `concurrent`.
    `noise`: who draws that of shuffled sums, see `shuffle`.
    """

    model: str
    budget: Budget | None = None
    mechanism: str = "blt"
    protocol: str = "binomial"
    calibration: str = "tight"
    participations: int = 1
    shufflers: int | str = 1
    degrees: str | tuple[int, ...] = "best"
    noise: str = "device"

    def __post_init__(self) -> None:
        validation.one_of("model", self.model, ("none", "central", "local", "shuffle", "concurrent"))
        validation.one_of("mechanism", self.mechanism, ("blt", "tree", "independent"))
        others = _LOCAL if self.model == "local" else ("gaussian",)
        if validation.one_of("protocol", self.protocol, ("binomial", *others)) == "binomial" and self.model == "local":
            object.__setattr__(self, "protocol", "default")  # what the field says where nobody chose
        validation.one_of("calibration", self.calibration, ("tight", "paper"))
        if (self.protocol, self.calibration) == ("unit", "paper"):
            raise InvalidArgument("calibration", self.calibration, '"tight": directions have no printed noise')
        validation.set_validated(self, validation.integer, "participations")
        if self.model != "none" and not isinstance(self.budget, Budget):
            allowed = "an ApproxDP, PureDP, ZCDP or RenyiDP of bd.privacy; bd.none() for no protection"
            raise InvalidBudget("budget", self.budget, allowed)
        if self.model == "none" and self.budget is not None:
            raise InvalidBudget("budget", self.budget, 'left out: model="none" keeps no budget')
        if not isinstance(self.shufflers, str):
            validation.set_validated(self, validation.integer, "shufflers")
        elif self.shufflers != "best":
            raise InvalidArgument("shufflers", self.shufflers, 'a whole number >= 1, or "best"')
        if not isinstance(self.degrees, tuple):
            validation.one_of("degrees", self.degrees, ("best", "paper"))
        counted = self.model == "concurrent" or (self.model, self.protocol) == ("shuffle", "binomial")
        if validation.one_of("noise", self.noise, COIN_SOURCES) != "device" and not counted:
            allowed = '"device" but for sums of counts: bd.shuffle(...) with protocol="binomial", bd.concurrent(...)'
            raise InvalidArgument("noise", self.noise, allowed)
        self._warn_if_weak()

    @property
    def pure(self) -> bool:
        """Whether delta is 0: only Laplace noise and randomized answers are."""
        return isinstance(self.budget, PureDP) or (isinstance(self.budget, ApproxDP) and self.budget.delta == 0.0)

    @property
    def size(self) -> float:
        """rho or epsilon; infinite for no privacy."""
        return float(getattr(self.budget, "rho", getattr(self.budget, "epsilon", math.inf)))

    @property
    def isometric(self) -> bool:
        """Whether linear reports multiply the entries above the diagonal by sqrt 2.

        They do not where the noise is printed for every entry of x x^T: "paper" in all models but the central one,
        whose printed noise is a multiple of the sensitivity.
        """
        return self.calibration == "tight" or self.model in ("none", "central")

    def with_default_protocol(self, protocol: str) -> Privacy:
        """The same with this protocol for local reports, unless one was chosen: what a policy does best with."""
        validation.one_of("protocol", protocol, _LOCAL)
        open_ = self.model == "local" and self.protocol == "default"
        return replace(self, protocol=protocol) if open_ else self

    @property
    def noisy(self) -> bool:
        """False for no privacy and for epsilon = infinity, which both mean no noise."""
        return not math.isinf(self.size)

    def _warn_if_weak(self) -> None:
        """Warn of an epsilon above 10."""
        epsilon, named = (0.0, "") if self.budget is None else _describe_epsilon(self.budget)
        if epsilon > _WEAK:
            said = "one user's data may change the probability of what is seen by a factor of e^epsilon"
            advice = f"choose an epsilon of at most {_WEAK:g}"
            warn_outside(WeakPrivacyWarning(f"{named} protects little: {said}; {advice}"))

    def warn_if_delta_exceeds(self, horizon: int) -> None:
        """Warn of a delta above 1/horizon.

        Parameters
        ----------
        horizon
            How many users take part.
        """
        if self.noisy and isinstance(self.budget, ApproxDP) and self.budget.delta * horizon > 1:
            said = f"delta = {self.budget.delta:g} is more than 1/horizon = {1 / horizon:g}"
            advice = "a mechanism with this delta may publish some users' data as they are; choose a delta well below"
            warn_outside(WeakPrivacyWarning(f"{said}: {advice} 1/horizon"))


def none() -> Privacy:
    """No privacy: plain sums."""
    return Privacy(model="none")


@checked_keywords("bd.central")
def central(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    alpha: float | None = None,
    budget: Budget | None = None,
    mechanism: str = "blt",
    calibration: str = "tight",
    participations: int = 1,
) -> Privacy:
    """A trusted server publishes noisy sums: (epsilon, delta), delta = 0.0: pure, rho-zCDP, or Renyi with `alpha`.

    mechanism  running sums by "blt" or "tree", whose noise is one stream's; "independent": fresh noise for
               every batch, which needs less where users return often
    """
    budget = _make_budget(epsilon, delta, rho, alpha=alpha, whole=budget)
    return Privacy(
        model="central", budget=budget, mechanism=mechanism, calibration=calibration, participations=participations
    )


@checked_keywords("bd.local")
def local(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    budget: Budget | None = None,
    protocol: str = "default",
    calibration: str = "tight",
    participations: int = 1,
) -> Privacy:
    """Every device adds its own noise; users trust it alone.

    protocol    "gaussian" reports; "unit": random directions (PrivUnit), pure; "auto": whichever has less noise for the
                statistic; "default": as the policy prefers, Gaussian unless it says otherwise. Bits are answered at
                random under each of them.
    """
    budget = _make_budget(epsilon, delta, rho, whole=budget)
    return Privacy(
        model="local",
        budget=budget,
        protocol=validation.one_of("protocol", protocol, _LOCAL),
        calibration=calibration,
        participations=participations,
    )


@checked_keywords("bd.shuffle")
def shuffle(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    budget: Budget | None = None,
    protocol: str = "binomial",
    calibration: str = "tight",
    participations: int = 1,
    noise: str = "device",
) -> Privacy:
    """A shuffler stands between devices and server: "binomial" vector sums (P_Vec) or "gaussian" reports (P_Amp).

    noise  of binomial sums: "device": every user's device adds its own coins; "checked": so it does, and the shuffler
           refuses counts that honest devices hardly ever send; "mixer": the shuffler draws the coins of a whole batch.
           The same noise at the same price; with "mixer" the shuffler sees every statistic and is trusted to draw,
           and a hostile client has the influence of an honest one
    """
    budget = _make_budget(epsilon, delta, None, whole=budget)
    return Privacy(
        model="shuffle",
        budget=budget,
        protocol=protocol,
        calibration=calibration,
        participations=participations,
        noise=noise,
    )


@checked_keywords("bd.concurrent")
def concurrent(
    *,
    epsilon: float,
    delta: float,
    shufflers: int | str = "best",
    degrees: str | tuple[int, ...] = "best",
    calibration: str = "tight",
    noise: str = "device",
) -> Privacy:
    """Several shufflers at work at once, one for each level of a tree of batches; k = 1 is the sequential model.

    shufflers    k, or "best" for the number with the least error
    degrees      "best", "paper" (n^{1/(2k+1)} users in a lowest batch, n^{2/(2k+1)} batches in one above), or
                 (d_low, d_2, ..., d_k)
    calibration  "tight": prices of the levels compose in Gaussian DP; "paper": the printed noise of the vector sum for
                 (epsilon/k, delta/k) on each level
    noise        "device", "checked" or "mixer", as in `shuffle`: each level's shuffler is its mixer
    """
    budget = _make_budget(epsilon, delta, None)
    given = tuple(degrees) if isinstance(degrees, list) else degrees
    return Privacy(
        model="concurrent", budget=budget, shufflers=shufflers, degrees=given, calibration=calibration, noise=noise
    )


def _describe_epsilon(budget: Budget) -> tuple[float, str]:
    """The epsilon of a budget, and both in words; of rho, that of Gaussian noise at the delta of guarantees."""
    own = float(getattr(budget, "epsilon", 0.0))
    if own > _WEAK or not isinstance(budget, ZCDP | RenyiDP):
        return own, f"epsilon = {own:g}"
    delta = stated_delta(budget)
    epsilon = gdp.epsilon(delta, budget.mu())
    number = f"rho = {budget.rho:g}" if isinstance(budget, ZCDP) else f"alpha = {budget.alpha:g}, epsilon = {own:g}"
    return epsilon, f"{number}, which is epsilon = {epsilon:.4g} at delta = {delta:g},"


def _make_budget(
    epsilon: float | None,
    delta: float | None,
    rho: float | None,
    *,
    alpha: float | None = None,
    whole: Budget | None = None,
) -> Budget:
    """The budget that was given by its numbers, or whole."""
    given = [number for number in (epsilon, delta, rho, alpha) if number is not None]
    if whole is not None:
        if given or not isinstance(whole, Budget):
            raise InvalidBudget("budget", whole, "a Budget alone: ZCDP, ApproxDP, PureDP or RenyiDP")
        return whole
    if alpha is not None:
        if epsilon is None or len(given) > 2:
            raise InvalidBudget("alpha", alpha, "with epsilon alone: a Renyi budget")
        return RenyiDP(alpha=alpha, epsilon=epsilon)
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise InvalidBudget("rho", rho, "alone, without epsilon and delta")
        return ZCDP(rho=rho)
    if epsilon is None or delta is None:
        raise InvalidBudget("epsilon, delta", (epsilon, delta), "both, or rho alone")
    return ApproxDP(epsilon=epsilon, delta=delta)
