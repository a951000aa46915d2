"""One target, whatever it is: a name, a place, or a value."""

from __future__ import annotations

from typing import Any

from bandanna.audit import mechanisms, policies, protocols, settings
from bandanna.audit.canaries import one_run
from bandanna.audit.result import AuditResult
from bandanna.audit.spread import over
from bandanna.audit.targets import CONFIDENCE, TRIALS, Progress, Target, attacked, key_of, silent
from bandanna.audit.views import VIEWS, view_target
from bandanna.core import require
from bandanna.core.spelling import did_you_mean
from bandanna.environments.base import Environment
from bandanna.errors import InvalidArgument
from bandanna.experiments.executors import Executor, Here, here_unless
from bandanna.mechanisms.base import Mechanism
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.policies.base import Policy
from bandanna.policies.elsewhere import is_place, meant_place
from bandanna.protocols.base import Protocol

EPSILON, DELTA = 1.0, 1e-5
_MOST = 10**8  # trials


def known_targets() -> tuple[str, ...]:
    """All names."""
    return (*mechanisms.MECHANISMS, *protocols.PROTOCOLS, *settings.names())


def audit(
    target: Any,
    *,
    env: Environment | None = None,
    rounds: int | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    trust: str | None = None,
    view: str = "releases",
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    jobs: int | None = None,
    executor: str | Executor | None = None,
    scheduler: str | None = None,
    progress: Progress = silent,
) -> AuditResult:
    """Try to refute what a target claims.

    target          a name of `known_targets()`, "module:Class", or a mechanism, a protocol, a policy
    env, rounds     of a policy: its world, and how long it is played (its horizon)
    epsilon, delta  a name is calibrated for this budget (1 and 1e-5 unless given); a value is held to it, or to what it
                    states, and so is an algorithm without privacy
    trust           of a policy by its place: which of its trust models, the first with privacy unless given
    view            what the observer sees: "releases", all answers; of a policy also "snapshot", "actions", "one-run"
    trials          how often the target is run at most, half of the runs under either neighbour
    confidence      with which a refutation is right
    executor        who makes the runs, as in `bd.run`: "processes" (`jobs` of them), "dask" (at `scheduler`), or here;
                    the result is the same
    """
    require.one_of("view", view, VIEWS)
    require.whole("trials", trials, most=_MOST)
    if epsilon is not None:
        require.positive("epsilon", epsilon)
    if delta is not None:
        require.delta(delta)
    working = here_unless(executor, jobs=jobs, scheduler=scheduler)
    if view == "one-run":
        if not isinstance(working, Here):
            raise InvalidArgument("executor", executor or "processes", "left out: one run is a task for one")
        name, policy, world, played = _policy(target, env, rounds, epsilon, delta, trust)
        claimed, at = _held(target, policy, epsilon, delta, view)
        row = one_run(name, policy, world, played, epsilon=claimed, delta=at, confidence=confidence, seed=seed)
    else:
        named = {"target": target, "env": env, "rounds": rounds, "epsilon": epsilon, "delta": delta, "trust": trust}
        found = target_of(**named, view=view)
        spread = (
            None if isinstance(working, Here) else over(working, target_of, named | {"view": view}, key_of(found, seed))
        )
        row = attacked(found, trials=trials, confidence=confidence, seed=seed, drawn=spread, progress=progress)
    return AuditResult(rows=(row,))


def target_of(
    *,
    target: Any,
    env: Environment | None,
    rounds: int | None,
    epsilon: float | None,
    delta: float | None,
    trust: str | None,
    view: str,
) -> Target:
    """What is audited; the same wherever it is made."""
    settled = {*mechanisms.MECHANISMS, *protocols.PROTOCOLS}
    if trust is not None and (not isinstance(target, str) or target in settled):
        raise InvalidArgument(
            "trust", trust, "left out: only a policy given as module:Class has several to choose from"
        )
    if view != "releases":
        name, policy, world, played = _policy(target, env, rounds, epsilon, delta, trust)
        claimed, at = _held(target, policy, epsilon, delta, view)
        return view_target(policy, world, name=name, view=view, rounds=played, epsilon=claimed, delta=at)
    if isinstance(target, Mechanism | ContinualGaussian):
        return mechanisms.of_mechanism(target, epsilon=epsilon, delta=DELTA if delta is None else delta)
    if isinstance(target, Protocol):
        return protocols.of_protocol(target, epsilon=epsilon, delta=delta)
    budget = {"epsilon": EPSILON if epsilon is None else epsilon, "delta": DELTA if delta is None else delta}
    if isinstance(target, str) and target in mechanisms.MECHANISMS:
        return mechanisms.mechanism_target(target, **budget)
    if isinstance(target, str) and target in protocols.PROTOCOLS:
        return protocols.protocol_target(target, **budget)
    name, policy, world, played = _policy(target, env, rounds, epsilon, delta, trust)
    claimed, at = _held(target, policy, epsilon, delta, view)
    return policies.of_policy(policy, world, rounds=played, name=name, epsilon=claimed, delta=at)


def _held(
    target: Any, policy: Policy[Any], epsilon: float | None, delta: float | None, view: str
) -> tuple[float | None, float | None]:
    """What somebody says of a policy, instead of what it states; nothing of a name that was made for its budget."""
    if policy.privacy.noisy:
        return (epsilon, delta) if isinstance(target, Policy) else (None, None)
    if epsilon is None and delta is not None:
        raise InvalidArgument("delta", delta, "given with an epsilon: without privacy nothing is promised at any delta")
    if epsilon is not None and view != "releases":
        raise InvalidArgument("view", view, "releases: without privacy they are seen as they are, and tell everything")
    return epsilon, DELTA if epsilon is not None and delta is None else delta


def _policy(
    target: Any,
    env: Environment | None,
    rounds: int | None,
    epsilon: float | None,
    delta: float | None,
    trust: str | None,
) -> tuple[str, Policy[Any], Environment, int]:
    """A policy by name, by place or as it stands, with its world and its rounds."""
    if isinstance(target, Policy):
        if env is None:
            raise InvalidArgument("env", env, "the environment that the policy is played in")
        played = rounds or target.horizon
        if played is None:
            raise InvalidArgument("rounds", rounds, "how many rounds to play: the policy has no horizon")
        return type(target).__name__, target, env, played
    if isinstance(target, str) and target in {*mechanisms.MECHANISMS, *protocols.PROTOCOLS}:
        raise InvalidArgument("target", target, "a policy: nobody publishes or acts where there is none")
    if not isinstance(target, str) or not (target in settings.names() or is_place(target)):
        hint = meant_place(target) or did_you_mean(target, known_targets())
        allowed = f"{hint}one of {', '.join(known_targets())}, or module:Class"
        raise InvalidArgument("target", target, allowed)
    at = {"epsilon": EPSILON if epsilon is None else epsilon, "delta": DELTA if delta is None else delta}
    given = epsilon is not None or delta is not None
    try:
        policy, setting = settings.policy_of(target, given=given, trust=trust, **at)
    except InvalidArgument as error:
        if error.argument != "name":
            raise
        raise type(error)("target", error.value, error.allowed) from error  # as it is called here
    return target, policy, env or setting.env, rounds or setting.rounds
