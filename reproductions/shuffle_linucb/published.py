"""Figures 1 and 2 of paper 000 as published: its authors' instances, noise, regulariser and radius, nothing repaired.

The constants are those of the authors' simulations, not those of their theorems:

    beta = sqrt(Gamma) sqrt(d) + 1/2 sqrt(d ln((1 + T L^2 / Gamma) T)),    L = sqrt 2,    ridge = 2 Gamma,

with one beta for the whole run; LinUCB has Gamma = 1 in beta and ridge 1e-4. Released are sums of (x y, x x^T) with

    LinUCB          nothing added
    LinUCB-LDP      every user: sigma = sqrt(ln(2.5/delta)) / epsilon,             Gamma = sigma sqrt(T d)
    LinUCB-SDP-Amp  every user: sigma = sqrt(ln(2.5 B/delta)) / (epsilon sqrt B),  Gamma = sigma sqrt(T d)
    LinUCB-JDP      every draw: sigma = sqrt(ln T) ln(2.5/delta) / epsilon,        Gamma = sigma sqrt(d ln T)
    LinUCB-SDP-Vec  every user: Bin(floor b, 1/4) per entry, in steps of L/g,
                    g = max(2 sqrt B, d, 4),   b = c g^2 ln(d/delta)^2 / (epsilon^2 B),
                    c = 1 at epsilon = 0.2 and 10 at 1 and 10,   Gamma = ln(d/delta) sqrt(T d) / (4 epsilon sqrt B)

Symbols: d `dim`, T `horizon`, B `batch`, beta `radius`, Gamma `spread`, g `steps`, b `bits`, c `factor`. The
c for epsilons that were not published is ours (1 below epsilon = 1). Vec's entries are taken to lie in
[-L, L], as its authors' code does.

All five algorithms choose, with V = ridge I + (released matrix), u = released vector and theta = V^{-1} u,

    argmax_x <x, theta> + beta |x|_{V^{-1}}.

Gaussian noise has std sigma per entry, the matrix N of it symmetrised to (N + N^T)/2. JDP makes floor(ln T) + 1 draws
once and uses the sum of the first floor(ln(1 + t)) + 1 of them after t rounds. Amp and Vec release after every B
rounds, the others after every round. Vec adds floor(b) bits but subtracts the mean of b, a bias that grows with t.
The disturbed V may be indefinite: |x|^2 < 0 then gives a NaN index, and the first NaN wins the argmax.

What this noise promises is another matter: see `privacy`. Not for use with people's data.

Reference: Chowdhury and Zhou 2022 [000], section 5; constants and algorithms as in its authors' public code.
Deviations: rewards and noise come from our streams, rewards of the chosen and the best arm only (the others are not
looked at); sums over a batch of Gaussian noise are drawn as one Gaussian (the same law); a last batch shorter than B is
played but not released.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bandanna import validation
from bandanna.audit.gallery import published_std
from bandanna.numeric.compiled import find_kernel
from bandanna.numeric.rng import Streams
from bandanna.simulation.environments.linear import LinearWorld, PublishedLinear
from bandanna.simulation.result import Tally, checkpoints_for
from bandanna.types import Floats, Ints

ALGORITHMS = ("LinUCB", "LinUCB-LDP", "LinUCB-JDP", "LinUCB-SDP-Amp", "LinUCB-SDP-Vec")
LENGTH = math.sqrt(2)  # L, the norm of (u, 1)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One algorithm at one nominal budget, with the constants that follow from it (formulas above)."""

    algorithm: str
    epsilon: float
    delta: float = 0.1
    dim: int = 5
    horizon: int = 20_000
    batch: int = 20

    def __post_init__(self) -> None:
        validation.one_of("algorithm", self.algorithm, ALGORITHMS)
        validation.positive("epsilon", self.epsilon)
        validation.open_probability("delta", self.delta)
        for name, least in (("dim", 2), ("horizon", 2), ("batch", 1)):
            object.__setattr__(self, name, validation.integer(name, getattr(self, name), least=least))

    @property
    def every(self) -> int:
        """Rounds between two releases."""
        return self.batch if "SDP" in self.algorithm else 1

    @property
    def std(self) -> float:
        """sigma per entry and draw; for Vec that of the binomial bits of one user, 0 for LinUCB."""
        if self.algorithm == "LinUCB-SDP-Vec":
            return LENGTH / self.steps * math.sqrt(math.floor(self.bits) * 3 / 16)
        if self.algorithm == "LinUCB":
            return 0.0
        return published_std(self.algorithm, self.epsilon, self.delta, horizon=self.horizon, batch=self.batch)

    @property
    def steps(self) -> float:
        """g: Vec's steps per length L."""
        return max(2 * math.sqrt(self.batch), float(self.dim), 4.0)

    @property
    def bits(self) -> float:
        """b before truncation: Vec's random bits per user and entry."""
        factor = 1.0 if self.epsilon < 1 else 10.0  # c
        return factor * (self.steps * math.log(self.dim / self.delta) / self.epsilon) ** 2 / self.batch

    @property
    def spread(self) -> float:
        """Gamma."""
        if self.algorithm == "LinUCB":
            return 1.0
        if self.algorithm == "LinUCB-JDP":
            return self.std * math.sqrt(self.dim * math.log(self.horizon))
        if self.algorithm == "LinUCB-SDP-Vec":
            scale = math.log(self.dim / self.delta) / (4 * self.epsilon * math.sqrt(self.batch))
            return scale * math.sqrt(self.horizon * self.dim)
        return self.std * math.sqrt(self.horizon * self.dim)

    @property
    def ridge(self) -> float:
        """2 Gamma; 1e-4 for LinUCB."""
        return 1e-4 if self.algorithm == "LinUCB" else 2 * self.spread

    @property
    def radius(self) -> float:
        """beta."""
        growth = math.log((1 + self.horizon * LENGTH**2 / self.spread) * self.horizon)
        return math.sqrt(self.spread * self.dim) + 0.5 * math.sqrt(self.dim * growth)


