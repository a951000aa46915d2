"""View, Table and Interactive DP of small policies: privacy definitions for bandits that one can compute with.

    policy = ExplicitPolicy.from_rules(rules)
    policy.view.delta(0.95), policy.table.epsilon(0.17), policy.interactive.rho()

Reference: Azize and Basu 2024 [004], Definitions 3 and 4, Propositions 1 and 2.
"""

from __future__ import annotations

from bandanna.accounting.definitions.adversaries import Adversary, adversaries, identity, pretending
from bandanna.accounting.definitions.losses import Definition
from bandanna.accounting.definitions.policy import ExplicitPolicy

__all__ = ["Adversary", "Definition", "ExplicitPolicy", "adversaries", "identity", "pretending"]
