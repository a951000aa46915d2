"""Every algorithm by its name: construction from names and tables."""

from __future__ import annotations

import pkgutil
import re
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from bandanna.device.linear_report import InterceptReport, LinearReport, PerArmReport
from bandanna.errors import InvalidArgument, UnknownArgument, did_you_mean
from bandanna.numeric.exact_sums import RunLengthSizes
from bandanna.policies import finite, glm, linear
from bandanna.policies import population as population  # registers its algorithms
from bandanna.policies.algorithm import ALGORITHMS as ALGORITHMS
from bandanna.policies.algorithm import TRUSTS, Algorithm, import_algorithm, is_import_path
from bandanna.policies.base import PlayedRounds, Policy
from bandanna.policies.linear.anytime import Anytime
from bandanna.policies.linear.base import geometric, uniform
from bandanna.policies.regret_bounds import BOUNDS, BoundCurve, RunSetting
from bandanna.protocols import privacy_model
from bandanna.protocols.factory import PROTOCOLS
from bandanna.protocols.running_sum import RunningSumProtocol
from bandanna.storage.encoding import Encoding, find_stored_name, index_by_stored_name
from bandanna.storage.files import SaveFormat
from bandanna.validation import check_keys, prefix_errors

_DISPLAY_ORDER = (  # by problem and privacy model, in the order of `bandanna list`; what is not here comes last
    *("LinTS", "LinTS-JDP", "LinTS-LDP", "LinTS-SDP", "LinTS-CSDP"),
    *("LinTS-JDP-rewards", "LinTS-LDP-rewards", "LinTS-SDP-rewards"),
    *("LinUCB", "LinUCB-JDP", "LinUCB-JDP-batched", "LinUCB-LDP", "LinUCB-LDP-batched"),
    *("LinUCB-SDP-Amp", "LinUCB-SDP-Vec", "LinUCB-CSDP"),
    *("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"),
    *("UCB1", "Thompson", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "LDP-UCB", "SDP-SE"),
    *("GOPE", "AdaC-GOPE", "AdaC-GOPE-early", "RS-OFUL", "AdaC-OFUL", "AdaC-OFUL-JDP"),
    *("GLM-UCB", "GLOC", "ECOLog", "RS-GLinUCB", "B-GLinUCB", "GLM-JDP", "GLM-SDP"),
)

for family in (linear, finite, glm):
    for found in pkgutil.iter_modules(family.__path__, f"{family.__name__}."):
        import_module(found.name)

_ordered = {name: ALGORITHMS.pop(name) for name in _DISPLAY_ORDER} | ALGORITHMS
ALGORITHMS.clear()
ALGORITHMS.update(_ordered)

UNLISTED_POLICIES = (Anytime,)  # policies without a name


_BUDGET = ("rho", "epsilon", "delta", "alpha", "budget")


def find_algorithm(name: Any) -> Algorithm:
    """Return the algorithm of a name or import path "module:Class"."""
    if is_import_path(name):
        return import_algorithm(name)
    if not isinstance(name, str) or name not in ALGORITHMS:
        allowed = f"one of {', '.join(ALGORITHMS)}, or module:Class"
        raise InvalidArgument("name", name, allowed, did_you_mean(name, ALGORITHMS))
    return ALGORITHMS[name]


def make(name: str, **arguments: Any) -> Any:
    """Make a policy by its name: `make("LinUCB-SDP-Vec", dim=5, horizon=20_000, epsilon=1.0, delta=1e-5)`.

    Parameters
    ----------
    name
        A name of `bandanna list`, or the import path of your own policy, "my_module:MyPolicy".
    arguments
        Arguments of the policy and of its privacy model, such as `epsilon`. For your own policy, `trust` chooses the
        privacy model.

    Returns
    -------
    Policy
        The policy.
    """
    entry = find_algorithm(name)
    own = [each.name for each in fields(entry.kind) if each.init and each.name != "privacy"]
    known = (*entry.options, *own, "privacy")
    whole = entry.whole or "budget" in own
    elsewhere = ("dim",) * ("n_arms" in own) + _BUDGET * whole  # finite arms, budgets: they have checks of their own
    for given in arguments:
        if given not in known and given not in elsewhere:
            hint = did_you_mean(given, (each for each in known if each not in arguments))
            raise UnknownArgument(given, arguments[given], name, ", ".join(known), hint)
    try:
        return entry.make(**arguments)
    except TypeError as error:  # Python's complaint about missing keywords
        if "missing" in str(error) and (absent := re.findall(r"'(\w+)'", str(error))):
            hint = f"{name} needs {' and '.join(absent)}; it takes {', '.join(known)}"
            raise InvalidArgument(absent[0], None, "given", hint) from None
        raise InvalidArgument("arguments", sorted(arguments), f"arguments of {name}", str(error)) from None


def compute_bounds(setting: RunSetting, horizons: Any) -> list[BoundCurve]:
    """Return regret bounds after `horizons` rounds, if any are known."""
    rounds = np.atleast_1d(np.asarray(horizons, dtype=float))
    named = [entry.kind for entry in ALGORITHMS.values() if find_stored_name(entry.kind) == setting.get("policy")]
    return [
        BoundCurve(bound=BOUNDS[formula.__name__], values=np.asarray(formula(horizon=rounds, **arguments), dtype=float))
        for kind in named[:1]
        for formula, arguments in kind._regret_bounds(setting)
    ]


def find_argument_types(name: str) -> dict[str, Any]:
    """Return the declared types of the arguments of `make` for this name."""
    entry = find_algorithm(name)
    models = TRUSTS if is_import_path(name) else (entry.trust.partition(" ")[0],)  # "concurrent shuffle"
    hints = {
        each: hint for model in models for each, hint in typing.get_type_hints(getattr(privacy_model, model)).items()
    }
    return {**hints, **typing.get_type_hints(entry.kind), "trust": str}


def make_from_table(table: str, name: str, arguments: Mapping[str, Any]) -> Any:
    """Make a policy from a table of a file, with tables for `batch` and `explore`; errors name the table."""
    chosen = dict(arguments)
    if isinstance(chosen.get("batch"), Mapping):
        given = check_keys(chosen["batch"], f"{table}.batch", ("first", "ratio"), needed=("first", "ratio"))
        with prefix_errors(f"{table}.batch."):
            chosen["batch"] = geometric(**given)
    if isinstance(chosen.get("explore"), Mapping):
        given = check_keys(chosen["explore"], f"{table}.explore", ("first", "then"))
        with prefix_errors(f"{table}.explore."):
            chosen["explore"] = uniform(**given)
    with prefix_errors(f"{table}."):
        return make(name, **chosen)


@lru_cache(maxsize=64)
def make_encoding(*own: type[Policy[Any]]) -> Encoding:
    """Return the encoding of all listed policies and those given."""
    kinds = PROTOCOLS | index_by_stored_name(
        LinearReport, InterceptReport, PerArmReport, RunningSumProtocol, RunLengthSizes
    )
    policies: list[type[Policy[Any]]] = [*(each.kind for each in ALGORITHMS.values()), *UNLISTED_POLICIES, *own]
    for policy in policies:
        kinds |= policy._stored_classes()
    return Encoding(kinds)


def make_save_format(*own: type[Policy[Any]]) -> SaveFormat:
    """Return the format of saved agents with these policies."""
    return SaveFormat(noun="agent", version=1, encoding=make_encoding(*own))


def columns_from_played(played: PlayedRounds) -> dict[str, Any]:
    """Return rows as a file holds them."""
    return {each.name: value for each in fields(played) if (value := getattr(played, each.name)) is not None}
