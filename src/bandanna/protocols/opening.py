"""One protocol for a batch of fresh users, by whom they trust: what a policy asks for when it says `privacy`.

model      protocol                                      pure (delta = 0)
none       Clear
central    CentralGaussian                               CentralLaplace
local      LocalGaussian, LocalBits for bits             LocalBits
           LocalUnit where asked for                     LocalUnit where asked for
shuffle    ShuffleBinomial, ShuffleBits for bits         -
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ApproxDP
from bandanna.accounting.calibration.binomial import noise_of_std
from bandanna.accounting.calibration.bits import bit_noise_of_std
from bandanna.core import require
from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.protocols.base import BatchProtocol, a_domain
from bandanna.protocols.central_gaussian import CentralGaussian
from bandanna.protocols.central_laplace import CentralLaplace
from bandanna.protocols.clear import Clear
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.local_gaussian import LocalGaussian
from bandanna.protocols.local_unit import LocalUnit
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.trust import Privacy

_BITS = (1.001, 1.002, 1.005, 1.01, 1.02, 1.05)  # times the central noise, tried in turn
_VECTORS = (1.011, 1.017)
_LEAST, _MOST = 1e-30, 1e100  # beyond, prices leave the floats
_PURE = 'a number in (0, 1), local(protocol="unit"), or the central model with tight noise, which can be pure'
NEAR = 1.05  # the noise of a quick calibration is hardly ever farther above the central one


def open_batch(privacy: Privacy, domain: Domain, users: int, *, quick: bool = False) -> BatchProtocol:
    """The calibrated protocol for sums of at most `users` users, of at least so many in the shuffle model.

    quick: in the shuffle model noise a little above the central one, if the accountant finds it enough, instead of a
    search for the least: for policies with many sizes of batches.
    """
    if not isinstance(privacy, Privacy) or privacy.model == "concurrent":
        shown = privacy.model if isinstance(privacy, Privacy) else privacy
        allowed = "bd.none(), bd.central(...), bd.local(...) or bd.shuffle(...); concurrent shufflers sum whole streams"
        raise InvalidArgument("privacy", shown, allowed)
    a_domain(domain)
    require.whole("users", users, most=2**63 - 1)
    sized = privacy.model == "shuffle" or privacy.pure  # other noise is the same for every number of users
    return _opened(privacy, domain, users if sized else 0, quick)


@lru_cache(maxsize=8192)
def _opened(privacy: Privacy, domain: Domain, users: int, quick: bool) -> BatchProtocol:
    if privacy.budget is None or not privacy.noisy:
        return Clear(domain=domain)
    check_size(privacy)
    shared: dict[str, Any] = {"budget": privacy.budget, "participations": privacy.participations}
    if privacy.model == "shuffle":
        return _shuffled(privacy, domain, users, quick, shared)
    if privacy.model == "local" and isinstance(domain, Bits):
        return LocalBits.calibrate(**shared)
    if privacy.model == "local":
        return open_local(privacy, domain)
    if privacy.pure:
        if privacy.calibration == "paper":
            raise InvalidBudget("delta", 0.0, _PURE)
        return CentralLaplace.calibrate(domain=domain, users=users, **shared)
    return CentralGaussian.calibrate(domain=domain, calibration=privacy.calibration, **shared)


def open_local(privacy: Privacy, domain: Domain) -> LocalGaussian | LocalUnit:
    """The protocol for local reports of vectors: as `privacy.protocol` says; "auto": the one of less noise.

    A policy that does better with "auto" than with Gaussian reports opens `privacy.preferring("auto")`.
    """
    if not isinstance(privacy, Privacy) or privacy.model != "local" or not privacy.noisy:
        raise InvalidArgument("privacy", privacy, "bd.local(...) with a finite budget")
    return _opened_local(privacy, a_domain(domain))


def local_kinds(privacy: Privacy) -> tuple[type[LocalGaussian | LocalUnit], ...]:
    """What `open_local` may make of it."""
    kinds: dict[str, tuple[type[LocalGaussian | LocalUnit], ...]] = {
        "unit": (LocalUnit,),
        "auto": (LocalGaussian, LocalUnit),
    }
    return kinds.get(privacy.protocol, (LocalGaussian,))


@lru_cache(maxsize=1024)
def _opened_local(privacy: Privacy, domain: Domain) -> LocalGaussian | LocalUnit:
    shared: dict[str, Any] = {"domain": domain, "budget": privacy.budget, "participations": privacy.participations}
    if privacy.protocol == "unit":
        return LocalUnit.calibrate(**shared)
    unit = _unit_if_any(shared) if privacy.protocol == "auto" and privacy.calibration == "tight" else None
    if privacy.pure:
        if unit is None:
            raise InvalidBudget("delta", 0.0, _PURE)
        return unit
    gaussian = LocalGaussian.calibrate(calibration=privacy.calibration, **shared)
    return gaussian if unit is None or gaussian.std(1) <= unit.std(1) else unit


def _unit_if_any(shared: dict[str, Any]) -> LocalUnit | None:
    """Directions, where there are any: not of one coordinate or very many, nor for an epsilon that steps exceed."""
    try:
        return LocalUnit.calibrate(**shared)
    except (CalibrationError, InvalidArgument):
        return None


def check_size(privacy: Privacy) -> None:
    """Refuse a budget that floats cannot price."""
    if not (_LEAST <= privacy.size <= _MOST or math.isinf(privacy.size)):
        allowed = f"rho or epsilon between {_LEAST:g} and {_MOST:g}, or infinite"
        raise InvalidBudget("budget", privacy.budget, allowed)


def _shuffled(privacy: Privacy, domain: Domain, users: int, quick: bool, shared: dict[str, Any]) -> BatchProtocol:
    """Binomial sums of bits or of vectors."""
    budget = privacy.budget
    if not isinstance(budget, ApproxDP) or privacy.pure or privacy.protocol != "binomial":
        allowed = 'epsilon and delta > 0, and protocol="binomial": shuffled sums have bounded noise'
        raise InvalidBudget("privacy", privacy, allowed)
    bits, tight = isinstance(domain, Bits), privacy.calibration == "tight"
    if quick and tight and privacy.participations == 1:
        for factor in _BITS if bits else _VECTORS:
            found = _near_central(domain, budget, users, factor, privacy.noise)
            if found is not None and accountant.satisfies(found.event, budget):
                return found
    if bits:
        return ShuffleBits.calibrate(batch=users, coins=privacy.noise, **shared)
    shared = {**shared, "calibration": privacy.calibration, "coins": privacy.noise}
    return ShuffleBinomial.calibrate(domain=domain, batch=users, **shared)


def _near_central(domain: Domain, budget: ApproxDP, users: int, factor: float, coins: str) -> BatchProtocol | None:
    """Binomial noise of so many times the central standard deviation."""
    std = factor * (domain.sensitivity / _mu(budget))
    if isinstance(domain, Bits):
        try:
            return ShuffleBits(noise=bit_noise_of_std(std, users=users), delta=budget.delta, coins=coins)
        except CalibrationError:
            return None
    noise = noise_of_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=users, composed=False)
    return ShuffleBinomial(domain=domain, noise=noise, delta=budget.delta, coins=coins)


@lru_cache(maxsize=64)
def _mu(budget: ApproxDP) -> float:
    return budget.mu()
