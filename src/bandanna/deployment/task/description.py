"""Describe a task: the view of each role, the forecast, and the page."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from bandanna.agent.preflight import count_features
from bandanna.deployment.messages.batch_plan import Batch, list_supported_clients
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.deployment.messages.report import HEADER
from bandanna.deployment.task.document import Task, check_joins, make_client_section
from bandanna.deployment.task.query_plan import first_batches, sends_rows
from bandanna.device.arm_sets import FixedArmSet
from bandanna.errors import BandannaError, ClippingWarning, Unreadable
from bandanna.policies.base import Policy, RunningSumPolicy
from bandanna.policies.finite.base import FiniteArmedPolicy
from bandanna.policies.finite.gope import GOPE
from bandanna.policies.finite.thompson import Thompson
from bandanna.policies.finite.ucb import PerRoundUCB
from bandanna.policies.glm.base import GLMPolicy
from bandanna.policies.glm.batched import BatchedGLMPolicy
from bandanna.policies.linear.oful import OFULJDP
from bandanna.policies.population import PhasedElimination
from bandanna.policies.registry import find_algorithm
from bandanna.privacy.guarantee import SHUFFLER, Guarantee, format_rounded_up
from bandanna.protocols.factory import make_mixer_encoding
from bandanna.protocols.mixers import GatheringMixer
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment, regret_of_random_play
from bandanna.simulation.environments.finite import FiniteArms
from bandanna.simulation.environments.glm import GeneralisedLinear
from bandanna.simulation.environments.linear import DisjointLinear, LinearContextual, SphereArms, SphereContexts
from bandanna.simulation.environments.population import OneClientPerRound, Population

# Who sees what


_LENGTH = 4  # bytes before each report of a request
_TRACES = "the slot, address and time of every report, and who gave a final one"
_TRUSTED = "nothing: it is trusted"
_PARTICIPATION_VISIBLE = "participation is not hidden"


class VisibilityRow(NamedTuple):
    """A role, what it sees, and the guarantee that is left against it."""

    role: str
    sees: str
    left: str


def guarantee_of_task(task: Task) -> Guarantee:
    """Return the policy's guarantee with the observers of this task."""
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    return deployed_guarantee(task.policy, batches, mixers=task.mixers)


def deployed_guarantee(policy: Policy[Any], batches: tuple[Batch, ...], *, mixers: int) -> Guarantee:
    """Return the guarantee of a policy that runs as separate roles.

    It is the policy's guarantee, with mixers (0, 1 or 2), analyzer and everybody as observers. `batches` are the first
    ones, at least one.
    """
    stated = policy.guarantee
    rows = [*_mixers(policy, mixers, stated, batches), _analyzer(policy, mixers, stated, batches), _everybody(stated)]
    against = SHUFFLER
    if mixers == 2:
        against = "the shuffler and the helper together"
    elif mixers == 1 and _sealed(batches):
        against = "the shuffler and the analyzer together"
    names = [
        "everybody" if row.role == "everybody" else f"the {'trusted ' * (row.left == _TRUSTED)}{row.role}"
        for row in rows
    ]
    seen = [row.sees.removesuffix(f"; {_TRACES}") for row in rows]
    return replace(stated, observers=tuple(zip(names, seen, strict=True)), against=against, one_process=False)