_SEED = 2  # of NumPy's legacy generator, set once before the first instance is drawn


@dataclass(frozen=True, kw_only=True)
class AuthorsInstances(PublishedLinear):
    """Seed s has the authors' instance number s (s modulo `cycle` where that is given); rewards and noise are our own.

    The authors draw their fifty instances one after another from one legacy NumPy generator: for each the K (d-1)
    normal numbers of the arms, then the d-1 of theta. That stream is frozen by NumPy's policy, so these are the same
    arms and the same theta, bit by bit up to rounding. Seeds from 50 on continue the sequence.

    Reference: Chowdhury and Zhou 2022 [000], section 5; seed and order as in its authors' public code.
    """

    cycle: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cycle is not None:
            validation.integer("cycle", self.cycle)

    def normals(self, streams: Streams) -> tuple[Floats, Floats]:
        """The authors' numbers for v and u."""
        numbers = np.array([seed if self.cycle is None else seed % self.cycle for seed in streams.seeds])
        legacy = np.random.RandomState(_SEED)
        drawn = legacy.standard_normal((int(numbers.max()) + 1, self.n_arms + 1, self.dim - 1))[numbers]
        return drawn[:, -1], drawn[:, :-1]


_KERNELS = "reproductions.shuffle_linucb.kernels"
_BYTES = 16 << 20  # of noise that is drawn ahead


@dataclass(frozen=True, kw_only=True, eq=False)
class PublishedRun:
    """Cumulative regret at `checkpoints` for every seed: realised (what the paper plots), and of the true means."""

    checkpoints: Ints  # (C,)
    regret: Floats  # (S, C): sums of r[best] - r[chosen]
    pseudo: Floats  # (S, C): sums of the gaps of the means
    seconds: float

    @property
    def final_regret(self) -> Floats:
        """Realised regret at the horizon, (S,)."""
        return np.asarray(self.regret[:, -1])


def run(
    algorithm: str,
    *,
    epsilon: float,
    dim: int = 5,
    horizon: int = 20_000,
    batch: int = 20,
    delta: float = 0.1,
    seeds: Sequence[int] = range(50),
    env: PublishedLinear | None = None,
) -> PublishedRun:
    """One instance (arms, theta, rewards, noise) per seed, all seeds side by side; LinUCB ignores the budget.

    Arms and theta are the authors' own unless `env` says otherwise; rewards and noise are drawn anew.
    """
    began = time.perf_counter()
    setting = Setting(algorithm=algorithm, epsilon=epsilon, delta=delta, dim=dim, horizon=horizon, batch=batch)
    streams = Streams(seeds)
    world = (AuthorsInstances(dim=setting.dim) if env is None else env).begin(streams)
    problem, noise = _Problem(world), _NOISES[algorithm](setting, streams)
    marks = checkpoints_for(setting.horizon, 200)
    realised, expected = (Tally(checkpoints=marks, n_seeds=len(streams.seeds)) for _ in range(2))
    play = _singles if setting.every == 1 else _batches
    for gaps, lost in play(problem, noise, setting, streams):
        realised.add_losses(lost)
        expected.add_losses(gaps)
    seconds = time.perf_counter() - began
    return PublishedRun(checkpoints=marks, regret=realised.regret, pseudo=expected.regret, seconds=seconds)


