"""What a result remembers of policy and world, as plain values: enough to say which bounds belong to it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from bandanna.core.domain import Box
from bandanna.environments.base import Environment
from bandanna.policies.base import Policy
from bandanna.storage.declared import has_name, name_of


def setting_of(policy: Policy[Any], env: Environment) -> dict[str, Any]:
    """The policy's class and numbers, dimension and arms of the world, and where they are known the gaps."""
    noted: dict[str, Any] = {"policy": _name(type(policy)), "dim": env.dim, "n_arms": env.n_arms}
    if is_dataclass(policy):
        noted |= {
            f.name: value for f in fields(policy) if isinstance(value := getattr(policy, f.name), int | float | str)
        }
    if isinstance(domain := getattr(policy, "domain", None), Box):
        noted["reward_width"] = domain.high - domain.low
    means = getattr(env, "means", None)
    if isinstance(means, tuple):
        noted["gaps"] = tuple(max(means) - mean for mean in means)
    return noted | policy.facts()


def _name(kind: type) -> str:
    """The stored name of a policy's class; a policy of one's own may be simulated without one."""
    return name_of(kind) if has_name(kind) else kind.__name__
