"""A problem for every algorithm by its name: large enough to be timed, in every kind of world that suits it.

Its floor is what cannot be done without. A round needs its arms drawn, or the largest of K numbers found.

drawing   contexts, means and rewards of a world, as the simulator draws them
argmax    arms times a vector, and the largest product of every seed; with finite arms the largest number alone
memory    bytes copied: no array is read and written faster

Every algorithm in the simulator: many seeds at once, how its cost grows, and the memory that it takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from bandanna import environments as worlds
from bandanna.numeric.compiled import BREAK_EVEN
from bandanna.numeric.rng import Streams
from bandanna.policies.algorithm import ALGORITHMS
from bandanna.policies.base import Policy
from bandanna.policies.registry import find_algorithm, make
from bandanna.simulation.engine import simulate
from bandanna.simulation.environments.base import Environment
from benchmarks.clock import Effort, exponent, peak, timed
from benchmarks.report import Row

WORLDS: dict[str, Callable[[int, int], Environment]] = {  # of so many arms and features
    "fixed": lambda arms, dim: worlds.LinearContextual(dim=dim, n_arms=arms, fixed=True),
    "fresh": lambda arms, dim: worlds.LinearContextual(dim=dim, n_arms=arms),
    "finite": lambda arms, _: worlds.FiniteArms(means=(0.75, *(0.7,) * (arms - 1))),
    "sphere": lambda arms, dim: worlds.SphereArms(dim=dim, n_arms=arms),
    "contexts": lambda arms, dim: worlds.SphereContexts(dim=dim, n_arms=arms),
    "people": lambda arms, dim: worlds.Population(dim=dim, n_arms=arms, sigma=0.1),
    "logistic": lambda arms, dim: worlds.GeneralisedLinear(dim=dim, n_arms=arms, norm=2.0),
}
FRESH = ("fresh", "contexts", "logistic")  # arms are drawn anew in every round


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One simulation.

    rounds   played, and the policy's horizon
    users    asked in every phase, where a policy asks some of many users; None: the policy's own number
    options  further arguments of the policy
    through  the sizes through which each quantity grows
    """

    name: str
    world: str
    rounds: int
    seeds: int
    arms: int
    dim: int
    users: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    through: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def env(self) -> Environment:
        """Its world."""
        return WORLDS[self.world](self.arms, self.dim)

    @property
    def policy(self) -> Policy[Any]:
        """Made anew, calibrated."""
        shape = {"n_arms": self.arms} if self.world == "finite" else {"dim": self.dim}
        users = {} if self.users is None else {"clients": self.users}
        policy: Policy[Any] = make(self.name, horizon=self.rounds, **shape, **users, **self.options)
        _ = policy.guarantee
        return policy

    @property
    def fresh(self) -> bool:
        """Whether every round has arms of its own."""
        return self.world in FRESH

    @property
    def sizes(self) -> dict[str, int]:
        """What it is about."""
        dim = {} if self.world == "finite" else {"dim": self.dim}
        return {"rounds": self.rounds, "seeds": self.seeds, "arms": self.arms, **dim}

    def at(self, name: str, size: int) -> Self:
        """With another number of "rounds", "seeds", "arms", "dim" or "users"."""
        return replace(self, **{name: size})  # type: ignore[arg-type]

    def small(self) -> Self:
        """Only large enough to run."""
        rounds, arms, dim = max(40, self.rounds // 50), min(self.arms, 6), min(self.dim, 3)
        sizes = {"rounds": rounds, "seeds": 2, "arms": arms, "dim": dim, "users": 32}
        through = {name: (sizes[name], 2 * sizes[name]) for name in self.through}
        return replace(self, rounds=rounds, seeds=2, arms=arms, dim=dim, through=through)


def _problem(world: str, rounds: int, seeds: int, arms: int, dim: int = 0, **more: Any) -> Problem:
    grow = {"arms": (arms, 2 * arms, 4 * arms) if arms < 20 else (arms // 4, arms // 2, arms)}
    grow |= {"dim": (4, 8, 16)} if dim else {}
    grow |= {"users": (256, 1024, 4096)} if world == "people" else {}
    sizes = (rounds, 2 * rounds, 4 * rounds) if rounds == BREAK_EVEN else (rounds // 4, rounds // 2, rounds)
    through = {"rounds": sizes, "seeds": (seeds // 4, seeds // 2, seeds), **grow}
    return Problem(name="", world=world, rounds=rounds, seeds=seeds, arms=arms, dim=dim, through=through, **more)


def _linear(fixed: int, fresh: int, seeds: int = 20, **options: Any) -> tuple[Problem, ...]:
    """Arms that stay, for so many rounds, and arms that do not."""
    worlds_and_rounds = (("fixed", fixed), ("fresh", fresh))
    return tuple(_problem(world, rounds, seeds, 100, 5, options=options) for world, rounds in worlds_and_rounds)


def _finite(rounds: int, **options: Any) -> tuple[Problem, ...]:
    return (_problem("finite", rounds, 48, 5, options=options),)


def _oful(rounds: int, **options: Any) -> tuple[Problem, ...]:
    return tuple(_problem(world, rounds, 4, 48, 5, options=options) for world in ("sphere", "contexts"))


def _logistic(rounds: int, **options: Any) -> tuple[Problem, ...]:
    return (_problem("logistic", rounds, 12, 20, 3, options={"parameter_bound": 2.0, **options}),)


_GOPE = (_problem("sphere", 50_000, 4, 48, 5),)
_PEOPLE = (_problem("people", 50_000, 4, 100, 5),)
_EVERY_ROUND = _linear(BREAK_EVEN, BREAK_EVEN, seeds=8)  # as many rounds as it takes for a kernel to be used
_BATCHED, _SAMPLED = _linear(10_000, 200), _linear(4000, 200, intercept=True)
_REWARDS = _linear(100, 60, intercept=True, public_contexts=True)

SHAPES: dict[str, tuple[Problem, ...]] = {
    **dict.fromkeys(("LinTS", "LinTS-JDP", "LinTS-LDP", "LinTS-SDP", "LinTS-CSDP"), _SAMPLED),
    **dict.fromkeys(("LinTS-JDP-rewards", "LinTS-LDP-rewards", "LinTS-SDP-rewards"), _REWARDS),
    **dict.fromkeys(("LinUCB", "LinUCB-JDP", "LinUCB-LDP"), _EVERY_ROUND),
    **dict.fromkeys(("LinUCB-JDP-batched", "LinUCB-LDP-batched", "LinUCB-SDP-Amp", "LinUCB-SDP-Vec"), _BATCHED),
    "LinUCB-CSDP": _linear(2000, 200),
    **dict.fromkeys(("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"), _PEOPLE),
    **dict.fromkeys(("UCB1", "LDP-UCB"), _finite(500)),
    "Thompson": _finite(100),
    **dict.fromkeys(("UCB-episodes", "AdaC-UCB", "AdaP-UCB", "DP-SE", "SDP-SE"), _finite(1_000_000)),
    **dict.fromkeys(("GOPE", "AdaC-GOPE", "AdaC-GOPE-early"), _GOPE),
    **dict.fromkeys(("RS-OFUL", "AdaC-OFUL"), _oful(2000)),
    "AdaC-OFUL-JDP": _oful(1000),
    "GLM-UCB": _logistic(100),
    "GLOC": _logistic(200),
    "ECOLog": _logistic(100),
    "RS-GLinUCB": _logistic(200),
    **dict.fromkeys(("B-GLinUCB", "GLM-JDP", "GLM-SDP"), _logistic(1000)),
}
BUDGETS: dict[str, dict[str, float]] = {  # others than the usual ones, below
    "AdaC-OFUL-JDP": {"rho": 100.0},
    "GLM-JDP": {"epsilon": 8.0, "delta": 0.02},
    "GLM-SDP": {"epsilon": 8.0, "delta": 0.01},
}


def _budget(name: str) -> dict[str, float]:
    """rho = 1, (1, 1e-5) or epsilon = 1, in the form that the algorithm takes; nothing without privacy."""
    options = set(find_algorithm(name).options)
    if name in BUDGETS or not options & {"rho", "epsilon"}:
        return BUDGETS.get(name, {})
    if "delta" in options:
        return {"epsilon": 1.0, "delta": 1e-5}
    return {"epsilon": 1.0} if "epsilon" in options else {"rho": 1.0}


def problems_of(name: str) -> tuple[Problem, ...]:
    """Of one algorithm; of one that is not listed above, by the arguments that it takes."""
    shapes = SHAPES.get(name)
    if shapes is None:
        takes = find_algorithm(name).kind.__dataclass_fields__
        shapes = _linear(400, 200) if "dim" in takes else _finite(1000)
    grown = tuple(replace(shape, name=name, options={**shape.options, **_budget(name)}) for shape in shapes)
    return tuple(each if name != "PE" else _asking_nobody(each) for each in grown)


def _asking_nobody(problem: Problem) -> Problem:
    """Every round has a client of its own: users are rounds."""
    return replace(problem, through={name: sizes for name, sizes in problem.through.items() if name != "users"})


def all_problems() -> Iterator[Problem]:
    """Every algorithm of the catalogue, in its order."""
    for name in ALGORITHMS:
        yield from problems_of(name)


DRAWING, ARGMAX, MEMORY = "drawing the contexts", "the bare argmax", "memory bandwidth"
_BLOCK = 200  # rounds drawn at once
_LOOP = 400  # rounds of the bare loop
_COPIED = 1 << 23  # numbers of 8 bytes: more than caches hold


def draw_worlds(problem: Problem, repeats: int) -> float:
    """CPU seconds for a round of a seed."""
    env, rounds = problem.env, min(problem.rounds, 5 * _BLOCK)

    def draw() -> None:
        world = env.begin(Streams(range(problem.seeds)))
        for start in range(0, rounds, _BLOCK):
            means = world.means(world.contexts(start, min(_BLOCK, rounds - start)))
            world.rewards(means[..., 0])

    return timed(draw, repeats) / (rounds * problem.seeds)


def argmax(*, seeds: int, arms: int, dim: int, repeats: int) -> float:
    """CPU seconds for a round of a seed; dim = 0: there are K numbers already."""
    rng = np.random.default_rng(0)
    features, theta = rng.normal(size=(seeds, arms, max(dim, 1))), rng.normal(size=(seeds, max(dim, 1), 1))
    numbers = np.ascontiguousarray(features[..., 0])

    def one_seed() -> None:
        rows, vector = features[0], theta[0, :, 0]
        for _ in range(_LOOP):
            (rows @ vector).argmax()

    def products() -> None:
        for _ in range(_LOOP):
            (features @ theta)[..., 0].argmax(axis=-1)

    def largest() -> None:
        for _ in range(_LOOP):
            numbers.argmax(axis=-1)

    work = largest if not dim else one_seed if seeds == 1 else products
    return timed(work, repeats) / (_LOOP * seeds)


def copied_number(repeats: int) -> float:
    """CPU seconds for one number of 8 bytes, read and written."""
    source = np.zeros(_COPIED)
    target = np.empty_like(source)
    return timed(lambda: np.copyto(target, source), max(repeats, 2)) / _COPIED


def floor_of(problem: Problem, repeats: int) -> tuple[str, float]:
    """That of a simulation: drawing where arms are fresh, the argmax where they stay; a round of a seed."""
    if problem.fresh:
        return DRAWING, draw_worlds(problem, repeats)
    dim = 0 if problem.world == "finite" else problem.dim
    return ARGMAX, argmax(seeds=problem.seeds, arms=problem.arms, dim=dim, repeats=repeats)


def floor_rows(problems: tuple[Problem, ...], effort: Effort) -> list[Row]:
    """The floors themselves, one for each kind of world, beside the memory that they go through."""
    copied = copied_number(effort.repeats)
    found = [Row(part="floor", name=MEMORY, world="64 MB", unit="number", sizes={}, cpu_seconds=copied)]
    for problem in problems:
        name, seconds = floor_of(problem, effort.repeats)
        numbers = problem.arms * max(1, problem.dim)  # read or written in a round
        floor = (MEMORY, numbers * copied)
        found.append(
            Row(
                part="floor",
                name=name,
                world=problem.world,
                unit="round",
                sizes=problem.sizes,
                cpu_seconds=seconds,
                floor=floor,
            )
        )
    return found


GROWING = 2  # runs of every size, of which the fastest counts


def simulation_seconds(problem: Problem, repeats: int) -> float:
    """CPU seconds of the whole simulation; calibration comes before it."""
    policy, env = problem.policy, problem.env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # most reports may be clipped here
        return timed(lambda: simulate(policy, env, n_seeds=problem.seeds), repeats)


def simulation_memory(problem: Problem) -> int:
    """Most bytes of the simulation."""
    policy, env = problem.policy, problem.env
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peak(lambda: simulate(policy, env, n_seeds=problem.seeds))


def simulation_growth(problem: Problem, whole: float, effort: Effort) -> dict[str, float]:
    """The exponent in every size that the problem has; `whole`: the seconds of the problem as it stands."""
    found = {}
    for name, sizes in problem.through.items():
        grown = (problem.at(name, size) for size in sizes)
        times = [whole if each == problem else simulation_seconds(each, min(GROWING, effort.repeats)) for each in grown]
        found[name] = exponent(sizes, times)
    return found


def measure_simulation(problem: Problem, effort: Effort) -> Row:
    """One problem."""
    if effort.small:
        problem = problem.small()
    whole = simulation_seconds(problem, effort.repeats)
    return Row(
        part="simulation",
        name=problem.name,
        world=problem.world,
        unit="round",
        sizes=problem.sizes,
        cpu_seconds=whole / (problem.rounds * problem.seeds),
        memory=simulation_memory(problem),
        growth=simulation_growth(problem, whole, effort) if effort.growth else {},
        floor=floor_of(problem, effort.repeats),
    )
