"""`audit`: try to refute the claim of a mechanism, a protocol or a policy.

A policy is attacked by its releases, by other users' view of it, or in one run with many canaries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.audit import mechanisms, policies, targets
from bandanna.audit.comparison import list_arrays
from bandanna.audit.releases import FAR_REWARD, find_farthest_rows
from bandanna.audit.replay import draw_other_contexts, play_recorded, protects_features, record_neighbours
from bandanna.audit.sampled_bounds import Claim, make_claim
from bandanna.audit.targets import (
    CONFIDENCE,
    TRIALS,
    AuditResult,
    AuditRow,
    ProgressCallback,
    Target,
    attacked,
    ignore_progress,
    make_guessing_row,
    run_blocks_by,
    stream_key,
)
from bandanna.device.domain import Estimate
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidArgument, did_you_mean
from bandanna.experiments.executors import Executor, InProcessExecutor, choose_executor_or_here
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import Mechanism
from bandanna.numeric.rng import GeneratorRandomness, NoRandomness, Streams
from bandanna.policies.algorithm import is_import_path, suggest_import_path
from bandanna.policies.base import (
    FixedLength,
    PlayedRounds,
    Policy,
    RunnerState,
    RunningSumPolicy,
    SumQuery,
    drive_learning,
)
from bandanna.privacy.events import NothingEvent
from bandanna.protocols.base import BatchProtocol, Protocol, StreamProtocol
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.players.reference import find_fixed_arms
from bandanna.types import Floats

VIEWS = ("releases", "snapshot", "actions", "one-run")
_OTHER_USERS = 2  # they act on the snapshot
_LOOKED_AT = "the first user of the first batch, with one pair of rows as far apart as we can make them"
_NOT_LOOKED_AT = ("other users and rows", "later batches", "the secure noise source")


def view_target(
    policy: Policy[Any],
    env: Environment,
    *,
    name: str,
    view: str,
    rounds: int,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
) -> Target:
    """Make a target of other users' view of a policy: its snapshots, or their actions with probabilities.

    The first episode, with the canary in it, is answered many times under either neighbour; the policy learns and
    publishes, and other users act. The claim is the policy's own unless epsilon and delta are given.
    """
    stated = policy.guarantee
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    if not policy.privacy.noisy:
        return Target(name=f"{name}, {view}", claim=Claim(epsilon=claimed, delta=at))
    recording = record_neighbours(policy, env, rounds=rounds, seed=seed)
    lives: list[PlayedRounds] = []
    for canary in recording.worlds:
        first = replace(canary, rounds=np.zeros(1, dtype=np.int64))
        run = play_recorded(policy, env, rounds=rounds, seed=seed, canaries=first, forced=recording.first.queries)
        lives.append(run.episodes[0][1])
    fixed = find_fixed_arms(env.begin(Streams([seed + 1])))
    contexts = draw_other_contexts(env, seed=seed + 1, users=_OTHER_USERS)
    begun = policy.init(fixed[0] if fixed else None)
    episode = policy.episode(begun)
    if view == "actions" and not isinstance(episode, FixedLength):
        raise InvalidArgument("view", view, f"'snapshot' for {name}", "The server assigns the arms")
    together = isinstance(policy, RunningSumPolicy)

    def learned(life: PlayedRounds, rng: np.random.Generator, replicates: tuple[int, ...]) -> Any:
        desk, coins = RunnerState().keep(policy.execution.retained_groups, life), GeneratorRandomness(lambda _: rng)

        def answer(query: SumQuery) -> Estimate:
            nonlocal desk
            values = policy.report(query, desk.rows(query, life), coins).values
            repeated = np.array(np.broadcast_to(values, (*replicates, *values.shape)))
            statistic = query.protocol.domain.sealed(repeated, clipped=np.zeros(replicates, dtype=np.int64))
            desk, estimate = desk.release(query, statistic, FastNoise(rng), path="messages")
            return estimate

        start = policy.init(fixed[0] if fixed else None, replicates)
        return policy.publish(drive_learning(policy.learn(start, episode), answer))

    def shown(snapshot: Any, rng: np.random.Generator, replicates: tuple[int, ...]) -> Floats:
        if view == "snapshot":
            parts = [np.asarray(each, dtype=float) for each in list_arrays(snapshot)]
            repeated = [np.broadcast_to(each, (*replicates, *each.shape[len(replicates) :])) for each in parts]
            return np.concatenate([each.reshape(*replicates, -1) for each in repeated], axis=-1)
        given = np.broadcast_to(contexts, (*replicates, *contexts.shape))
        choice = policy.act(snapshot, policy.clip_features(given), GeneratorRandomness(lambda _: rng))
        taken = choice.actions[..., None] == np.arange(contexts.shape[-2])
        chances = np.broadcast_to(np.asarray(choice.probabilities, dtype=float), choice.actions.shape)
        flat = taken.reshape(*replicates, -1).astype(float)
        return np.concatenate([flat, chances.reshape(*replicates, -1)], axis=-1)

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        life = lives[int(swapped)]
        if together:
            return shown(learned(life, rng, (runs,)), rng, (runs,))
        return np.stack([shown(learned(life, rng, ()), rng, ()) for _ in range(runs)])

    claim = make_claim(recording.script.event, epsilon=claimed, delta=at)
    chunk = min(recording.script.chunk, 4096) if together else 256
    return Target(
        name=f"{name}, {view}", claim=claim, draw=draw, chunk=chunk, looked=(_LOOKED_AT,), unseen=_NOT_LOOKED_AT
    )


_CANARIES = 4000  # in the local model, where every report is seen


def one_run_target(
    name: str,
    policy: Policy[Any],
    env: Environment,
    rounds: int,
    *,
    confidence: float,
    epsilon: float | None = None,
    delta: float | None = None,
    seed: int = 0,
    canaries: int = _CANARIES,
) -> AuditRow:
    """Audit a policy in one run: toss a coin for each of many users, release once, and guess all coins.

    In the local model the server sees every report, so many users report. Elsewhere the first batch's users have
    features e_1, e_2, ..., and each coin decides whether the reward is the largest or the least.
    """
    stated, private = policy.guarantee, protects_features(policy)
    claimed, at = stated.epsilon if epsilon is None else epsilon, stated.delta if delta is None else delta
    probe = play_recorded(policy, env, rounds=rounds, seed=seed)
    first = probe.episodes[0][1]
    query = next(each.query for each in probe.queries if not isinstance(each.query.protocol.event, NothingEvent))
    protocol, rng = query.protocol, np.random.default_rng([seed, *name.encode()])
    local = protocol.trust == "local"
    if local:
        pair = find_farthest_rows(policy, [query], first.at(slice(0, 1)), private=private)
        both = [np.tile(policy.report(query, row, NoRandomness()).values, (canaries, 1)) for row in pair]
    else:
        both = _distinct_reports(policy, query, first)
    values = np.stack(both)  # (2, m, dim)
    users = values.shape[1]
    coins = rng.integers(0, 2, users)
    reports = values[coins, np.arange(users)]
    batch = reports[:, None] if local else reports[None]  # in the local model every user is a batch
    statistic = protocol.domain.sealed(np.array(batch), clipped=np.zeros(batch.shape[:1], dtype=np.int64))
    source = FastNoise(rng)
    if isinstance(protocol, BatchProtocol):
        total = protocol.release(statistic, source).total
    else:
        assert isinstance(protocol, StreamProtocol)
        total = protocol.release(protocol.begin(batch.shape[:1]), statistic, source)[1].total
    moves, middle = values[1] - values[0], (values[0] + values[1]) / 2
    centred = total - (middle if local else middle.sum(axis=0))
    scores = np.sum(centred * moves, axis=-1)
    right = int(np.count_nonzero((scores >= 0) == (coins == 1)))
    return make_guessing_row(
        Claim(epsilon=claimed, delta=at),
        right,
        users,
        target=f"{name}, one-run",
        confidence=confidence,
        trials=1,
        attack="one-run",
        looked_at=f"{users} users in one release, with one pair of rows each; totals alone",
        unseen="other rows, fields, states and snapshots",
    )


def _distinct_reports(policy: Policy[Any], query: SumQuery, first: PlayedRounds) -> list[Floats]:
    """Return reports of the first batch's users, whose features are different unit vectors, under either reward."""
    users, features = len(first.rewards), first.features
    if features is not None:
        constant = bool(getattr(policy, "intercept", False))
        slopes = features.shape[-1] - constant
        features = np.zeros_like(features)
        features[np.arange(users), np.arange(users) % slopes] = 1.0
        if constant:
            features[:, -1] = 1.0
    both = []
    for reward in (-FAR_REWARD, FAR_REWARD):
        rows = replace(first, rewards=np.full(first.rewards.shape, reward), features=features)
        both.append(np.array(policy.report(query, rows, NoRandomness()).values))
    return both


