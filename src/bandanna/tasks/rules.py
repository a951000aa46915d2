"""What a task's file leads to: the policy, who mixes, how old a snapshot may be, which arms there are, who is where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from bandanna.agent.arms import features_of, fixed_arms
from bandanna.agent.records import check_map
from bandanna.agent.releases import affordable
from bandanna.core.arm_sets import FixedArms
from bandanna.core.tables import inside, typed
from bandanna.errors import InvalidArgument
from bandanna.features.map import Map
from bandanna.policies.base import Policy
from bandanna.policies.elsewhere import is_place
from bandanna.policies.registry import known_as
from bandanna.policies.tabled import make_from, types_of
from bandanna.tasks.batches import check_deployable
from bandanna.tasks.toml import Wanted, default_url

_MIXED = ("shuffle", "concurrent")  # trust models with mixers
_ARMS, _ROUNDS = 100_000, 10**12


def policy_of(want: Wanted) -> Policy[Any]:
    """Made, and not yet calibrated."""
    if is_place(want.algorithm):
        raise InvalidArgument("algorithm", want.algorithm, "a name of `bandanna list`: every party knows these")
    try:
        entry = known_as(want.algorithm)
    except InvalidArgument as error:
        raise InvalidArgument("algorithm", error.value, error.allowed.removesuffix(", or module:Class")) from None
    given, types = dict(want.policy), types_of(want.algorithm)
    if "participations" in given:
        raise InvalidArgument("policy.participations", given["participations"], "left out: it belongs into [rules]")
    for name, value in given.items():
        typed(f"policy.{name}", value, types.get(name))
    for name, usual in (("participations", 1), ("noise", "device")):
        chosen = getattr(want, name) or usual
        if chosen != usual and name in entry.options:
            given[name] = chosen
        elif chosen != usual and not (name == "participations" and entry.trust == "none"):
            raise InvalidArgument(f"rules.{name}", chosen, f"{usual!r}: {want.algorithm} has nothing else")
    policy: Policy[Any] = make_from("policy", want.algorithm, given)
    counts = policy.privacy.model in _MIXED and policy.privacy.protocol == "binomial" and policy.privacy.noisy
    if want.noise is None and counts and want.mixers in (None, 1) and "noise" in entry.options:
        policy = make_from("policy", want.algorithm, {**given, "noise": "checked"})  # one mixer sees counts
    if entry.trust == "none" and want.participations > 1:
        policy = replace(policy, privacy=replace(policy.privacy, participations=want.participations))  # type: ignore[type-var]
    if policy.horizon is None or policy.horizon > _ROUNDS:
        raise InvalidArgument("policy.horizon", policy.horizon, f"a number of rounds, at most {_ROUNDS:,}")
    with inside("policy."):
        check_deployable(policy)
    return policy


def calibrate(policy: Policy[Any]) -> None:
    """This takes its time; noise that does not keep the policy's own budget is refused."""
    with inside("policy."):
        policy.prepare()
        affordable(policy)


def mixers_of(want: Wanted, policy: Policy[Any]) -> int:
    """How many there are: by default one where the trust model has any."""
    model = policy.privacy.model
    if model not in _MIXED:
        if want.mixers:
            allowed = f'0: in the "{model}" model devices report to the analyzer; mixers are for {" and ".join(_MIXED)}'
            raise InvalidArgument("rules.mixers", want.mixers, allowed)
        return 0
    mixers = 1 if want.mixers is None else want.mixers
    if mixers == 0:
        raise InvalidArgument("rules.mixers", 0, f'1 or 2: the "{model}" model needs a mixer')
    if want.noise in ("checked", "mixer") and mixers != 1:
        raise InvalidArgument("rules.noise", want.noise, '"device", or mixers = 1: with two, neither sees the counts')
    return mixers


def max_age_of(want: Wanted, policy: Policy[Any]) -> int:
    """0 where the next batch follows from what this one has taught: it cannot begin before."""
    known = type(policy).following is not Policy.following
    if want.max_age is None:
        return int(known)
    if want.max_age and not known:
        allowed = f"0: what {want.algorithm} does next follows from what it has learned, so nobody may act on less"
        raise InvalidArgument("rules.max_age", want.max_age, allowed)
    return want.max_age


def arms_of(want: Wanted, policy: Policy[Any]) -> FixedArms | None:
    """Those that stay."""
    count = getattr(policy, "n_arms", None)
    named, counted = isinstance(want.arms, list), count is not None
    if count is not None and count > _ARMS:
        raise InvalidArgument("policy.n_arms", count, f"at most {_ARMS:,}: the document names every arm")
    if want.arms is not None and named != counted:
        allowed = "names alone: its arms have no features" if counted else "with features = { name = [numbers], ... }"
        raise InvalidArgument("arms", want.arms, f"{want.algorithm} takes them {allowed}")
    return fixed_arms(policy, want.arms)


def schema_of(want: Wanted, policy: Policy[Any]) -> dict[str, Any] | None:
    """The features of a context, as many as the policy has: their ranges, or a map from records."""
    if want.features is not None:
        check_map(want.features, policy)
        _check_total(want.features)
        if want.arms is not None and getattr(policy, "n_arms", None) is None:
            raise InvalidArgument("features", "a map", "none: arms that stay have their features in [arms]")
        return want.features.to_dict()
    if want.schema is not None and (count := len(want.schema["names"])) != features_of(policy):
        allowed = f"{features_of(policy)} names, one for each feature of the policy"
        raise InvalidArgument("schema", f"{count} names", allowed)
    return want.schema


def _check_total(features: Map) -> None:
    """Refuse a map that refuses records: who is refused would be missing from a batch, and tell by that."""
    for each in features.columns:
        if "refuse" in (each.missing, getattr(each, "outside", ""), getattr(each, "unknown", "")):
            allowed = 'a column that takes every record: outside = "clip", unknown and missing = "zero" or "other"'
            raise InvalidArgument(f"features.columns.{each.name}", "refuse", allowed)


def urls_of(want: Wanted, mixers: int) -> dict[str, str]:
    """Where the task's roles are found."""
    roles = ("analyzer", "shuffler", "helper")[: 1 + mixers]
    for role in want.urls:
        if role not in ("registrar", *roles):
            raise InvalidArgument(f"roles.{role}", want.urls[role], f"left out: with {mixers} mixers there is none")
    urls = {role: want.urls.get(role, default_url(role)) for role in ("registrar", *roles)}
    for role, url in urls.items():
        if want.urls and role not in want.urls and not all(map(_local, want.urls.values())):
            raise InvalidArgument(f"roles.{role}", None, "its address: other roles are not on this machine")
        same = next(
            (each for each, other in urls.items() if each != role and other.rstrip("/") == url.rstrip("/")), None
        )
        if same is not None:
            raise InvalidArgument(f"roles.{role}", url, f"an address of its own: it is that of the {same}")
    return urls


def _local(url: str) -> bool:
    return (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")