def visibility_table(task: Task) -> list[VisibilityRow]:
    """Return the visibility of this task's data to device, network, registrar, mixers, analyzer and everybody."""
    stated, policy = task.policy.guarantee, task.policy
    batches = first_batches(policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    return [
        VisibilityRow("device", "its own context, reward and noise", "-"),
        VisibilityRow("network", _describe_sent(batches), _wire(task)),
        VisibilityRow("registrar", "who takes part in which batch, and no report", _registrar(policy, stated)),
        *_mixers(policy, task.mixers, stated, batches),
        _analyzer(policy, task.mixers, stated, batches),
        _everybody(stated),
    ]


def report_bytes(batches: tuple[Batch, ...]) -> list[int]:
    """Return the bytes on the wire of a report of each round, the same for all users."""
    return [HEADER + each.size + _LENGTH for batch in batches for each in batch.rounds]


def _describe_sent(batches: tuple[Batch, ...]) -> str:
    sizes = list(map(str, dict.fromkeys(report_bytes(batches))))
    length = f"{sizes[0]} bytes" if len(sizes) == 1 else f"{', '.join(sizes[:-1])} or {sizes[-1]} bytes"
    return f"that an address sent a report of {length}, the same for everybody" if sizes else "no reports"


def _wire(task: Task) -> str:
    if task.url(task.collector).startswith("https:"):
        return f"the data: the connection is encrypted; {_PARTICIPATION_VISIBLE}"
    return f"the same as the {task.collector}, because http is not encrypted; use it on one machine only"


def _registrar(policy: Policy[Any], stated: Guarantee) -> str:
    """Return the row of the registrar, which can fill a batch with invented users."""
    left = f"the data: it sees none; {_PARTICIPATION_VISIBLE}"
    if policy.privacy.model not in ("shuffle", "concurrent") or policy.privacy.noise == "mixer":
        return left
    return f"{left}. If it invents all others of a batch: {describe_mixer_guarantee(stated)}"


def _mixers(policy: Policy[Any], count: int, stated: Guarantee, batches: tuple[Batch, ...]) -> list[VisibilityRow]:
    if count == 0:
        return []
    if count == 2:
        alone = "all data are hidden from it, as long as the helper keeps its shares to itself; with them: "
        return [
            VisibilityRow(
                "shuffler", f"a uniform share of every report; {_TRACES}", alone + describe_mixer_guarantee(stated)
            ),
            VisibilityRow(
                "helper",
                "the other uniform share of every report, and its slot",
                "the same, if the shuffler keeps its shares to itself",
            ),
        ]
    if _sealed(batches):
        honest = "it adds no reports of its own and the analyzer opens nothing for it"
        left = f"all data are hidden from it, as long as {honest}; else: {describe_mixer_guarantee(stated)}"
        return [VisibilityRow("shuffler", f"sealed reports, which it cannot open; {_TRACES}", left)]
    if policy.privacy.noise == "mixer":
        return [VisibilityRow("shuffler", f"every report without noise; it adds the noise; {_TRACES}", _TRUSTED)]
    levels = " of every level" if policy.privacy.model == "concurrent" else ""
    return [
        VisibilityRow(
            "shuffler", f"the noisy counts{levels} of every report; {_TRACES}", describe_mixer_guarantee(stated)
        )
    ]


def _analyzer(policy: Policy[Any], count: int, stated: Guarantee, batches: tuple[Batch, ...]) -> VisibilityRow:
    concurrent = policy.privacy.model == "concurrent"
    if sends_rows(policy):
        trusted = _TRUSTED if policy.privacy.model == "central" else "nothing"
        return VisibilityRow("analyzer", f"every user's features, arm and reward; {_TRACES}", trusted)
    if count == 0:
        return VisibilityRow("analyzer", f"every noisy report; {_TRACES}", describe_promise(stated))
    if _sealed(batches):
        return VisibilityRow(
            "analyzer", "the noisy reports of a batch in sorted order, without their senders", describe_promise(stated)
        )
    totals = "the totals of every full batch of every level" if concurrent else "the totals of a batch"
    if _public(batches):
        totals += "; the public features of those who gave a final report, sorted, and so who they may be"
    return VisibilityRow("analyzer", totals, describe_promise(stated))


def _everybody(stated: Guarantee) -> VisibilityRow:
    """Return the row of the public: releases, snapshots, and what the policy publishes."""
    public = [what for who, what in stated.observers if who == "everybody"]
    return VisibilityRow("everybody", "; ".join(["releases and snapshots", *public]), describe_promise(stated))


def _sealed(batches: tuple[Batch, ...]) -> bool:
    return any(part.form == "sealed" for batch in batches for each in batch.rounds for part in each.parts)


def _public(batches: tuple[Batch, ...]) -> bool:
    parts = [part for batch in batches for each in batch.rounds for part in each.parts if part.form == "plain"]
    return any(isinstance(make_mixer_encoding().loads(part.mixer or ""), GatheringMixer) for part in parts)


def describe_promise(stated: Guarantee) -> str:
    """Return epsilon and delta against observers of releases."""
    if stated.trust == "none" or math.isinf(stated.epsilon):
        return "nothing: no privacy is promised"
    return f"epsilon = {format_rounded_up(stated.epsilon)}, delta = {format_rounded_up(stated.delta, 3)}"


def describe_mixer_guarantee(stated: Guarantee) -> str:
    """Return epsilon and delta against a mixer that keeps single reports."""
    if stated.shuffler is not None:
        epsilon, delta = format_rounded_up(stated.shuffler.epsilon), format_rounded_up(stated.shuffler.delta, 3)
        return f"epsilon = {epsilon}, delta = {delta}, if single reports are kept"
    if stated.exposed <= stated.delta:
        return "nothing is proven"
    odds = math.floor(1000 * stated.exposed) / 1000
    return f"nothing: two reports are told apart with probability at least {odds:g}"


# The page of a task


_BROKEN_POLICY_ERRORS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RecursionError, StopIteration, TypeError, ValueError),
)
_LOCAL = ("127.0.0.1", "localhost", "::1")


