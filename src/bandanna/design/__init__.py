"""Which arms to play, and how often: G-optimal designs, and nets that make infinite sets of actions finite."""

from __future__ import annotations

from bandanna.design.nets import ball_net, epsilon_net
from bandanna.design.optimal import Design, near_optimal_design, optimal_design, remembered, support_limit
from bandanna.design.span import span_coordinates

__all__ = [
    "Design",
    "ball_net",
    "epsilon_net",
    "near_optimal_design",
    "optimal_design",
    "remembered",
    "span_coordinates",
    "support_limit",
]
