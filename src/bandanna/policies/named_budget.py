"""The budget of a policy that is made by name: its numbers, or the budget itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bandanna.accounting.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.errors import InvalidBudget

Numbers = tuple[str, ...]

KINDS: dict[Numbers, Callable[..., Budget]] = {
    ("rho",): ZCDP,
    ("epsilon", "delta"): ApproxDP,
    ("alpha", "epsilon"): RenyiDP,
    ("epsilon",): PureDP,
}


def named_budget(name: str, arguments: dict[str, Any], allowed: tuple[Numbers, ...]) -> Budget:
    """What the algorithm `name` has to keep, taken out of the other arguments; it is given in one of the allowed ways.

    >>> named_budget("AdaP-UCB", {"epsilon": 1.0}, (("epsilon",),))
    PureDP(epsilon=1.0)
    >>> named_budget("AdaP-UCB", {"budget": PureDP(epsilon=1.0)}, (("epsilon",),))
    PureDP(epsilon=1.0)
    """
    given = {each: arguments.pop(each) for each in ("rho", "epsilon", "delta", "alpha") if each in arguments}
    whole = arguments.pop("budget", None)
    words = f"{name} takes {', or '.join(' and '.join(names) for names in allowed)}"
    if whole is None:
        for names in allowed:
            if set(given) == set(names):
                return KINDS[names](**given)
        raise InvalidBudget("budget", given or None, words)
    if given:
        raise InvalidBudget("budget", whole, f"this, or {', '.join(given)}, not both")
    if type(whole) not in [KINDS[names] for names in allowed]:
        raise InvalidBudget("budget", whole, words)
    return whole  # type: ignore[no-any-return]
