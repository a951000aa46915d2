"""Callers' records as features, by an agent's public map: counted, and said once when most are not as it expects."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from bandanna.agent.arms import features_of
from bandanna.core.arm_sets import Contexts, index_of, parts_of
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument, InvalidStatistic, Summary
from bandanna.features.counts import Report
from bandanna.features.map import Map
from bandanna.policies.base import Policy

_OUTSIDE = 5  # calls between a caller's line and a warning about it


class Records:
    """A map, and what it had to do with the records so far."""

    def __init__(self, features: Map, policy: Policy[Any]) -> None:
        check_map(features, policy)
        self.map, self.report, self._told = features, Report(), False

    def of_user(self, record: Any) -> Floats:
        """The features of one user, (d,): of a dictionary, or of a table with one row."""
        values = self._mapped(record)
        if len(values) != 1:
            raise InvalidStatistic(
                "contexts", Summary(f"{len(values)} records"), "one, of the user; act_many takes several users"
            )
        return np.asarray(values[0])

    def of_users(self, records: Any) -> Floats:
        """Of several users, (users, d)."""
        return self._mapped(records)

    def of_arms(self, records: Any, name: str = "contexts") -> Contexts:
        """Of arms: a mapping from ids to records, a table whose index has the ids, or records with ids 0..K-1."""
        if isinstance(records, Mapping):
            arms, own = parts_of(records, name)
            return dict(zip(arms, self._mapped(own), strict=True))
        ids = index_of(records, name)
        values = self._mapped(records)
        return dict(zip(ids, values, strict=True)) if ids else values

    def _mapped(self, records: Any) -> Floats:
        mapped = self.map.mapped(records)
        self.report += mapped.report
        if not self._told and (said := self.report.warning()):
            self._told = True
            warnings.warn(said, stacklevel=_OUTSIDE)
        return mapped.values


def check_map(features: Any, policy: Policy[Any], name: str = "features") -> None:
    """Refuse a map whose vectors are not what the policy takes."""
    if not isinstance(features, Map):
        raise InvalidArgument(name, type(features).__name__, "a map: bd.features.Map(...)")
    wanted, own = features_of(policy), getattr(policy, "n_arms", None) is not None
    constant = bool(getattr(policy, "intercept", False)) and not own
    if features.intercept != constant and (constant or own):
        allowed = "with Intercept(): the policy says intercept=True" if constant else "without Intercept(): it is added"
        raise InvalidArgument(name, f"a map {'with' if features.intercept else 'without'} a constant", allowed)
    if features.dim != wanted:
        raise InvalidArgument(name, f"a map to {features.dim} features", f"{wanted}, as the policy has")
