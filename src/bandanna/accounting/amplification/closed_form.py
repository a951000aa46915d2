"""The printed amplification lemma of the shuffle-bandit paper, for `calibration="paper"`."""

from __future__ import annotations

import math

from bandanna.core import require
from bandanna.errors import InvalidBudget, OutsideTheorem


def amplification_closed_form(
    *, users: int, local_epsilon: float, local_delta: float, delta: float
) -> tuple[float, float]:
    """(epsilon, delta) of a shuffle of n reports, each (eps0, delta0)-locally private, by paper 000, lemma B.4:

        epsilon = log(1 + (e^eps0 - 1)/(e^eps0 + 1) (8 sqrt(e^eps0 log(4/delta')) / sqrt(n) + 8 e^eps0 / n)),
        delta = delta' + (e^epsilon + 1) (1 + e^-eps0 / 2) n delta0,   if eps0 <= log(n / (16 log(2/delta'))).

    Symbols: n `users`, eps0 `local_epsilon`, delta0 `local_delta`, delta' the argument `delta`. The returned delta may
    exceed 1, which promises nothing. Reference: Chowdhury and Zhou, "Shuffle private linear contextual bandits", after
    Feldman, McMillan and Talwar. Outside the lemma's range (B = 20 never meets it) `OutsideTheorem` is raised.
    """
    users, local = require.whole("users", users), require.positive("local_epsilon", local_epsilon)
    local_delta, spare = require.delta(local_delta, argument="local_delta"), require.delta(delta)
    if spare == 0.0:
        raise InvalidBudget("delta", delta, "a number in (0, 1)")
    ratio = users / (16 * math.log(2 / spare))
    if ratio <= 1 or local > math.log(ratio):
        most = f"at most log(n / (16 log(2/delta))) = {math.log(ratio):.4g}" if ratio > 1 else "none: n is too small"
        raise OutsideTheorem("local_epsilon", local_epsilon, f"{most} for n = {users}, delta = {spare:g} (lemma B.4)")
    grown = math.exp(local)
    spread = 8 * math.sqrt(grown * math.log(4 / spare) / users) + 8 * grown / users
    epsilon = math.log1p(math.tanh(local / 2) * spread)  # lemma B.4
    return epsilon, spare + (math.exp(epsilon) + 1) * (1 + math.exp(-local) / 2) * users * local_delta  # lemma B.4
