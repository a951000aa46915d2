"""Privacy models with their budgets: `none`, `central`, `local`, `shuffle` and `concurrent`."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from bandanna import validation
from bandanna.errors import InvalidArgument, InvalidBudget, WeakPrivacyWarning, format_value
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
    """A privacy model with its budget. Policies turn it into protocols for their own statistics and schedule.

    Parameters
    ----------
    participations
        Largest number of batches (central model: rounds) with the same user.
    protocol
        For shuffled sums as in `shuffle`, for local reports as in `local`; "default" leaves it to the policy.
    shufflers, degrees
        As in `concurrent`.
    noise
        The party that draws the noise of shuffled sums, as in `shuffle`.
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
            object.__setattr__(self, "protocol", "default")  # the field's value if the user did not choose
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

    def __repr__(self) -> str:
        shown = {
            each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) != each.default
        }
        return f"Privacy({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def pure(self) -> bool:
        """Whether delta is 0: Laplace noise, randomized response and random directions only."""
        return isinstance(self.budget, PureDP) or (isinstance(self.budget, ApproxDP) and self.budget.delta == 0.0)

    @property
    def size(self) -> float:
        """rho or epsilon; infinite without privacy."""
        return float(getattr(self.budget, "rho", getattr(self.budget, "epsilon", math.inf)))

    @property
    def isometric(self) -> bool:
        """Whether linear reports scale off-diagonal entries by sqrt 2, unlike noise printed per entry."""
        return self.calibration == "tight" or self.model in ("none", "central")

    def with_default_protocol(self, protocol: str) -> Privacy:
        """Return this model with a local protocol, unless the user chose one."""
        validation.one_of("protocol", protocol, _LOCAL)
        open_ = self.model == "local" and self.protocol == "default"
        return replace(self, protocol=protocol) if open_ else self

    @property
    def noisy(self) -> bool:
        """False for no privacy and for epsilon = infinity."""
        return not math.isinf(self.size)

    def _warn_if_weak(self) -> None:
        epsilon, named = (0.0, "") if self.budget is None else _describe_epsilon(self.budget)
        if epsilon > _WEAK:
            reason = "one user's data may change the probability of what is seen by a factor of e^epsilon"
            advice = f"choose an epsilon of at most {_WEAK:g}"
            warn_outside(WeakPrivacyWarning(f"{named} protects little: {reason}; {advice}"))

    def warn_if_delta_exceeds(self, horizon: int) -> None:
        """Warn if delta is above 1/horizon."""
        delta = self.budget.delta if self.noisy and isinstance(self.budget, ApproxDP) else 0.0
        if delta > 0 and horizon > 1 / delta:  # compared without making a float of a very large horizon
            reason = f"delta = {delta:g} is more than 1/horizon = {1 / horizon:g}"
            advice = "a mechanism with this delta may publish some users' data as they are; choose a delta well below"
            warn_outside(WeakPrivacyWarning(f"{reason}: {advice} 1/horizon"))


@checked_keywords("bd.none")
def none() -> Privacy:
    """Return the model without privacy: plain sums."""
    return Privacy(model="none")


@checked_keywords("bd.central")
def central(
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    alpha: float | None = None,
    budget: Budget | None = None,
    mechanism: str = "blt",
    calibration: str = "tight",
    participations: int = 1,
) -> Privacy:
    """Central model: a trusted server sees all statistics and publishes noisy sums.

    Parameters
    ----------
    epsilon, delta, rho, alpha, budget
        (epsilon, delta), where delta = 0.0 is pure; rho for zCDP; epsilon and alpha for Renyi DP; or a whole budget.
    mechanism
        "blt" or "tree": running sums with the noise of one stream. "independent": fresh noise for every batch, which
        needs less if users return often.
    calibration
        "tight", or "paper" for the printed noise.
    participations
        Largest number of batches (central model: rounds) with the same user.
    """
    budget = _make_budget("central", epsilon, delta, rho, alpha=alpha, whole=budget)
    return Privacy(
        model="central", budget=budget, mechanism=mechanism, calibration=calibration, participations=participations
    )


