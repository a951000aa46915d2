"""From a trust model to the calibrated protocol of a counter."""

from __future__ import annotations

from functools import lru_cache

from bandanna.core.domain import Domain
from bandanna.core.shapes import Bits
from bandanna.errors import InvalidArgument
from bandanna.protocols.base import BatchProtocol, StreamProtocol
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.local_bits import LocalBits
from bandanna.protocols.opening import open_local
from bandanna.protocols.trust import Privacy


@lru_cache(maxsize=128)  # protocols are values: counters of the same kind share one
def open_protocol(privacy: Privacy, domain: Domain, horizon: int) -> StreamProtocol | BatchProtocol:
    """Least noise for a stream of `horizon` users, one value each."""
    if privacy.budget is None or not privacy.noisy:
        return Clear(domain=domain)
    if privacy.model == "central":
        return CentralContinual.calibrate(
            domain=domain,
            budget=privacy.budget,
            horizon=horizon,
            mechanism=privacy.mechanism,
            participations=privacy.participations,
            calibration=privacy.calibration,
        )
    if privacy.model == "local" and isinstance(domain, Bits) and privacy.calibration == "tight":
        return LocalBits.calibrate(budget=privacy.budget, participations=privacy.participations)
    if privacy.model == "local":
        return open_local(privacy, domain)
    _check_shuffle(privacy)
    return ConcurrentShuffle.calibrate(
        domain=domain,
        budget=privacy.budget,
        horizon=horizon,
        shufflers=privacy.shufflers,
        degrees=privacy.degrees,
        calibration=privacy.calibration,
        coins=privacy.noise,
    )


def _check_shuffle(privacy: Privacy) -> None:
    """The sequential model is one shuffler; there is no counter of shuffled Gaussians or for returning users."""
    if privacy.participations != 1:
        raise InvalidArgument("participations", privacy.participations, "1: a counter meets every user once")
    if privacy.model == "shuffle" and (privacy.protocol, privacy.calibration) != ("binomial", "tight"):
        given = (privacy.protocol, privacy.calibration)
        raise InvalidArgument("protocol, calibration", given, '("binomial", "tight") for a counter')
