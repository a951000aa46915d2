"""Arms as callers give them, and arms that the server assigns."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.domain import read_real_array
from bandanna.errors import InvalidStatistic, ValueSummary
from bandanna.types import Floats

_LARGEST = 1e100  # whose square is a number too
_DOUBLE = np.dtype(float)

Contexts = Mapping[Any, ArrayLike] | ArrayLike
ArmSets = list[tuple[Sequence[Hashable], Floats]]  # ids and features (K, d), one for each user


@dataclass(frozen=True, kw_only=True)
class FixedArmSet:
    """Fixed arms: ids and features (K, d), d = 0 without features. `of_users`: users bring the features."""

    ids: tuple[Any, ...]
    features: Floats
    of_users: bool = False

    def as_terms(self) -> tuple[Any, ...]:
        return self.ids, self.features.tolist()


def parse_arms(contexts: Contexts, dim: int, name: str = "contexts") -> tuple[Sequence[Hashable], Floats]:
    """Return ids and features (K, d) of arms from a mapping, a table indexed by id, or an array."""
    ids: Sequence[Hashable]
    if type(contexts) is np.ndarray and contexts.dtype is _DOUBLE:  # what most callers have
        features, ids = contexts.copy(), range(len(contexts)) if contexts.ndim else ()  # the caller may reuse his
    elif isinstance(contexts, Mapping):
        ids, rows = split_mapping(contexts, name)
        if not ids:
            raise InvalidStatistic(name, contexts, "a mapping with at least one arm")
        features = _read_feature_rows(rows, dim, name)
    else:
        features = read_real_array(
            name, contexts, f"an array of shape (arms, {dim}), or a mapping from ids to features"
        ).copy()
        ids = read_row_names(contexts, name) or range(len(features) if features.ndim else 0)
    if features.ndim != 2 or features.shape[0] < 1 or features.shape[1] != dim:
        raise InvalidStatistic(name, features, f"shape (arms, {dim}), at least one arm")
    _finite(features, name)
    return ids, features


def read_row_names(contexts: Any, name: str) -> tuple[Hashable, ...]:
    """Return the row names of a table such as a pandas DataFrame; none for an array."""
    if not hasattr(contexts, "to_numpy") or not hasattr(contexts, "index"):
        return ()
    ids = tuple(contexts.index)
    if len(set(ids)) != len(ids):
        twice = next(place for place, arm in enumerate(ids) if arm in ids[:place])
        raise InvalidStatistic(
            f"{name}.index[{twice}]", ValueSummary("a repeated name"), "a different name for each arm"
        )
    return ids


def repeat_user_features(
    fixed: FixedArmSet, features: Any, name: str = "contexts"
) -> tuple[Sequence[Hashable], Floats]:
    """Return ids and features (K, d) of fixed arms for a user's features, (d,)."""
    dim = fixed.features.shape[1]
    given = read_real_array(name, features, f"the user's features, {dim} numbers")
    if given.shape != (dim,):
        raise InvalidStatistic(name, given, f"the user's features, {dim} numbers")
    rows = np.repeat(given[None], len(fixed.ids), axis=0)
    _finite(rows[:1], name)
    return fixed.ids, rows


def parse_arm_sets(contexts: Any, dim: int) -> list[tuple[Sequence[Hashable], Floats]]:
    """Return the sets of several users from an array (users, arms, d) or an iterable for `parse_arms`."""
    allowed = f"one set of arms for each user: an array of shape (users, arms, {dim}) or a list of sets"
    sets = validation.list_entries("contexts", contexts, allowed)
    return [parse_arms(one, dim, f"contexts[{i}]") for i, one in enumerate(sets)]


def split_mapping(contexts: Mapping[Any, Any], name: str) -> tuple[tuple[Any, ...], list[Any]]:
    """Return the keys and values of a mapping."""
    with suppress(Exception):  # a foreign mapping may raise anything, and show what it holds
        return tuple(contexts), list(contexts.values())
    raise InvalidStatistic(name, contexts, "a mapping from ids to features")


def _read_feature_rows(rows: list[Any], dim: int, name: str) -> Floats:
    with suppress(InvalidStatistic):
        features = read_real_array(name, rows)
        if features.shape == (len(rows), dim):
            return features
    for arm, row in enumerate(rows):  # say where the one is that is wrong; the ids may be a user's
        given = read_real_array(f"{name}, arm {arm}", row, f"{dim} numbers")
        if given.shape != (dim,):
            raise InvalidStatistic(f"{name}, arm {arm}", given, f"{dim} numbers")
    raise InvalidStatistic(name, ValueSummary("features of several shapes"), f"{dim} numbers for every arm")


def _finite(features: Floats, name: str) -> None:
    if np.vdot(features, features) <= _LARGEST:  # the sum of all squares: none is larger, and none is NaN
        return
    fine = np.abs(features) <= _LARGEST  # False for NaN
    if np.count_nonzero(fine) < fine.size:
        arm, place = (int(i) for i in np.argwhere(~fine)[0])
        allowed = f"finite numbers, at most {_LARGEST:g} in size"
        raise InvalidStatistic(f"{name}, arm {arm}, feature {place}", float(features[arm, place]), allowed)
