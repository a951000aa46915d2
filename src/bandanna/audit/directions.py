"""One message of a local device that draws a direction or tells a lie: its exact law under both neighbours.

A direction (`device.caps`) has one density inside the cap of u0, and one outside; u0 is +-w/|w|, at random. So of two
points v and w nothing counts but in which of the caps of +-v and +-w a message lies: nine cases, whose masses under the
uniform law follow from that of two caps at an angle. Given T = <u, v> = t, <u, w> is t cos a + sqrt(1 - t^2) sin a S,
with S of a uniform direction in one coordinate less:

    P(both caps) = E[P(S >= (c - T cos a) / (sqrt(1 - T^2) sin a)); T >= c],     a the angle between v and w.

Steps of candidates are left out: they move a loss by parts in 10^6, which are in the price (calibration.md D.3).
"""

from __future__ import annotations

import math

import numpy as np
from scipy import integrate

from bandanna.accounting import caps
from bandanna.accounting.events import CapEvent
from bandanna.audit.exact import Pair
from bandanna.core.arrays import Floats
from bandanna.device import Answer, Direction, Sign
from bandanna.device.caps import directions
from bandanna.device.counts import chance_of_one
from bandanna.protocols.base import Protocol

_SAME = 1e-9  # radians
_NOTHING = 1e-9  # mass: less may be an error of integration, and is left out


def message_pairs(protocol: Protocol, one: Floats, two: Floats) -> list[Pair] | None:
    """Of the person's own statistics, (messages, dim): a pair of laws for each that differs; None of other devices."""
    device, pairs = protocol.device, list[Pair]()
    for mine, other in zip(one, two, strict=True):
        if np.array_equal(mine, other):
            continue
        if isinstance(device, Answer):
            yes = [float(chance_of_one(each, device.lie)[0]) for each in (mine, other)]
            pairs.append((np.array([yes[0], 1 - yes[0]]), np.array([yes[1], 1 - yes[1]])))
        elif isinstance(device, Sign) and np.array_equal(mine, -other):
            pairs.append((np.array([device.lie, 1 - device.lie]), np.array([1 - device.lie, device.lie])))
        elif isinstance(device, Direction):
            centre, radius = device.domain.ball
            event = CapEvent(
                cosine=device.cosine,
                chance=device.chance,
                candidates=device.candidates,
                dim=device.domain.dim,
                steps=device.steps,
            )
            pairs.append(cap_pair(event, (mine - centre) / radius, (other - centre) / radius))
        else:
            return None
    return pairs or None


def cap_pair(event: CapEvent, one: Floats, two: Floats) -> Pair:
    """Of two points of the unit ball: the laws of the nine cases."""
    units, lengths = directions(np.stack([one, two]))
    angle = math.acos(float(np.clip(units[0] @ units[1], -1.0, 1.0)))
    mass, near, far = caps.cap(event.dim, event.cosine).mass, both(event, angle), both(event, math.pi - angle)
    share = caps.share_inside(event)
    inside, outside = share / mass, (1 - share) / (1 - mass)
    # in which cap of +-v (rows: +, -, none) and of +-w (columns) the message is
    cases = np.array([[near, far, 0.0], [far, near, 0.0], [0.0, 0.0, 0.0]])
    cases[:2, 2], cases[2, :2] = mass - near - far, mass - near - far
    cases = np.where(cases > _NOTHING, cases, 0.0)
    cases[2, 2] = max(1 - cases.sum(), 0.0)
    chances = [_densities(float(length), inside, outside) for length in np.minimum(lengths, 1.0)]
    laws = (cases * chances[0][:, None]).ravel(), (cases * chances[1][None]).ravel()
    return laws[0], laws[1]


def _densities(length: float, inside: float, outside: float) -> Floats:
    """In the cap of +w, of -w, and in neither, where w is so long: u0 points to +w with probability (1 + length)/2."""
    to, fro = (1 + length) / 2, (1 - length) / 2
    return np.array([to * inside + fro * outside, to * outside + fro * inside, outside])


def both(event: CapEvent, angle: float) -> float:
    """The mass of what is in two caps whose centres are at this angle."""
    cosine, dim = event.cosine, event.dim
    wide = math.acos(cosine)
    if angle < _SAME:
        return caps.cap(dim, cosine).mass
    if angle >= 2 * wide:
        return 0.0
    if dim == 2:
        return (2 * wide - angle) / (2 * math.pi)

    def slice_of(turn: float) -> float:
        """Of T = cos turn, whose density in turn is proportional to sin^(dim - 2)."""
        reach = (cosine - math.cos(turn) * math.cos(angle)) / max(math.sin(turn) * math.sin(angle), 1e-300)
        return math.sin(turn) ** (dim - 2) * float(caps.beyond(dim - 1, np.asarray(reach)))

    whole = integrate.quad(lambda turn: math.sin(turn) ** (dim - 2), 0.0, math.pi)[0]
    return float(integrate.quad(slice_of, 0.0, wide, limit=200)[0] / whole)