def task_facts(task: Task) -> dict[str, Any]:
    """Return the facts of a task for JSON, after its guarantee was computed again and compared."""
    try:
        return _facts(task)
    except BandannaError:
        raise
    except _BROKEN_POLICY_ERRORS as error:  # a stranger wrote the document
        kind = type(error).__name__
        raise Unreadable(f"task {task.id[:12]} has a part that this program does not understand ({kind})") from error


def _facts(task: Task) -> dict[str, Any]:
    check_promise(task)
    if not task.content["dealer"] and task.content["keys"]:
        check_joins(task)
    batches = first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None, most=1)
    content = task.content
    return {
        "id": task.id,
        "title": _printable(content["title"]),
        **{name: content[name] for name in ("algorithm", "mixers", "grace", "max_age", "close", "test")},
        "trust": task.trust,
        "horizon": task.policy.horizon,
        "participations": task.policy.privacy.participations,
        "first batch": batches[0].slots if batches else 0,
        "report bytes": report_bytes(batches),
        "roles": {role: task.url(role) for role in task.roles},
        "dealer": content["dealer"],
        "operators": {role: _printable(each["operator"]) for role, each in content["joins"].items()},
        "clients": list_supported_clients(content["device"]),
        "guarantee": content["guarantee"],
        "promise": str(guarantee_of_task(task)),
        "sight": [each._asdict() for each in visibility_table(task)],
        "expected": content["expected"],
        "expectation": _printable(describe_forecast(task)),
        "schema": content["schema"],
        "notes": list_notes(task),
    }


def check_promise(task: Task) -> None:
    """Refuse a document that promises more than its policy keeps, up to the last digits.

    It may promise less: a later proof may have lowered a price.
    """
    if find_algorithm(task.content["algorithm"]).kind is not type(task.policy):
        raise BandannaError(f"task {task.id[:12]} has another policy than the name of its algorithm says")
    said = task.content["guarantee"]
    stated = _weaken_guarantee(guarantee_of_task(task), said)
    kept = loads(dumps(stated.to_dict()))
    if not _is_nearly_equal(said, kept) or (said == kept and task.content["promise"] != str(stated)):
        raise BandannaError(f"task {task.id[:12]} promises something else than its policy keeps. Do not use it")
    if not _is_nearly_equal(task.content["device"], loads(dumps(make_client_section(task)))):
        raise BandannaError(f"task {task.id[:12]} has another section for devices than its policy. Do not use it")


