"""The parts of a log: names of arms, propensities, contexts, eligible arms, rewards; checked, or made of columns."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from bandanna.core import require
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.calling import result_of
from bandanna.core.domain import all_finite, numbers, reals
from bandanna.errors import ClippingWarning, InvalidArgument, InvalidStatistic, Summary
from bandanna.logs.columns import Columns

_MOST_ARMS = 100_000
_ROUNDING = 1e-9
_SUM = 1e-2  # what rounded probabilities may add up to beyond 1
_ROUNDED = 0.02  # of a probability such as 1/3, in proportion
_OTHERS = 'give a column, or one for each arm (propensity={"A": 0.5, ...}, --propensity A=0.5,...)'
_FEATURE = (
    "a finite number; a map of features, context=bd.features.Map(...), takes texts too, and says what stands for what "
    "is missing"
)
_REWARD = "a finite number, yes or no; or say which word is worth 1 (success=..., --success). Leave out rows without it"


def names_of(given: Sequence[Any], arms: Any) -> tuple[Any, ...]:
    """All arms: those that were said, or those that occur, sorted where they can be."""
    if arms is not None:
        names = require.several("arms", arms, "the names of all arms, in order")
        for place, name in enumerate(names):
            if not isinstance(name, str | int):
                raise InvalidArgument(f"arms[{place}]", name, "a name: a text or a whole number")
    else:
        names = list(dict.fromkeys(given))
        if len({isinstance(name, str) for name in names}) == 1:
            names = sorted(names)
    if not 1 <= len(names) <= _MOST_ARMS or len(set(names)) != len(names):
        raise InvalidArgument("arms", f"{len(names)} names", f"1 to {_MOST_ARMS:,} names, none of them twice")
    return tuple(names)


def known_as(given: Sequence[Any], arms: Any) -> list[Any]:
    """The names of arms as they were said: a 1 in a file is the arm "1" where the arms are called so."""
    names = names_of((), arms)
    said = {str(name): name for name in names} if len(set(map(str, names))) == len(names) else {}
    return [name if name in names else said.get(str(name), name) for name in given]


def listed(names: Sequence[Any], *, found: bool) -> str:
    """The arms as errors list them: those that were said, by name; of those that were found in rows, how many."""
    return f"the {len(names)} arms that occur" if found else f"the arms {', '.join(map(str, names))}"


def _first_odd(given: Mapping[Any, Any], names: Sequence[Any]) -> Any:
    """A key that is no arm; or that an arm has none, which is not named: it may be one that was found in rows."""
    return next((name for name in given if name not in names), Summary("without one of the arms"))


def propensities_of(
    table: Columns,
    given: Any,
    names: Sequence[Any],
    arms: Ints,
    floor: Any,
    *,
    overlapping: bool = False,
    found: bool = False,
) -> tuple[Floats, float | None]:
    """The probability of each event's arm, and the least of any arm where that is known by design.

    overlapping: not every arm could be given to everybody, so that probabilities of all may add up to more than 1.
    found: the names are those that occur, and there may be more arms.
    """
    where = "propensity"
    if isinstance(given, Mapping):
        by_arm = np.array([_chance(f"propensity[{name!r}]", given.get(name)) for name in names])
        if extra := [name for name in given if name not in names]:
            raise InvalidArgument("propensity", extra[0], f"one of the arms {', '.join(map(str, names))}")
        if by_arm.sum() > 1 + _SUM and not overlapping:
            allowed = (
                "probabilities that add up to 1 at most; where not every arm could be given a column, or eligible="
            )
            raise InvalidArgument("propensity", f"{by_arm.sum():g} in all", allowed)
        chances, known = by_arm[arms], float(by_arm.min())
    elif isinstance(given, str) or (isinstance(given, tuple) and table.has(given)):
        chances, known, where = table.numbers("propensity", given), None, f"column {given!r}"
    elif given is None:
        allowed = "a column, or a number where arms were given at random by design: without it nothing can be weighed"
        raise InvalidArgument("propensity", None, allowed)
    else:
        known = _alike(_chance("propensity", given), None if found else len(names))
        chances = np.full(len(arms), known)
    least = known if floor is None else _chance("floor", floor)
    return within(chances, least, where), least


def _alike(chance: float, most: int | None) -> float:
    """One probability of whatever was given: in every context each of m arms has it, so that it is 1/m, m <= `most`."""
    m = max(round(min(1 / chance, float(most or _MOST_ARMS))), 1)
    if abs(chance * m - 1) > _ROUNDED + _ROUNDING:
        counts = "a whole number" if most is None else f"from 1 to {most}, the number of arms"
        means = f"one number means that every arm that could be given was as likely: 1/m, with m {counts}"
        raise InvalidArgument("propensity", chance, f"{means}; else {_OTHERS}")
    return chance


def within(chances: Floats, floor: Any, where: str) -> Floats:
    """Probabilities in (0, 1], none below the floor."""
    least = 0.0 if floor is None else _chance("floor", floor)
    fine = (chances > 0) & (chances <= 1 + _ROUNDING) & (chances >= least * (1 - _ROUNDING))
    if not fine.all():
        row = int(np.argmin(fine))
        allowed = "a probability in (0, 1]" if not least else f"a probability in [{least:g}, 1], from the floor on"
        raise InvalidStatistic(f"{where}, row {row}", float(chances[row]), allowed)
    return np.minimum(chances, 1.0)


def _chance(argument: str, value: Any) -> float:
    number = require.real(argument, value, "a probability in (0, 1]")
    if not 0 < number <= 1:
        raise InvalidArgument(argument, value, "a probability in (0, 1]")
    return number


def contexts_of(table: Columns, given: Any, names: Sequence[Any], *, found: bool) -> Floats:
    """(n, d) of users, or (n, K, d) of arms."""
    if callable(given):
        return _computed(table, given, len(names))
    if isinstance(given, Mapping):
        return _of_arms(table, given, names, found)
    columns = [given] if isinstance(given, str) else require.several("context", given, "columns, in a list")
    if not columns:
        return np.zeros((table.rows, 0))
    return np.stack([table.numbers("context", name, _FEATURE) for name in columns], axis=-1)


def _of_arms(table: Columns, given: Mapping[Any, Any], names: Sequence[Any], found: bool) -> Floats:
    if set(given) != set(names):
        odd = _first_odd(given, names)
        raise InvalidArgument("context", odd, f"columns for each of {listed(names, found=found)}")
    lists = [require.several(f"context[{name!r}]", given[name], "columns, in a list") for name in names]
    if len({len(each) for each in lists}) != 1 or not lists[0]:
        raise InvalidArgument("context", [len(each) for each in lists], "as many columns for every arm, one or more")
    arms = [np.stack([table.numbers("context", name) for name in each], axis=-1) for each in lists]
    return np.stack(arms, axis=1)


def _computed(table: Columns, function: Any, n_arms: int) -> Floats:
    """What a function, or a map of features, makes of the table."""
    made = result_of("context", function, table.frame, "a function of the table to an array (n, d) or (n, arms, d)")
    array = reals("context(table)", made)
    if array.ndim not in (2, 3) or len(array) != table.rows or (array.ndim == 3 and array.shape[1] != n_arms):
        allowed = f"({table.rows}, d) or ({table.rows}, {n_arms}, d)"
        raise InvalidStatistic("shape of context(table)", Summary(array.shape), allowed)
    all_finite("context(table)", array)
    return array


def eligible_of(table: Columns, given: Any, names: Sequence[Any], arms: Ints, *, found: bool) -> Bools:
    """Which arms could have been given, (n, K): a column of lists of arms, or a column for each arm."""
    mask = np.zeros((table.rows, len(names)), dtype=bool)
    if isinstance(given, Mapping):
        if set(given) != set(names):
            odd = _first_odd(given, names)
            raise InvalidArgument("eligible", odd, f"a column for each of {listed(names, found=found)}")
        for place, name in enumerate(names):
            mask[:, place] = table.flags("eligible", given[name])
    else:
        places = {name: place for place, name in enumerate(names)}
        for row, entry in enumerate(table.of("eligible", given).tolist()):
            where = f"column {given!r}, row {row}"
            for name in require.several(where, entry, f"a list of arms, of {listed(names, found=found)}"):
                if not isinstance(name, Hashable) or name not in places:
                    raise InvalidStatistic(where, name, f"one of {listed(names, found=found)}")
                mask[row, places[name]] = True
    if not (own := mask[np.arange(len(arms)), arms]).all():
        row = int(np.argmin(own))
        raise InvalidStatistic(f"eligible, row {row}", Summary("without its own arm"), "the arm that was given, too")
    return mask


def rewards_of(table: Columns, column: Any, success: Any) -> Floats:
    """Numbers; or 1 where the column says `success`, and 0 where it says something else."""
    if success is None:
        return table.numbers("reward", column, _REWARD)
    said = table.labels("reward", column)
    if success not in said:
        raise InvalidArgument("success", success, f"what column {column!r} says of somebody: no row has this")
    return np.array([float(each == success) for each in said])


def range_of(given: Any) -> tuple[float, float]:
    """Public bounds of rewards."""
    ends = require.several("reward_range", given, "(low, high)")
    if len(ends) != 2:
        raise InvalidArgument("reward_range", given, "(low, high)")
    low, high = (require.finite("reward_range", end, "two finite numbers (low, high)") for end in ends)
    if not (1e-12 <= high - low <= 1e12 and max(-low, high) <= 1e12):
        raise InvalidArgument("reward_range", given, "low < high, between -1e12 and 1e12, at least 1e-12 apart")
    return low, high


def cut(rewards: Floats, reward_range: Any, where: str) -> tuple[Floats, int]:
    """Rewards in the range, and how many had to be cut; without a range that was given, none may be."""
    low, high = (0.0, 1.0) if reward_range is None else range_of(reward_range)
    outside = (rewards < low - _ROUNDING) | (rewards > high + _ROUNDING)
    if reward_range is None and outside.any():
        row = int(np.argmax(outside))
        allowed = (
            "a reward in [0, 1]; or give reward_range=(low, high), --range: public bounds to which rewards are cut"
        )
        raise InvalidStatistic(f"{where}, row {row}", float(rewards[row]), allowed)
    clipped = int(np.count_nonzero(outside))
    if 2 * clipped > len(rewards):
        said = (
            f"{clipped:,} of {len(rewards):,} rewards lie outside of the range (reward_range=({low:g}, {high:g}), "
            f"--range {low:g},{high:g}), and were cut"
        )
        warnings.warn(ClippingWarning(said), stacklevel=4)
    return np.clip(rewards, low, high), clipped


def array_of(argument: str, values: Any, ndims: tuple[int, ...]) -> Floats:
    """Finite numbers, of their own memory, with so many axes."""
    array = np.array(reals(argument, values), dtype=float)
    if array.ndim not in ndims:
        raise InvalidStatistic(f"shape of {argument}", Summary(array.shape), f"{' or '.join(map(str, ndims))} axes")
    all_finite(argument, array)
    return array


def mask_of(eligible: Any, n: int, n_arms: int, arms: Ints) -> Bools:
    """Which arms could be given, (n, K), the given ones among them."""
    allowed = f"True or False for each event and arm, ({n}, {n_arms})"
    mask: Bools = np.array(numbers("eligible", eligible, allowed, kinds="b"))
    if mask.shape != (n, n_arms):
        raise InvalidStatistic("eligible", mask, allowed)
    if not (own := mask[np.arange(n), arms]).all():
        row = int(np.argmin(own))
        raise InvalidStatistic(f"eligible[{row}]", Summary("without its own arm"), "the arm that was given, too")
    return mask
