"""Which of several pairs of neighbours is attacked: the one that a claim is farthest from covering."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bandanna.audit.claims import claim_of
from bandanna.audit.releases import Script
from bandanna.audit.values import leaves

MORE = 1.01  # times what the first one needs: of about equals, that one is told from fewest answers
LONGER = 1 + 1e-6  # times what a domain allows: more than rounding errors
_PILOT, _FARTHER = 256, 0.5  # runs of either neighbour, and by how much more someone else must be apart


def worst(scripts: Sequence[Script], *, epsilon: float, delta: float) -> int:
    """Choose which neighbours are attacked: who need most of the claim, or whose noise must be sampled by itself.

    Parameters
    ----------
    scripts
        Releases to several pairs of neighbours, of which the first is the usual one.
    epsilon, delta
        What is claimed.

    Returns
    -------
    int
        The place of the worst; 0 unless another one is worse. It depends on draws that the attack does not use again.
    """
    standard = scripts[0]
    needs = [_needed(standard, epsilon=epsilon, delta=delta)]
    for each in scripts[1:]:
        known = each.mu is not None or not _ordinary(each, standard)
        needs.append(_needed(each, epsilon=epsilon, delta=delta) if known else 0.0)
    most = int(np.argmax(needs))
    if needs[most] > max(needs[0] * MORE, 1 + 1e-9):
        return most
    if (alone := next((place for place, each in enumerate(scripts) if each.alone), None)) is not None:
        return alone
    apart = [0.0 if each.mu is not None else _apart(each) for each in scripts]
    farthest = int(np.argmax(apart))
    if apart[farthest] > 2 * apart[0] + _FARTHER:
        return farthest
    return most if needs[most] > needs[0] * MORE else 0


def _ordinary(script: Script, standard: Script) -> bool:
    """Whether releases are by the same protocols, of reports that are no farther apart than these allow."""
    known = {tuple(leaves(each.protocol)) for each in standard.releases}
    return all(
        tuple(leaves(each.protocol)) in known
        and all(
            float(np.linalg.norm(one - two)) <= LONGER * each.protocol.domain.sensitivity
            for one, two in zip(each.one, each.two, strict=True)
        )
        for each in script.releases
    )


def _apart(script: Script) -> float:
    """How far the means of a few runs are apart, in standard deviations, in the number where they are farthest."""
    one, two = (script.draw(swapped, _PILOT, np.random.default_rng([2, int(swapped)])) for swapped in (False, True))
    spread = np.sqrt((one.var(axis=0) + two.var(axis=0)) / 2)
    gaps = np.abs(one.mean(axis=0) - two.mean(axis=0))
    return float(np.max(np.where(gaps > 0, gaps / np.maximum(spread, 1e-300), 0.0), initial=0.0))


def _needed(script: Script, *, epsilon: float, delta: float) -> float:
    """What the exact laws need, as a share of the claim; 0 where they are not known."""
    claim = claim_of(script.event, epsilon=epsilon, delta=delta)
    if math.isinf(claim.parameter) or claim.parameter == 0:
        return 0.0
    known = claim.needs(mu=script.mu, pure=script.pure)
    if known is None and script.pairs:
        known = claim.needed_by(script.pairs)
    return (known or 0.0) / claim.parameter
