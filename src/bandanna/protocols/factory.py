"""Chooses and calibrates the protocol of a privacy model; stores protocols and their states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.device.base import Messages
from bandanna.device.domain import Bits, Domain
from bandanna.errors import CalibrationError, InvalidArgument, InvalidBudget
from bandanna.mechanisms.continual import BLTState, TreeNode, TreeState
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP, RenyiDP
from bandanna.privacy.calibration import BinomialNoise, binomial_noise_for_std, bit_noise_for_std
from bandanna.privacy.events import EVENTS
from bandanna.protocols import continual
from bandanna.protocols.base import BatchProtocol, check_domain
from bandanna.protocols.batch_tree import BatchTree
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.concurrent_shuffle import ConcurrentState as ConcurrentRunning
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.mixers import FullBatches, LevelMixerState, Mixer, MixerState
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.storage.encoding import (
    Encoding,
    check_readable,
    count_registrations,
    dataclasses_in,
    index_by_stored_name,
    matches_type,
)

_BITS = (1.001, 1.002, 1.005, 1.01, 1.02, 1.05)  # times the central noise, tried in turn
_VECTORS = (1.011, 1.017)
_LEAST, _MOST = 1e-30, 1e100  # beyond, prices leave the floats
_PURE = 'a number in (0, 1), local(protocol="unit"), or the central model with tight noise, which can be pure'
NEAR = 1.05  # the noise of a quick calibration is hardly ever farther above the central one
_LARGEST = 1e150  # of a number in a state: its square is a float


# Choice of the protocol


def protocol_for(privacy: Privacy, domain: Domain, users: int, *, quick: bool = False) -> BatchProtocol:
    """Return the calibrated protocol for sums of at most `users` users; in the shuffle model, of at least `users`.

        model      protocol                                      pure (delta = 0)
        none       Clear
        central    CentralGaussian                               CentralLaplace
        local      LocalGaussian, or LocalUnit if asked for      LocalUnit if asked for
                   LocalBits for bits                            LocalBits
        shuffle    ShuffleBinomial, or ShuffleBits for bits      -

    Parameters
    ----------
    privacy
        Privacy model and budget.
    domain
        Domain of the statistics.
    users
        Number of users in a batch.
    quick
        In the shuffle model, accept noise a little above the central one if the accountant finds it enough, instead of
        searching for the least. It serves policies with many batch sizes.

    Returns
    -------
    BatchProtocol
        The calibrated protocol.
    """
    if not isinstance(privacy, Privacy) or privacy.model == "concurrent":
        shown = privacy.model if isinstance(privacy, Privacy) else privacy
        allowed = "bd.none(), bd.central(...), bd.local(...) or bd.shuffle(...); concurrent shufflers sum whole streams"
        raise InvalidArgument("privacy", shown, allowed)
    check_domain(domain)
    validation.integer("users", users, most=2**63 - 1)
    sized = privacy.model == "shuffle" or privacy.pure  # other noise is the same for every number of users
    return _protocol_for(privacy, domain, users if sized else 0, quick)


@lru_cache(maxsize=8192)
def _protocol_for(privacy: Privacy, domain: Domain, users: int, quick: bool) -> BatchProtocol:
    if privacy.budget is None or not privacy.noisy:
        return Clear(domain=domain)
    check_budget_size(privacy)
    shared: dict[str, Any] = {"budget": privacy.budget, "participations": privacy.participations}
    if privacy.model == "shuffle":
        return _shuffle_protocol_for(privacy, domain, users, quick, shared)
    if privacy.model == "local" and isinstance(domain, Bits):
        return LocalBits.calibrate(**shared)
    if privacy.model == "local":
        return local_protocol_for(privacy, domain)
    if privacy.pure:
        if privacy.calibration == "paper":
            raise InvalidBudget("delta", 0.0, _PURE)
        return CentralLaplace.calibrate(domain=domain, users=users, **shared)
    return CentralGaussian.calibrate(domain=domain, calibration=privacy.calibration, **shared)


def local_protocol_for(privacy: Privacy, domain: Domain) -> LocalGaussian | LocalUnit:
    """Return the local protocol of vectors that `privacy.protocol` names; "auto" takes the least noise."""
    if not isinstance(privacy, Privacy) or privacy.model != "local" or not privacy.noisy:
        raise InvalidArgument("privacy", privacy, "bd.local(...) with a finite budget")
    return _local_protocol_for(privacy, check_domain(domain))


def list_local_protocols(privacy: Privacy) -> tuple[type[LocalGaussian | LocalUnit], ...]:
    """Return the types that `local_protocol_for` may return."""
    kinds: dict[str, tuple[type[LocalGaussian | LocalUnit], ...]] = {
        "unit": (LocalUnit,),
        "auto": (LocalGaussian, LocalUnit),
    }
    return kinds.get(privacy.protocol, (LocalGaussian,))


@lru_cache(maxsize=1024)
def _local_protocol_for(privacy: Privacy, domain: Domain) -> LocalGaussian | LocalUnit:
    shared: dict[str, Any] = {"domain": domain, "budget": privacy.budget, "participations": privacy.participations}
    if privacy.protocol == "unit":
        return LocalUnit.calibrate(**shared)
    unit = _find_direction_protocol(shared) if privacy.protocol == "auto" and privacy.calibration == "tight" else None
    if privacy.pure:
        if unit is None:
            raise InvalidBudget("delta", 0.0, _PURE)
        return unit
    gaussian = LocalGaussian.calibrate(calibration=privacy.calibration, **shared)
    return gaussian if unit is None or gaussian.std(1) <= unit.std(1) else unit


def _find_direction_protocol(shared: dict[str, Any]) -> LocalUnit | None:
    """Return `LocalUnit`, or None where it has no steps for dimension or epsilon."""
    try:
        return LocalUnit.calibrate(**shared)
    except (CalibrationError, InvalidArgument):
        return None


def check_budget_size(privacy: Privacy) -> None:
    """Refuse a budget that floats cannot price."""
    if not (_LEAST <= privacy.size <= _MOST or math.isinf(privacy.size)):
        allowed = f"rho or epsilon between {_LEAST:g} and {_MOST:g}, or infinite"
        raise InvalidBudget("budget", privacy.budget, allowed)


def _shuffle_protocol_for(
    privacy: Privacy, domain: Domain, users: int, quick: bool, shared: dict[str, Any]
) -> BatchProtocol:
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
    std = factor * (domain.sensitivity / _mu(budget))
    if isinstance(domain, Bits):
        try:
            return ShuffleBits(noise=bit_noise_for_std(std, users=users), delta=budget.delta, coins=coins)
        except CalibrationError:
            return None
    noise = binomial_noise_for_std(std, sensitivity=domain.sensitivity, dim=domain.dim, users=users, composed=False)
    return ShuffleBinomial(domain=domain, noise=noise, delta=budget.delta, coins=coins)


@lru_cache(maxsize=64)
def _mu(budget: ApproxDP) -> float:
    return budget.mu()


# Protocols and their states in files


PROTOCOLS = EVENTS | index_by_stored_name(
    Privacy,
    PureDP,
    ApproxDP,
    ZCDP,
    RenyiDP,
    Clear,
    CentralContinual,
    CentralGaussian,
    LocalGaussian,
    LocalBits,
    LocalUnit,
    ShuffleGaussian,
    ShuffleBinomial,
    ConcurrentShuffle,
    BatchTree,
    BinomialNoise,
    continual.ContinualState,
    ConcurrentRunning,
    LevelMixerState,
    MixerState,
    BLTState,
    TreeState,
    TreeNode,
)


def check_stream_state(given: Any, fresh: Any, steps: int) -> None:
    """Refuse a state that differs from a fresh one in types or shapes, or exceeds a sum's range."""
    check_readable(
        type(given) is type(fresh) or (matches_type(given, float) and type(fresh) is float), "a state of a wrong make"
    )
    if isinstance(given, np.ndarray):
        check_readable(given.shape == fresh.shape and given.dtype == fresh.dtype, "a state of a wrong shape")
        check_readable(bool(np.all(np.abs(given) <= _LARGEST)), "a state with numbers that no sum has")  # False for NaN
    elif isinstance(given, tuple):
        check_readable(len(given) == len(fresh), "a state of a wrong length")
        for part, other in zip(given, fresh, strict=True):
            check_stream_state(part, other, steps)
    elif isinstance(given, TreeState):
        check_readable(given.step == steps and len(given.nodes) == steps.bit_count(), "a tree with other nodes")
        for node in given.nodes:
            check_stream_state(node, TreeNode(exact=fresh.total, rest=fresh.total, estimate=fresh.total), steps)
        check_stream_state(given.total, fresh.total, steps)
    elif is_dataclass(given):
        check_readable(getattr(given, "step", steps) == steps, "a stream at another step")
        for field in fields(given):
            check_stream_state(getattr(given, field.name), getattr(fresh, field.name), steps)
    elif given is not None:
        check_readable(0 <= given <= _LARGEST, "a state with a count that is none")


def make_mixer_encoding() -> Encoding:
    """Return the encoding of what loaded mixers hold and forward."""
    return _make_encoding(count_registrations())


@lru_cache(maxsize=1)
def _make_encoding(_: int) -> Encoding:
    """Walk all fields' types once per set of classes, because closing a batch asks often."""
    return Encoding(dataclasses_in(Mixer, MixerState, LevelMixerState, FullBatches))


def mix_messages(
    mixer: Mixer, held: Any, messages: Messages, finish: Callable[[Mixer, Any], Any] | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """Pass a batch (users, length) through a mixer; return what it holds, and the views to forward.

    `finish` is called before each view is closed, for mixers that draw noise.
    """
    views = []
    for portion in mixer.split_portions(held, messages):
        held = mixer.add(held, portion)
        held = held if finish is None else finish(mixer, held)
        views.append(mixer.close(held))
        held = mixer.forget(held)
    return held, tuple(views)
