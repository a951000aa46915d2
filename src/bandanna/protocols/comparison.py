"""Comparison of all protocols at one budget or at one noise level; one release that is recorded in a ledger."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bandanna import validation
from bandanna.device.domain import Domain, Estimate, Statistic
from bandanna.device.noise import NoiseSource
from bandanna.device.randomizers import CAP_COORDINATES
from bandanna.errors import BandannaError, CalibrationError, OutsideTheorem
from bandanna.privacy.budgets import Budget
from bandanna.privacy.calibration import binomial_noise_for_std
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.spherical_cap import LocalUnit

PROTOCOL_NAMES = (
    Clear.name,
    CentralGaussian.name,
    CentralContinual.name,
    ShuffleBinomial.name,
    ShuffleGaussian.name,
    LocalGaussian.name,
    LocalUnit.name,
)


@dataclass(frozen=True, kw_only=True)
class ComparisonRow:
    """One protocol; `std` is per (scaled) coordinate of the batch sum or worst prefix."""

    protocol: str
    std: float | None = None
    bits_per_user: int | None = None
    guarantee: Guarantee | None = None
    ratio_to_central: float | None = None
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; infinite numbers become None."""
        stated = self.guarantee.to_dict() if self.guarantee is not None else {}
        return {
            "protocol": self.protocol,
            "std": self.std,
            "bits_per_user": self.bits_per_user,
            "epsilon": stated.get("epsilon"),
            "delta": stated.get("delta"),
            "ratio_to_central": self.ratio_to_central,
            "guarantee": stated or None,
            "note": self.note,
        }


def compare_protocols(
    *,
    domain: Domain,
    budget: Budget,
    batch: int,
    participations: int = 1,
    horizon: int | None = None,
    mechanism: str = "blt",
    calibration: str = "tight",
    bits_limit: float = 1e6,
    progress: Callable[[str], None] = lambda name: None,
) -> list[ComparisonRow]:
    """Return each protocol's noise for one budget; rows outside a paper's theorem say why."""
    batch = validation.integer("batch", batch, least=2)
    steps = batch if horizon is None else horizon
    users: dict[str, Any] = {"participations": participations, "calibration": calibration}
    makers: dict[str, Callable[[], Protocol]] = {
        Clear.name: lambda: Clear.calibrate(domain=domain, budget=budget),
        CentralGaussian.name: lambda: CentralGaussian.calibrate(domain=domain, budget=budget, **users),
        CentralContinual.name: lambda: CentralContinual.calibrate(
            domain=domain, budget=budget, horizon=steps, mechanism=mechanism, **users
        ),
        ShuffleBinomial.name: lambda: ShuffleBinomial.calibrate(
            domain=domain, budget=budget, batch=batch, bits_limit=bits_limit, **users
        ),
        ShuffleGaussian.name: lambda: ShuffleGaussian.calibrate(domain=domain, budget=budget, batch=batch, **users),
        LocalGaussian.name: lambda: LocalGaussian.calibrate(domain=domain, budget=budget, **users),
        LocalUnit.name: lambda: _direction_protocol(domain, calibration).calibrate(
            domain=domain, budget=budget, participations=participations
        ),
    }
    return _rows(makers, batch, progress)


def compare_protocols_at_std(
    *,
    domain: Domain,
    std: float,
    delta: float,
    batch: int,
    participations: int = 1,
    horizon: int | None = None,
    mechanism: str = "blt",
    progress: Callable[[str], None] = lambda name: None,
) -> list[ComparisonRow]:
    """Return each protocol's guarantee at `delta` for a sum (or worst prefix) with this std."""
    std, batch = validation.positive("std", std), validation.integer("batch", batch, least=2)
    common: dict[str, Any] = {"domain": domain, "participations": participations, "delta": validation.delta(delta)}
    factors = factorise(mechanism, horizon=batch if horizon is None else horizon)
    report = std / math.sqrt(batch)
    composed = participations > 1
    noise = binomial_noise_for_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=batch, composed=composed)
    makers: dict[str, Callable[[], Protocol]] = {
        Clear.name: lambda: Clear(**common),
        CentralGaussian.name: lambda: CentralGaussian(noise_std=std, **common),
        CentralContinual.name: lambda: CentralContinual(
            factorisation=factors, noise_std=std / factors.error(), **common
        ),
        ShuffleBinomial.name: lambda: ShuffleBinomial(noise=noise, **common),
        ShuffleGaussian.name: lambda: ShuffleGaussian(batch=batch, noise_std=report, **common),
        LocalGaussian.name: lambda: LocalGaussian(noise_std=report, **common),
        LocalUnit.name: lambda: _direction_protocol(domain, "tight").of_std(std=report, **common),
    }
    return _rows(makers, batch, progress)


def _direction_protocol(domain: Domain, calibration: str) -> type[LocalUnit]:
    if calibration == "paper":
        raise CalibrationError("random directions have no printed noise")
    if not 2 <= domain.dim <= CAP_COORDINATES:
        raise CalibrationError(f"random directions have from 2 to {CAP_COORDINATES:,} coordinates")
    return LocalUnit


def _rows(
    makers: dict[str, Callable[[], Protocol]], batch: int, progress: Callable[[str], None]
) -> list[ComparisonRow]:
    made: dict[str, Protocol | BandannaError] = {}
    for name in PROTOCOL_NAMES:
        progress(name)
        try:
            made[name] = makers[name]()
        except (OutsideTheorem, CalibrationError) as outside:
            made[name] = outside
    central = made[CentralGaussian.name]
    base = _std(central, batch) if isinstance(central, Protocol) else None
    return [
        ComparisonRow(
            protocol=name,
            std=_std(protocol, batch),
            bits_per_user=protocol.bits_per_user,
            guarantee=protocol.guarantee,
            ratio_to_central=_std(protocol, batch) / base if base else None,
        )
        if isinstance(protocol, Protocol)
        else ComparisonRow(
            protocol=name,
            note=f"outside the paper's theorem: {protocol}" if isinstance(protocol, OutsideTheorem) else str(protocol),
        )
        for name, protocol in made.items()
    ]


def _std(protocol: Protocol, batch: int) -> float:
    if isinstance(protocol, BatchProtocol):
        return protocol.std(batch)
    assert isinstance(protocol, CentralContinual)
    return protocol.std()


def release_recorded(
    protocol: BatchProtocol, statistic: Statistic, source: NoiseSource, *, ledger: Ledger | None, task: str
) -> Estimate:
    """Release one batch, recorded under `task` first: a repeated call returns the same."""
    if ledger is None:
        return protocol.release(statistic, source)
    released: Estimate = ledger.release(
        protocol.event, task=task, batch=0, data=statistic, draw=lambda: protocol.release(statistic, source)
    )
    return released