def _weaken_guarantee(stated: Guarantee, said: dict[str, Any]) -> Guarantee:
    """Return the guarantee with those numbers of the document that promise no more; None is infinity."""
    numbers = {name: math.inf if said.get(name) is None else said[name] for name in ("epsilon", "delta", "rho")}
    weaker: dict[str, Any] = {name: n for name, n in numbers.items() if type(n) is float and n >= getattr(stated, name)}
    return replace(stated, **weaker)


def _printable(text: str) -> str:
    """Replace characters that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _is_nearly_equal(stated: Any, kept: Any) -> bool:
    """Return whether two values are equal up to the last digits of floats, which machines may round differently."""
    if isinstance(stated, dict) and isinstance(kept, dict):
        return set(stated) == set(kept) and all(_is_nearly_equal(stated[name], kept[name]) for name in kept)
    if isinstance(stated, list) and isinstance(kept, list):
        return len(stated) == len(kept) and all(map(_is_nearly_equal, stated, kept))
    if type(stated) is float and type(kept) is float:
        return math.isclose(stated, kept, rel_tol=1e-6)
    return type(stated) is type(kept) and bool(stated == kept)


def list_notes(task: Task) -> list[str]:
    """Return what an operator of the task must know."""
    found = []
    if task.content["dealer"]:
        found.append(
            "One machine drew the keys of all roles, so its operator can act as every role. For roles of different"
            " operators, use bandanna task draft and join."
        )
    elif not task.content["keys"]:
        found.append("This is a draft. It can be served after all its roles have joined.")
    else:
        operators = {role: each["operator"] for role, each in task.content["joins"].items()}
        runs = "; ".join(f"{role}: {_printable(operator)}" for role, operator in operators.items())
        found.append(f"Each role has drawn its own keys. Operators: {runs}.")
        for one, other in (("shuffler", "helper"), ("registrar", "analyzer")):
            if one in operators and operators[one] == operators.get(other):
                found.append(f"{one} and {other} have the same operator, so they count as one party.")
    if task.trust in ("shuffle", "concurrent") and task.policy.privacy.noise != "mixer":
        who = "the registrar or the host with its token"
        if task.mixers == 1:
            who = "the registrar, the host with its token or the shuffler"
        found.append(
            "A release has the noise of a whole batch, or of all users of an arm if arms are assigned. If"
            f" {who} invents all others of a batch, only one user's noise is left. See the row of the registrar."
        )
    if task.mixers == 2:
        found += [
            "Two mixers see only shares and cannot check the range of counts, so one client can shift a total"
            " arbitrarily. Give tickets to known users only.",
            "One share is uniform for any report, but both mixers together see every report. Let different operators"
            " run them.",
        ]
    if task.content["test"]:
        known = ", noise and coins follow from a public seed" if task.seed is not None else ""
        found.append(f"This is a test{known}: it protects nobody.")
    parts = {role: urlsplit(task.url(role)) for role in task.roles}
    plain = [role for role, url in parts.items() if url.scheme == "http" and url.hostname not in _LOCAL]
    if plain:
        found.append(f"Connections are not encrypted to: {', '.join(plain)}. Use https outside of one machine.")

    return found


def describe_forecast(task: Task) -> str:
    """Return the forecast as a sentence."""
    expected = task.content["expected"]
    if expected is None:
        return "Expected regret: not simulated (no typical world fits, it would take too long, or --no-forecast)."
    regret = f"{expected['regret']:,.0f} +- {expected['stderr']:,.0f}"
    return (
        f"Expected regret: {regret} in {expected['rounds']:,} rounds, where"
        f" random play loses {expected['random play']:,.0f} ({expected['environment']}; {expected['seeds']} seeds)."
    )


# The forecast


_ARMS = 10  # of a world, where the task does not say how many there are
_SEEDS = (4, 2)
_NUMBERS = 10**8  # that may be drawn: some 3 seconds
_OTHER = 40  # numbers for each user beside the features
_RELEASES = 3_000  # for all seeds side by side: some 3 seconds


def forecast(policy: Policy[Any], arms: FixedArmSet | None = None) -> dict[str, Any] | None:
    """Return mean regret over the seeds and that of random play; None if no environment fits or it would take long.

    >>> from bandanna.policies.registry import make
    >>> sorted(forecast(make("LinTS", dim=2, horizon=50)))
    ['environment', 'random play', 'regret', 'rounds', 'seeds', 'stderr']
    """
    env, rounds = world_for(policy, arms), policy.horizon
    if env is None or rounds is None or _count_releases(policy, rounds) > _RELEASES:
        return None
    numbers = (rounds + _count_clients(policy)) * (env.n_arms * env.dim + _OTHER)
    seeds = next((each for each in _SEEDS if each * numbers <= _NUMBERS), None)
    if seeds is None:
        return None
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore", ClippingWarning)  # of a world that the policy's user did not choose
            regret = simulate(policy, env, n_seeds=seeds, checkpoints=1, path="law").final_regret
            played = OneClientPerRound(population=env) if isinstance(env, Population) else env
            idle = regret_of_random_play(played, horizon=rounds, n_seeds=seeds)
    except (BandannaError, ArithmeticError, MemoryError, ValueError):  # a world that does not fit after all
        return None
    found = {
        "regret": float(np.mean(regret)),
        "stderr": float(np.std(regret, ddof=1)) / math.sqrt(seeds),
        "random play": float(np.mean(idle)),
    }
    if not all(map(math.isfinite, found.values())):
        return None
    fixed = ", the same for everybody" * bool(getattr(env, "fixed", False))
    features = "" if isinstance(env, FiniteArms) else f", {env.dim} features{fixed}"
    name = f"{type(env).__name__}: {env.n_arms} arms{features}"
    return {"environment": name, "rounds": rounds, "seeds": seeds, **found}


def world_for(policy: Policy[Any], arms: FixedArmSet | None = None) -> Environment | None:
    """Return a typical environment with the policy's numbers of arms and features."""
    dim, count = count_features(policy), getattr(policy, "n_arms", None)
    several = count or (_ARMS if arms is None else len(arms.ids))
    try:
        if isinstance(policy, FiniteArmedPolicy):
            return FiniteArms(means=np.linspace(0.75, 0.25, policy.n_arms))
        if isinstance(policy, PhasedElimination):
            return Population(dim=dim, n_arms=several, sigma=policy.sigma)
        if isinstance(policy, GOPE):
            return SphereArms(dim=dim, n_arms=several)
        if isinstance(policy, OFULJDP):
            return SphereContexts(dim=dim, n_arms=several)
        if isinstance(policy, GLMPolicy):
            return GeneralisedLinear(dim=dim, n_arms=several, norm=policy.parameter_bound, link=policy.link)
        if dim == 0:
            return None
        if count is not None:
            return DisjointLinear(dim=dim, n_arms=count)
        return LinearContextual(dim=dim, n_arms=several, fixed=arms is not None)
    except BandannaError:
        return None


def _count_releases(policy: Policy[Any], rounds: int) -> int:
    """Return the number of steps of a simulation; 1 for the few steps of elimination and growing batches."""
    if isinstance(policy, RunningSumPolicy):
        return max((len(channel.sizes) for channel in policy._calibrated_channels().values()), default=1)
    every = isinstance(policy, PerRoundUCB | Thompson) or (
        isinstance(policy, GLMPolicy) and not isinstance(policy, BatchedGLMPolicy)
    )
    return rounds if every else 1


def _count_clients(policy: Policy[Any]) -> int:
    """Return the number of clients in the last phase."""
    if not isinstance(policy, PhasedElimination):
        return 0
    return policy.clients or math.ceil(2 ** min(policy.alpha * policy.phases, 60.0))
