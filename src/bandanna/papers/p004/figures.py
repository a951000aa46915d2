"""Figures of paper 004: what zCDP costs, where noise costs least, and one policy under two definitions of privacy."""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from bandanna.papers.common.drawing import draw_panels
from bandanna.papers.common.figure import REGRET, Figure, at_once
from bandanna.papers.p004 import definitions, prices
from bandanna.papers.p004.drawing import draw_prices

_CURVE = ("algorithm", "variant", "rho:g", "true rho=true_rho:.4g")
_CAPTION = "true rho: what the noise really gives, for rewards and contexts as they are"


def _verdicts(found: tuple[dict[str, float], dict[str, float | None]]) -> list[str]:
    """Which definition holds, and what would have to be given up for it."""
    budget, least = found
    pair = "({epsilon:g}, {delta:g})".format(**budget)
    words = ["The policy of Proposition 1(e) in paper 004 (3 rounds, 2 arms, rewards 0 and 1):"]
    for name in ("view", "table"):
        delta, epsilon = least[f"{name}_delta_at_epsilon"], least[f"{name}_epsilon_at_delta"]
        verdict = "" if delta is not None and delta <= budget["delta"] else "not "
        words.append(
            f"  {verdict}{pair}-{name.title()} DP: smallest delta at epsilon = {budget['epsilon']:g} is {delta:.4f}, "
            f"smallest epsilon at delta = {budget['delta']:g} is {'none' if epsilon is None else f'{epsilon:.4f}'}"
        )
    return words


FIGURES = (
    Figure(
        name="fig4",
        shows="what privacy costs finite and linear arms (10,000,000 rounds, 100 runs) and contexts (100,000, 20)",
        options={"seeds": None, "horizon": None},
        compute=prices.prices,
        lines=lambda found: [price.row for price in found],
        columns=(
            *(*_CURVE, "regret=mean:,.0f", "without=free_mean:,.0f", "difference:,.0f", "+-=difference_stderr:,.0f"),
            *("PoP T/100=pop_at_0.01:.1%", "T/10=pop_at_0.1:.1%", "T=pop_at_1.0:.1%"),
        ),
        caption=f"{_CAPTION}; PoP: price of privacy, difference over regret without",
        draw=draw_prices,
    ),
    Figure(
        name="fig5",
        shows="AdaC-GOPE with noise at two places, for five rho",
        options=dict(zip(("horizon", "seeds"), prices.DEFAULTS["linear"], strict=True)),
        compute=prices.noise_levels,
        columns=(*_CURVE, *REGRET),
        caption=_CAPTION,
        draw=partial(
            draw_panels,
            name="{variant}-rho{rho:g}",
            title="Noise at two places, {variant}: rho = {rho:g}",
        ),
    ),
    Figure(
        name="definitions",
        shows="a policy that is View DP and not Table DP",
        options={"epsilon": definitions.EPSILON, "delta": definitions.DELTA},
        compute=at_once(lambda **budget: (budget, definitions.definitions(**budget))),
        document=itemgetter(1),
        lines=lambda found: [],
        notes=_verdicts,
    ),
)