EPSILON, DELTA = 1.0, 1e-5
_MOST = 10**8  # trials


def known_targets() -> tuple[str, ...]:
    """Return the names of all mechanisms, protocols and algorithms."""
    return (*mechanisms.MECHANISMS, *mechanisms.PROTOCOLS, *targets.list_algorithms())


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
    progress: ProgressCallback = ignore_progress,
) -> AuditResult:
    """Try to refute the claim of a target.

    Parameters
    ----------
    target
        A name of `known_targets()`, "module:Class", or a mechanism, a protocol or a policy.
    env, rounds
        For a policy: its environment, and how long it is played (by default its horizon).
    epsilon, delta
        The budget for which a name is calibrated, 1 and 1e-5 by default. For a value, or an algorithm without privacy,
        the claim; by default its stated guarantee.
    trust
        For a policy by its place: its privacy model; by default the first with privacy.
    view : {"releases", "snapshot", "actions", "one-run"}
        The observer's view: all released answers, or, for a policy, one of the others.
    trials : int
        The largest number of runs, half of them under either neighbour.
    confidence : float
        The probability with which a refutation is right.
    seed : int
        The seed of all draws.
    jobs, executor, scheduler
        As in `bd.experiments.run`; by default this process. The result is the same.
    progress : callable
        Called with the work done, all work, and a text.

    Returns
    -------
    AuditResult
        A row with the verdict and the lower bound.
    """
    validation.one_of("view", view, VIEWS)
    validation.integer("trials", trials, most=_MOST)
    if epsilon is not None:
        validation.positive("epsilon", epsilon)
    if delta is not None:
        validation.delta(delta)
    working = choose_executor_or_here(executor, jobs=jobs, scheduler=scheduler)
    if view == "one-run":
        if not isinstance(working, InProcessExecutor):
            raise InvalidArgument("executor", executor or "processes", 'left out for the view "one-run"')
        name, policy, world, played = _resolve_policy(target, env, rounds, epsilon, delta, trust)
        claimed, at = _claim_instead(target, policy, epsilon, delta, view)
        row = one_run_target(name, policy, world, played, epsilon=claimed, delta=at, confidence=confidence, seed=seed)
    else:
        named = {"target": target, "env": env, "rounds": rounds, "epsilon": epsilon, "delta": delta, "trust": trust}
        found = make_target(**named, view=view)
        spread = None
        if not isinstance(working, InProcessExecutor):
            spread = run_blocks_by(working, make_target, named | {"view": view}, stream_key(found, seed))
        row = attacked(found, trials=trials, confidence=confidence, seed=seed, drawn=spread, progress=progress)
    return AuditResult(rows=(row,))