def _batches(problem: _Problem, noise: _Clear, setting: Setting, streams: Streams) -> Iterator[tuple[Floats, Floats]]:
    """Gaps and realised losses, (S, rounds) each, of one batch after the other."""
    statistic = noise.initial  # (S, D)
    for start in range(0, setting.horizon, setting.every):
        rounds = min(setting.every, setting.horizon - start)
        actions = problem.choose(statistic, setting)  # (S,)
        rewards, lost = problem.play(actions[:, None], streams.uniform("rewards", (rounds, 2)))  # (S, rounds)
        yield np.broadcast_to(problem.gaps[problem.seeds, actions][:, None], lost.shape), lost
        if rounds == setting.every:
            statistic = statistic + noise.release(problem.reports[problem.seeds, actions], rewards)


def _singles(problem: _Problem, noise: _Clear, setting: Setting, streams: Streams) -> Iterator[tuple[Floats, Floats]]:
    """The same where every round is released: many rounds at a time, whose numbers are drawn ahead."""
    statistic, seeds = noise.initial.copy(), problem.seeds[:, None]
    most = max(1, _BYTES // (8 * statistic.size))
    for start in range(0, setting.horizon, most):
        count = min(most, setting.horizon - start)
        uniform, (joins, added) = streams.uniform("rewards", (count, 2)), noise.ahead(start, count)
        actions = np.empty((len(statistic), count), dtype=np.int64)
        plain = count  # rounds that NumPy plays
        if kernel := find_kernel("unrepaired_rounds", rounds=setting.horizon, module=_KERNELS):
            plain = int(start == 0)  # at first all arms are tied, but for rounding errors
        for t in range(plain):
            actions[:, t] = chosen = problem.choose(statistic, setting)
            report = problem.reports[problem.seeds, chosen]
            report[:, : setting.dim] *= uniform[:, t, :1] < problem.means[seeds, chosen[:, None]]
            statistic += report if joins[t] < 0 else report + added[:, joins[t]]
        if kernel:
            earned = np.ascontiguousarray(uniform[:, plain:, 0])
            given = statistic, problem.columns, problem.reports, problem.means, earned, added, joins[plain:]
            played = np.empty((len(statistic), count - plain), dtype=np.int64)
            if not kernel(*given, setting.ridge, setting.radius, played):
                raise np.linalg.LinAlgError("Singular matrix")
            actions[:, plain:] = played
        _, lost = problem.play(actions, uniform)
        yield problem.gaps[seeds, actions], lost


class _Problem:
    """Fixed arms of several seeds: their reports (x, upper triangle of x x^T) and means, tabulated once."""

    def __init__(self, world: LinearWorld) -> None:
        contexts = world.contexts(0, 1)  # (S, 1, K, d)
        self.arms = contexts[:, 0]
        self.means = world.means(contexts)[:, 0]  # (S, K)
        self.seeds, dim = np.arange(len(self.arms)), self.arms.shape[-1]
        self.best = np.argmax(self.means, axis=1)  # (S,)
        self.gaps = self.means[self.seeds, self.best, None] - self.means
        row, column = np.triu_indices(dim)
        outer = self.arms[..., row] * self.arms[..., column]  # (S, K, d(d+1)/2)
        self.reports = np.concatenate([self.arms, outer], axis=-1)  # (S, K, D): at reward 1
        self.columns = np.ascontiguousarray(np.swapaxes(self.arms, 1, 2))  # (S, d, K), for the kernel
        self.doubled = outer * np.where(row == column, 1.0, 2.0)  # x^T A x = <doubled, upper triangle of A>
        self.upper = (slice(None), row, column)
        self.place = np.zeros((dim, dim), dtype=np.int64)  # where an entry of the matrix is in the report
        self.place[row, column] = self.place[column, row] = dim + np.arange(len(row))

    def choose(self, statistic: Floats, setting: Setting) -> Ints:
        """argmax <x, theta> + beta |x|_{V^-1}; sqrt of a negative number is NaN and wins: (S, D) -> (S,)."""
        inverse = np.linalg.inv(statistic[:, self.place] + setting.ridge * np.eye(setting.dim))  # (S, d, d)
        theta = inverse @ statistic[:, : setting.dim, None]  # (S, d, 1)
        with np.errstate(invalid="ignore"):
            width = np.sqrt(self.doubled @ inverse[self.upper][..., None])  # (S, K, 1)
        return np.asarray(np.argmax((self.arms @ theta + setting.radius * width)[..., 0], axis=1))

    def play(self, actions: Ints, uniform: Floats) -> tuple[Floats, Floats]:
        """Bernoulli rewards of the chosen arms, and what the best arm, if another, brought more: (S, rounds) each.

        `actions` (S, rounds), or (S, 1) for all rounds.
        """
        seeds = self.seeds[:, None]
        chosen = (uniform[..., 0] < self.means[seeds, actions]).astype(float)
        top = uniform[..., 1] < self.means[self.seeds, self.best, None]
        return chosen, np.where(actions == self.best[:, None], 0.0, top - chosen)


class _Clear:
    """Sums as they are: what LinUCB sees."""

    def __init__(self, setting: Setting, streams: Streams) -> None:
        self.setting, self.streams = setting, streams
        row, column = np.triu_indices(setting.dim)
        self.size = setting.dim + len(row)  # D
        # entries of (N + N^T)/2: std sigma on the diagonal, sigma/sqrt 2 beside it
        shape = np.append(np.ones(setting.dim), np.where(row == column, 1.0, math.sqrt(0.5)))
        self.scale = setting.std * shape  # (D,)
        self.initial = np.zeros((len(streams.seeds), self.size))

    def release(self, report: Floats, rewards: Floats) -> Floats:
        """What is added to the statistic after a batch of one arm's reports: (S, D), (S, rounds) -> (S, D)."""
        total = report * rewards.shape[1]
        total[:, : self.setting.dim] = report[:, : self.setting.dim] * np.sum(rewards, axis=1, keepdims=True)
        return np.asarray(total)

    def ahead(self, start: int, count: int) -> tuple[Ints, Floats]:
        """Noise that joins in the next single rounds, (S, draws, D), and which of it after each, (count,), or -1."""
        return np.full(count, -1), np.empty((len(self.initial), 0, self.size))

    def normal(self, *count: int) -> Floats:
        """One draw of the noise, (S, D), or several, (S, count, D)."""
        return self.scale * self.streams.normal("noise", (*count, self.size))


class _PerUser(_Clear):
    """LDP and Amp: every user's report has its own Gaussian noise; their sum has sqrt(rounds) times its std."""

    def release(self, report: Floats, rewards: Floats) -> Floats:
        return super().release(report, rewards) + math.sqrt(rewards.shape[1]) * self.normal()

    def ahead(self, start: int, count: int) -> tuple[Ints, Floats]:
        return np.arange(count), self.normal(count)


class _FewDraws(_Clear):
    """JDP: the same draws serve one release after another; a new one joins whenever floor(ln(1 + t)) grows."""

    def __init__(self, setting: Setting, streams: Streams) -> None:
        super().__init__(setting, streams)
        self.initial = self.normal()

    def ahead(self, start: int, count: int) -> tuple[Ints, Floats]:
        done = range(start + 1, start + count + 1)
        new = np.array([math.floor(math.log1p(t)) > math.floor(math.log(t)) for t in done])
        return np.where(new, np.cumsum(new) - 1, -1), self.normal(int(np.sum(new)))


class _Bits(_Clear):
    """Vec: entries in [-L, L] are moved to [0, 2L], rounded at random to steps of L/g and hidden by binomial bits."""

    def release(self, report: Floats, rewards: Floats) -> Floats:
        users, steps, bits, dim = rewards.shape[1], self.setting.steps, self.setting.bits, self.setting.dim
        vectors = report[:, None, :dim] * rewards[..., None]  # (S, B, d); the matrix is the same for all users
        exact = [(each + LENGTH) * steps / LENGTH for each in (vectors, report[:, None, dim:])]
        drawn = self.streams.uniform("rounding", (users, self.size))  # (S, B, D)
        rounded = [np.sum(np.floor(exact[0] + drawn[..., :dim]), axis=1)]
        rounded += [np.sum(np.floor(exact[1] + drawn[..., dim:]), axis=1)]
        trials = users * math.floor(bits)  # truncated here ...
        noise = [rng.binomial(trials, 0.25, self.size) for rng in self.streams.generators("noise")]
        counts = np.concatenate(rounded, axis=1) + np.array(noise)
        return np.asarray(LENGTH / steps * (counts - users * bits / 4) - users * LENGTH)  # ... but not here


_NOISES = {
    "LinUCB": _Clear,
    "LinUCB-LDP": _PerUser,
    "LinUCB-JDP": _FewDraws,
    "LinUCB-SDP-Amp": _PerUser,
    "LinUCB-SDP-Vec": _Bits,
}
