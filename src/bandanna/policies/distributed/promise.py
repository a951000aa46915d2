"""How the clients' averages of one phase reach the server: a protocol for every trust model, and one promise for all.

An average per played action, in [-B, B]: the report of a client is a point of the box [-B, B]^s, of l2 diameter
2 B sqrt s and l1 diameter 2 B s. Clients are fresh in every phase, so each is in one release, and the promise to each
is that of the phase with the largest price: `promise` states it in advance, and no protocol is opened that the
accountant does not find within it.

    model      protocol                                    noise on the mean of U clients
    none       clear                                       -
    central    Gaussian; discrete Laplace for delta = 0    2 B sqrt s / (mu U);  scale 2 B s / (epsilon U)
    local      Gaussian on every report                    2 B sqrt s / (mu sqrt U)
               a random direction for every report         `LocalUnit.std_along(U) / U` at most, in every direction
    shuffle    binomial vector sum                         within 2 % of the central one

In the local model `choose_reports` takes the one of less noise, by public numbers only; a direction needs two actions
or more, so phases with one action have Gaussian reports.

Reference: Li, Zhou and Ji 2024 [001], section IV; derivations in docs/calibration.md.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from functools import lru_cache

from bandanna.accounting import accountant
from bandanna.accounting.budgets import ZCDP, ApproxDP, PureDP
from bandanna.accounting.guarantee import Guarantee
from bandanna.core.domain import Box
from bandanna.errors import CalibrationError, CommunicationWarning, InvalidArgument, InvalidBudget
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.local_unit import LocalUnit
from bandanna.protocols.opening import open_batch
from bandanna.protocols.roles import shuffler_sees
from bandanna.protocols.trust import Privacy

PROTECTS = "a client's local rewards"

_DIRECTIONS = "a random direction from every client, or a noisy average in phases with one action"
_ROOM = 1e-3  # phases of other sizes may cost so much more than those at the ends


def check_model(privacy: Privacy) -> Privacy:
    """A promise that phases can keep, or an error that says what is missing."""
    if privacy.model == "shuffle" and privacy.protocol != "binomial":
        raise InvalidBudget("privacy", privacy, 'shuffle(..., protocol="binomial")')
    if privacy.participations != 1:
        raise InvalidBudget("participations", privacy.participations, "1: clients are fresh in every phase")
    if privacy.noisy and privacy.pure and (privacy.model != "central" or privacy.calibration == "paper"):
        raise InvalidBudget(
            "delta", 0.0, "a number in (0, 1), or the central model with tight noise, which can be pure"
        )
    return privacy


def choose_reports(privacy: Privacy, *, most_actions: int, bound: float) -> Privacy:
    """Choose how clients report in the local model, where the user left it open ("default" or "auto").

    Random directions, if their largest standard deviation in any direction (`std_along`) is below that of Gaussian
    reports in phases of `most_actions` actions; else Gaussian reports, as in [001]. Printed noise is Gaussian.

    Parameters
    ----------
    privacy : Privacy
        What is promised; other models than the local one are returned as they are.
    most_actions : int
        Most actions that a phase can have.
    bound : float
        B: averages are in [-B, B].

    Returns
    -------
    Privacy
        The same, with protocol "gaussian" or "unit".
    """
    if privacy.model != "local" or not privacy.noisy or privacy.protocol not in ("default", "auto"):
        return privacy
    gaussian = replace(privacy, protocol="gaussian")
    if privacy.calibration == "paper" or privacy.budget is None:
        return gaussian
    domain = Box(dim=most_actions, low=-bound, high=bound)
    try:
        unit = LocalUnit.calibrate(domain=domain, budget=privacy.budget)
    except (CalibrationError, InvalidArgument):  # no directions of so few or so many numbers, or so small an epsilon
        return gaussian
    less = unit.std_along(1) < open_batch(gaussian, domain, 1).std(1)
    return replace(privacy, protocol="unit") if less else gaussian


def protocol_of(privacy: Privacy, *, actions: int, clients: int, bound: float) -> BatchProtocol:
    """The calibrated protocol for reports of `actions` averages in [-bound, bound]."""
    domain = Box(dim=actions, low=-bound, high=bound)
    if actions == 1 and privacy.protocol == "unit":
        return open_batch(replace(privacy, protocol="gaussian"), domain, clients)
    if privacy.model != "shuffle":
        return open_batch(privacy, domain, clients)
    with warnings.catch_warnings():  # messages are counted in every result
        warnings.simplefilter("ignore", CommunicationWarning)
        return open_batch(privacy, domain, clients, quick=True)


@lru_cache(maxsize=256)
def promise(privacy: Privacy, *, most_actions: int, most_clients: int, bound: float) -> Guarantee:
    """What every client is promised, whatever phase it is in and however many actions that has.

    Tight noise: the budget's numbers. Printed noise: the largest epsilon of the smallest and the largest phase that can
    come. rho is that of these phases too. The accountant confirms all of it for each protocol before it runs. Lattice
    and coins of a phase depend on its clients and actions in no simple order, so nothing is promised against the
    shuffler itself; `exposed` is what it can tell in some phase.
    """
    printed = privacy.calibration == "paper"
    ends = printed or privacy.protocol == "unit"  # phases with one action are priced otherwise
    found = [
        protocol_of(privacy, actions=actions, clients=max(2, clients), bound=bound).guarantee
        for clients in ({2, most_clients} if printed else {most_clients})
        for actions in ({1, most_actions} if ends else {most_actions})
    ]
    stated = max(found, key=lambda each: each.exposed)
    epsilon, delta = max(each.epsilon for each in found), max(each.delta for each in found)
    rho = max(each.rho for each in found) * (1 + _ROOM)
    if not printed and isinstance(privacy.budget, ApproxDP | PureDP) and privacy.noisy:
        epsilon = privacy.budget.epsilon
    else:
        epsilon *= 1 + _ROOM
    if not printed and isinstance(privacy.budget, ZCDP):
        rho = privacy.budget.rho
    observers = _observers(privacy)
    promised = replace(stated, epsilon=epsilon, delta=delta, rho=rho, protects=PROTECTS)
    return replace(promised, observers=observers, shuffler=None)


def confirm(protocol: BatchProtocol, privacy: Privacy, promised: Guarantee) -> None:
    """An error unless the accountant finds the protocol within what was promised."""
    if not privacy.noisy or privacy.budget is None:
        return
    stated = ApproxDP(epsilon=max(promised.epsilon, sys.float_info.min), delta=promised.delta)
    kept = accountant.satisfies(protocol.event, stated) and accountant.rho(protocol.event) <= promised.rho
    if not kept or (privacy.calibration == "tight" and not accountant.satisfies(protocol.event, privacy.budget)):
        raise CalibrationError(f"{protocol.name} for {protocol.domain} is not within the promise: {promised}")


def _observers(privacy: Privacy) -> tuple[tuple[str, str], ...]:
    everybody = ("everybody else", "the actions")
    return {
        "none": (("the server", "every client's averages"), everybody),
        "central": (("the trusted server", "every client's averages"), ("everybody else", "noisy sums and actions")),
        "local": (
            ("the server", _DIRECTIONS if privacy.protocol == "unit" else "every client's noisy averages"),
            everybody,
        ),
        "shuffle": (
            ("the shuffler", shuffler_sees(privacy.noise, "counts", "averages", who="client")),
            ("the server and everybody else", "totals of a phase and actions"),
        ),
    }[privacy.model]