def make_target(
    *,
    target: Any,
    env: Environment | None,
    rounds: int | None,
    epsilon: float | None,
    delta: float | None,
    trust: str | None,
    view: str,
) -> Target:
    """Make the target; the same arguments give the same target everywhere."""
    settled = {*mechanisms.MECHANISMS, *mechanisms.PROTOCOLS}
    if trust is not None and (not isinstance(target, str) or target in settled):
        raise InvalidArgument("trust", trust, "left out, except for a policy given as module:Class")
    if view != "releases":
        name, policy, world, played = _resolve_policy(target, env, rounds, epsilon, delta, trust)
        claimed, at = _claim_instead(target, policy, epsilon, delta, view)
        return view_target(policy, world, name=name, view=view, rounds=played, epsilon=claimed, delta=at)
    if isinstance(target, Mechanism | ContinualGaussian):
        return mechanisms.target_from_mechanism(target, epsilon=epsilon, delta=DELTA if delta is None else delta)
    if isinstance(target, Protocol):
        return mechanisms.target_from_protocol(target, epsilon=epsilon, delta=delta)
    budget = {"epsilon": EPSILON if epsilon is None else epsilon, "delta": DELTA if delta is None else delta}
    if isinstance(target, str) and target in mechanisms.MECHANISMS:
        return mechanisms.mechanism_target(target, **budget)
    if isinstance(target, str) and target in mechanisms.PROTOCOLS:
        return mechanisms.protocol_target(target, **budget)
    name, policy, world, played = _resolve_policy(target, env, rounds, epsilon, delta, trust)
    claimed, at = _claim_instead(target, policy, epsilon, delta, view)
    return policies.target_from_policy(policy, world, rounds=played, name=name, epsilon=claimed, delta=at)


