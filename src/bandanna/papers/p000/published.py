"""Figures 1 and 2 of paper 000 as published: its authors' noise, regularisation and radius, with nothing repaired.

All five algorithms choose, with V = ridge I + (released matrix), u = released vector and theta = V^{-1} u,

    argmax_x <x, theta> + beta |x|_{V^{-1}}, with the constants of `settings`.

Gaussian noise has std sigma per entry, the matrix N of it symmetrised to (N + N^T)/2. JDP makes floor(ln T) + 1 draws
once and uses the sum of the first floor(ln(1 + t)) + 1 of them after t rounds. Amp and Vec release after every B
rounds, the others after every round. Vec adds floor(b) bits but subtracts the mean of b, a bias that grows with t.
The disturbed V may be indefinite: |x|^2 < 0 then gives a NaN index, and the first NaN wins the argmax.

What this noise promises is another matter: see `bandanna.papers.p000.privacy`. Not for use with people's data.

Reference: Chowdhury and Zhou 2022 [000], section 5; algorithms as in its authors' public code.
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

from bandanna.core.arrays import Floats, Ints
from bandanna.core.streams import Streams
from bandanna.environments.linear import LinearWorld
from bandanna.environments.published import PublishedLinear
from bandanna.kernels import compiled
from bandanna.papers.p000.instances import AuthorsInstances
from bandanna.papers.p000.settings import LENGTH, Setting
from bandanna.simulation.result import checkpoints_for
from bandanna.simulation.tally import Tally

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
        realised.varying(lost)
        expected.varying(gaps)
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
        if kernel := compiled("unrepaired_rounds", rounds=setting.horizon):
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