@checked_keywords("bd.local")
def local(
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    rho: float | None = None,
    budget: Budget | None = None,
    protocol: str = "default",
    calibration: str = "tight",
    participations: int = 1,
) -> Privacy:
    """Local model: each device adds enough noise to protect its own report. Users trust nobody else.

    Parameters
    ----------
    epsilon, delta, rho, budget, calibration, participations
        As in `central`.
    protocol
        "gaussian", "unit" (random directions, PrivUnit; pure), "auto" (the one with less noise) or "default" (the
        policy's choice, "gaussian" for most). Single bits always use randomized response.
    """
    if delta is None and rho is None and budget is None:
        delta = 0.0
    budget = _make_budget("local", epsilon, delta, rho, whole=budget)
    return Privacy(
        model="local",
        budget=budget,
        protocol=validation.one_of("protocol", protocol, _LOCAL),
        calibration=calibration,
        participations=participations,
    )


@checked_keywords("bd.shuffle")
def shuffle(
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    budget: Budget | None = None,
    protocol: str = "binomial",
    calibration: str = "tight",
    participations: int = 1,
    noise: str = "device",
) -> Privacy:
    """Shuffle model: devices add noise, and a shuffler forwards only what hides the senders.

    Parameters
    ----------
    epsilon, delta, budget, calibration, participations
        As in `central`.
    protocol
        "binomial": noisy integer counts, forwarded as sums (P_Vec). "gaussian": noisy reports in random order (P_Amp).
    noise
        The party that draws binomial noise, at the same price. "device": each device. "checked": each device, and the
        shuffler refuses counts that honest devices hardly ever send. "mixer": the shuffler, which then sees every
        statistic and is trusted to draw.
    """
    budget = _make_budget("shuffle", epsilon, delta, whole=budget)
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
    epsilon: float | None = None,
    delta: float | None = None,
    *,
    shufflers: int | str = "best",
    degrees: str | tuple[int, ...] = "best",
    calibration: str = "tight",
    noise: str = "device",
) -> Privacy:
    """Shuffle model with several shufflers at once, one for each level of a tree of batches.

    Parameters
    ----------
    epsilon, delta, calibration
        As in `central`; calibration="paper" gives each level the printed noise for (epsilon/k, delta/k).
    shufflers
        Number of levels k, or "best" for the k with the least error. 1 is the sequential model.
    degrees
        "best", "paper" (n^{1/(2k+1)} users in a lowest batch, n^{2/(2k+1)} batches in one above), or (d_low, d_2, ...).
    noise
        As in `shuffle`, for each level's shuffler.
    """
    budget = _make_budget("concurrent", epsilon, delta)
    given = tuple(degrees) if isinstance(degrees, list) else degrees
    return Privacy(
        model="concurrent", budget=budget, shufflers=shufflers, degrees=given, calibration=calibration, noise=noise
    )


def _describe_epsilon(budget: Budget) -> tuple[float, str]:
    """Return a budget's epsilon, for rho at the stated delta, and its words."""
    own = float(getattr(budget, "epsilon", 0.0))
    if own > _WEAK or not isinstance(budget, ZCDP | RenyiDP):
        return own, f"epsilon = {own:g}"
    delta = stated_delta(budget)
    epsilon = gdp.epsilon(delta, budget.mu())
    number = f"rho = {budget.rho:g}" if isinstance(budget, ZCDP) else f"alpha = {budget.alpha:g}, epsilon = {own:g}"
    return epsilon, f"{number}, which is epsilon = {epsilon:.4g} at delta = {delta:g},"


def _make_budget(
    model: str,
    epsilon: float | None,
    delta: float | None,
    rho: float | None = None,
    *,
    alpha: float | None = None,
    whole: Budget | None = None,
) -> Budget:
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
    if epsilon is None:
        raise InvalidBudget("epsilon", None, f"a number, as in bd.{model}(1.0{', 1e-6' * (model != 'local')})")
    if delta is None:
        advice = f"a number well below 1 / (number of users), as in bd.{model}({format_value(epsilon)}, 1e-6)"
        raise InvalidBudget("delta", None, advice + "; 0.0 for Laplace noise" * (model == "central"))
    return ApproxDP(epsilon=epsilon, delta=delta)