def _claim_instead(
    target: Any, policy: Policy[Any], epsilon: float | None, delta: float | None, view: str
) -> tuple[float | None, float | None]:
    if policy.privacy.noisy:
        return (epsilon, delta) if isinstance(target, Policy) else (None, None)
    if epsilon is None and delta is not None:
        hint = "Without privacy nothing is promised at any delta"
        raise InvalidArgument("delta", delta, "given together with an epsilon", hint)
    if epsilon is not None and view != "releases":
        raise InvalidArgument("view", view, "'releases' for a policy without privacy", "They reveal everything")
    return epsilon, DELTA if epsilon is not None and delta is None else delta


def _resolve_policy(
    target: Any,
    env: Environment | None,
    rounds: int | None,
    epsilon: float | None,
    delta: float | None,
    trust: str | None,
) -> tuple[str, Policy[Any], Environment, int]:
    """Return a policy from a name, place or value, with its name, environment and rounds."""
    if isinstance(target, Policy):
        if env is None:
            raise InvalidArgument("env", env, "the environment that the policy is played in")
        played = rounds or target.horizon
        if played is None:
            raise InvalidArgument("rounds", rounds, "the number of rounds to play", "The policy has no horizon")
        return type(target).__name__, target, env, played
    if isinstance(target, str) and target in {*mechanisms.MECHANISMS, *mechanisms.PROTOCOLS}:
        raise InvalidArgument("target", target, "a policy", "Only policies have snapshots and actions")
    if not isinstance(target, str) or not (target in targets.list_algorithms() or is_import_path(target)):
        hint = suggest_import_path(target) or did_you_mean(target, known_targets())
        raise InvalidArgument("target", target, f"one of {', '.join(known_targets())}, or module:Class", hint)
    at = {"epsilon": EPSILON if epsilon is None else epsilon, "delta": DELTA if delta is None else delta}
    given = epsilon is not None or delta is not None
    try:
        policy, setting = targets.make_audited_policy(target, given=given, trust=trust, **at)
    except InvalidArgument as error:
        if error.argument != "name":
            raise
        raise error.rename("target") from error
    return target, policy, env or setting.env, rounds or setting.rounds
