"""Run many seeds of a policy in an environment, by the player of `PLAYERS` that its `Execution.player` names.

All players give the reference player's results.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, overload

import numpy as np

from bandanna import validation
from bandanna.device.domain import Box
from bandanna.errors import ClippingWarning, InvalidArgument, ValueSummary
from bandanna.numeric.rng import Streams
from bandanna.policies.base import Execution, Policy
from bandanna.protocols.privacy_model import Privacy, central, none
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.players import assigned, fixed_batches, reference, round_by_round
from bandanna.simulation.result import Result, ResultSet, RunTotals, Tally, checkpoints_for
from bandanna.storage.encoding import find_stored_name, has_name
from bandanna.validation import checked_keywords

MAX_SEEDS = 100_000  # side by side

PLAYERS: dict[str, Callable[..., RunTotals]] = {
    "plain": reference.play_reference,
    "frozen": fixed_batches.play_fixed_batches,
    "every round": round_by_round.play_glm_rounds,
    "blocks": round_by_round.play_blocks,
    "lockstep": round_by_round.play_every_round,
    "assigned": assigned.play_assigned,
    "population": assigned.play_population,
    "until": round_by_round.play_until_stopped,
}


@overload
def simulate(
    policy: Policy[Any],
    env: Environment,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
    horizon: int | None = None,
) -> Result: ...


@overload
def simulate(
    policy: Mapping[str, Policy[Any]],
    env: Environment,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
    horizon: int | None = None,
) -> ResultSet: ...


@checked_keywords("bd.simulate")
def simulate(
    policy: Policy[Any] | Mapping[str, Policy[Any]],
    env: Environment,
    *,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
    horizon: int | None = None,
) -> Result | ResultSet:
    """Simulate a policy in an environment and return its regret.

    Parameters
    ----------
    policy
        The policy, or a mapping from labels to policies.
    env
        The environment, such as `bd.environments.LinearContextual(dim=5, n_arms=20)`.
    n_seeds, seed
        Number of independent runs, and the first seed: the runs have the seeds seed, seed + 1, ...
    path
        "law" samples the noise of sums directly. "messages" simulates every message: slower, same distribution.
    checkpoints
        Number of points recorded on the regret curve.
    horizon
        Number of rounds; `policy.horizon` by default.

    Returns
    -------
    Result or ResultSet
        A `ResultSet` with the same labels for several policies.
    """
    shared: dict[str, Any] = {"n_seeds": n_seeds, "seed": seed, "path": path, "checkpoints": checkpoints}
    if not isinstance(policy, Mapping):
        return _simulate_policy(policy, env, horizon=horizon, **shared)
    if not policy or not all(isinstance(label, str) and label for label in policy):
        raise InvalidArgument("policy", policy, "a policy, or a mapping from labels to policies")
    results = {}
    for label, each in policy.items():
        results[label] = _simulate_policy(each, env, horizon=horizon, **shared)
    return ResultSet(results)


PrivacyMaker = Callable[..., Privacy]  # such as `bd.central`


@checked_keywords("bd.sweep")
def sweep(
    policy: Policy[Any],
    env: Environment,
    *,
    epsilon: float | Sequence[float],
    delta: float = 1e-5,
    privacy: PrivacyMaker | Sequence[PrivacyMaker] | Mapping[str, PrivacyMaker] = central,
    n_seeds: int = 1,
    seed: int = 0,
    path: str = "law",
    checkpoints: int = 200,
    horizon: int | None = None,
) -> ResultSet:
    """Simulate a policy under several privacy models and budgets, in the same worlds.

    Parameters
    ----------
    policy
        The policy; its own `privacy` is replaced.
    env
        The environment, as for `simulate`.
    epsilon, delta
        One or more numbers, and the delta of all budgets.
    privacy
        `bd.central`, `bd.shuffle`, `bd.local` or `bd.concurrent`, several of them, or a mapping from labels to
        functions of epsilon and delta, such as `partial(bd.shuffle, participations=3)`.
    n_seeds, seed, path, checkpoints, horizon
        As for `simulate`.

    Returns
    -------
    ResultSet
        A result for each privacy model and epsilon. In its frames `asked_epsilon` is the given number, epsilon and
        delta are the guarantee.
    """
    validation.instance("policy", policy, Policy, "a policy such as bd.LinTS(...) or bd.make(...)")
    makers = _label_makers(privacy)
    budgets = _list_numbers("epsilon", epsilon)
    results, requested = {}, {}
    for name, maker in makers.items():
        for number in budgets:
            label = f"{name}, epsilon = {float(validation.epsilon(number)):g}"
            if label in results:
                raise InvalidArgument("epsilon", epsilon, "numbers that differ in six digits")
            private = replace(policy, privacy=_make_privacy(maker, number, delta))  # type: ignore[type-var]
            results[label] = _simulate_policy(
                private, env, n_seeds=n_seeds, seed=seed, path=path, checkpoints=checkpoints, horizon=horizon
            )
            requested[label] = {"asked_epsilon": float(number)}
    if not results:
        raise InvalidArgument("epsilon", epsilon, "at least one number")
    return ResultSet(results, requested)


def _list_numbers(argument: str, given: Any) -> Sequence[Any]:
    if isinstance(given, int | float | np.number):
        return [given]
    return validation.list_entries(argument, given, "a number, or a list of numbers")


def _make_privacy(maker: PrivacyMaker, epsilon: float, delta: float) -> Privacy:
    allowed = "a function of epsilon and delta that returns a Privacy, such as bd.central"
    try:
        made = maker(epsilon, delta)
    except TypeError as error:
        raise InvalidArgument("privacy", maker, allowed) from error
    if not isinstance(made, Privacy):
        raise InvalidArgument("privacy", maker, allowed)
    return made


def _label_makers(privacy: Any) -> dict[str, PrivacyMaker]:
    allowed = (
        "bd.central, bd.shuffle, bd.local or bd.concurrent, several of them, or a mapping from labels to functions"
    )
    if isinstance(privacy, Mapping):
        makers = dict(privacy)
    else:
        given = [privacy] if callable(privacy) else validation.list_entries("privacy", privacy, allowed)
        makers = {getattr(maker, "__name__", ""): maker for maker in given}
        if len(makers) < len(given):
            hint = "Functions with the same name need labels"
            raise InvalidArgument("privacy", privacy, allowed, hint)
    if none in makers.values():
        hint = "Simulate the policy with privacy=bd.none() for the regret without privacy"
        raise InvalidArgument("privacy", ValueSummary("bd.none, which has no epsilon"), allowed, hint)
    if not makers or not all(isinstance(label, str) and label and callable(maker) for label, maker in makers.items()):
        raise InvalidArgument("privacy", privacy, allowed)
    return makers


def _simulate_policy(
    policy: Policy[Any], env: Environment, *, n_seeds: int, seed: int, path: str, checkpoints: int, horizon: int | None
) -> Result:
    validation.instance("policy", policy, Policy, "a policy such as bd.LinTS(...) or bd.make(...)")
    play = PLAYERS[vars(type(policy)).get("execution", Execution()).player]
    validation.instance("env", env, Environment, "an environment such as bd.environments.LinearContextual(...)")
    policy = policy.with_arms(env.n_arms)
    for size in ("n_arms", "dim"):  # finite-armed policies count arms, linear ones features, some both
        expected = getattr(policy, size, None)
        if expected is not None and getattr(env, size) != expected:
            raise InvalidArgument(f"env.{size}", getattr(env, size), f"{expected}, the policy's {size}")
    validation.one_of("path", path, ("law", "messages"))
    rounds = env.check_rounds(_resolve_horizon(policy, horizon))
    began = time.perf_counter()
    first = validation.integer("seed", seed, least=0, most=validation.SEED_LIMIT)
    n_seeds = validation.integer("n_seeds", n_seeds, most=MAX_SEEDS)
    streams = Streams(range(first, first + n_seeds))
    world = env.begin(streams)
    tally = Tally(checkpoints=checkpoints_for(rounds, checkpoints), n_seeds=n_seeds, n_arms=world.n_arms)
    run = play(policy, world, tally, rounds, path=path)
    counts = dict(run.counts)
    repairs = counts.pop("repairs", np.zeros(n_seeds, dtype=np.int64)) if run.repairs is None else run.repairs
    if run.reports is not None and (warning := ClippingWarning.of(int(np.sum(run.clipped)), run.reports * n_seeds)):
        warnings.warn(warning, stacklevel=4)
    return Result(
        checkpoints=tally.checkpoints,
        regret=tally.regret,
        rewards=tally.rewards,
        releases=run.releases,
        clipped=run.clipped,
        repairs=repairs,
        bits_per_user=policy._bits_per_user if run.bits_per_user is None else run.bits_per_user,
        guarantee=policy.guarantee if run.guarantee is None else run.guarantee,
        seconds=time.perf_counter() - began,
        seeds=streams.seeds,
        users=run.users,
        numbers_per_user=run.numbers_per_user,
        counts=counts,
        plays=tally.plays,
        setting=_describe_setting(policy, env),
    )


def _resolve_horizon(policy: Policy[Any], horizon: int | None) -> int:
    if horizon is None:
        if policy.horizon is None:
            raise InvalidArgument("horizon", None, "a number of rounds", "This policy has no horizon of its own")
        return policy.horizon
    rounds = validation.integer("horizon", horizon)
    if policy.horizon is not None and rounds > policy.horizon:
        raise InvalidArgument("horizon", horizon, f"at most {policy.horizon}, the policy's horizon")
    return rounds


def _describe_setting(policy: Policy[Any], env: Environment) -> dict[str, Any]:
    noted: dict[str, Any] = {"policy": _stored_name(type(policy)), "dim": env.dim, "n_arms": env.n_arms}
    if is_dataclass(policy):
        noted |= {
            f.name: value for f in fields(policy) if isinstance(value := getattr(policy, f.name), int | float | str)
        }
    if isinstance(domain := getattr(policy, "domain", None), Box):
        noted["reward_width"] = domain.high - domain.low
    means = getattr(env, "means", None)
    if isinstance(means, tuple):
        noted["gaps"] = tuple(max(means) - mean for mean in means)
    return noted | policy._result_facts()


def _stored_name(kind: type) -> str:
    return find_stored_name(kind) if has_name(kind) else kind.__name__
