"""Measure the reward of policies on a data set against epsilon, under every privacy model and beside other libraries.

A log is replayed by rejection (`bd.replay`); rows of a table are drawn. All algorithms see the same users in the same
order, seed by seed. A row is one algorithm at one epsilon; in a directory finished rows are kept, so a later study
computes only missing ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import re
import time
import warnings
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data import tables
from bandanna.data.dataset import DataSet
from bandanna.data.logs import Log
from bandanna.data.replay import replay
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra, ValueSummary
from bandanna.experiments.executors import (
    Executor,
    ProgressCallback,
    check_ready,
    choose_executor_or_here,
    ignore_progress,
)
from bandanna.experiments.runner import write_json
from bandanna.numeric.rng import Streams
from bandanna.policies.base import Policy
from bandanna.policies.linear.base import Schedule, geometric
from bandanna.policies.linear.lints import LinTS
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import Privacy, central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate
from bandanna.simulation.figures import plot_rewards, save_both
from bandanna.types import Floats, Ints


class PeerPolicy(ABC):
    """One run of another library's policy."""

    package: str  # that it needs
    online: bool = False  # learns from one person after the other, instead of from batches

    def __init__(self, n_arms: int, seed: int) -> None:
        self.n_arms, self.rng = n_arms, np.random.default_rng([seed, 7])
        self.begun = False

    def act(self, contexts: Floats) -> tuple[Ints, Floats]:
        """Return the arms of a batch, (n,), and their probabilities if stated."""
        if not self.begun:
            chances = np.full(len(contexts), 1 / self.n_arms)
            return self.rng.integers(self.n_arms, size=len(contexts)), chances
        return self._act(contexts)

    def learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        if len(arms):
            self._learn(np.ascontiguousarray(contexts), arms, rewards, chances)
            self.begun = True

    @abstractmethod
    def _act(self, contexts: Floats) -> tuple[Ints, Floats]: ...

    @abstractmethod
    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None: ...


class _Mabwiser(PeerPolicy):
    package = "mabwiser"
    policy: str
    alpha: float

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with quiet():
            mab = importlib.import_module("mabwiser.mab")
            policy = getattr(mab.LearningPolicy, self.policy)(alpha=self.alpha, l2_lambda=1.0)
            self.mab = mab.MAB(list(range(n_arms)), policy, seed=seed)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with quiet():
            arms = np.atleast_1d(np.asarray(self.mab.predict(contexts), dtype=np.int64))
        return arms, np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with quiet():
            self.mab.partial_fit(arms, rewards, contexts)


class MabwiserLinUCB(_Mabwiser):
    """LinUCB of the package mabwiser."""

    policy, alpha = "LinUCB", 0.5


class MabwiserLinTS(_Mabwiser):
    """LinTS of the package mabwiser."""

    policy, alpha = "LinTS", 0.3


class ContextualBandits(PeerPolicy):
    """LinUCB of the package contextualbandits."""

    package = "contextualbandits"

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        with quiet():
            online = importlib.import_module("contextualbandits.online")
            self.model = online.LinUCB(nchoices=n_arms, alpha=0.7, random_state=seed + 1)

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        with quiet():
            arms = np.asarray(self.model.predict(contexts), dtype=np.int64)
        return arms, np.ones(len(arms))

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        with quiet():
            self.model.partial_fit(contexts, arms, rewards)


class VowpalWabbit(PeerPolicy):
    """Vowpal Wabbit's SquareCB, with interactions of users' features and arms."""

    package = "vowpalwabbit"
    online = True

    def __init__(self, n_arms: int, seed: int) -> None:
        super().__init__(n_arms, seed)
        workspace = importlib.import_module("vowpalwabbit").Workspace
        self.vw = workspace(f"--cb_explore_adf -q ua --squarecb --gamma_scale 20 --quiet --random_seed {seed}")

    def _example(self, context: Floats, label: tuple[int, str] | None = None) -> str:
        shared = "shared |u " + " ".join(f"f{i}:{value:.8g}" for i, value in enumerate(context))
        lines = [f"|a arm{k}" for k in range(self.n_arms)]
        if label is not None:
            lines[label[0]] = f"{label[1]} {lines[label[0]]}"
        return "\n".join([shared, *lines])

    def _act(self, contexts: Floats) -> tuple[Ints, Floats]:
        found, chances = np.empty(len(contexts), dtype=np.int64), np.empty(len(contexts))
        for row, context in enumerate(contexts):
            law = np.asarray(self.vw.predict(self._example(context)), dtype=float)
            found[row] = self.rng.choice(self.n_arms, p=law / law.sum())
            chances[row] = law[found[row]] / law.sum()
        return found, chances

    def _learn(self, contexts: Floats, arms: Ints, rewards: Floats, chances: Floats) -> None:
        for context, arm, reward, chance in zip(contexts, arms.tolist(), rewards, chances, strict=True):
            self.vw.learn(self._example(context, (arm, f"0:{1 - reward:.8g}:{chance:.8g}")))


PEERS: dict[str, type[PeerPolicy]] = {
    "mabwiser LinUCB": MabwiserLinUCB,
    "mabwiser LinTS": MabwiserLinTS,
    "contextualbandits LinUCB": ContextualBandits,
    "vowpalwabbit SquareCB": VowpalWabbit,
}


def installed(name: str) -> bool:
    """Return whether this peer's library is installed."""
    return importlib.util.find_spec(PEERS[name].package) is not None


def begin_peer(name: str, n_arms: int, seed: int) -> PeerPolicy:
    """Start a new run of a peer."""
    if not installed(name):
        raise MissingExtra("bench", name)
    try:
        return PEERS[name](n_arms, seed)
    except ImportError:
        raise MissingExtra("bench", name) from None


@contextmanager
def quiet() -> Iterator[Any]:
    """Silence the other libraries' warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# Studies


# Settings


@dataclass(frozen=True, kw_only=True)
class StudySetting:
    """How a data set is studied: rounds, runs, and public choices of LinTS.

    Settings are public: nothing in them follows from the users of a study. See `docs/appendix/study-results.md`.

    Parameters
    ----------
    horizon
        Rounds for a table; logged events for a log.
    model
        "users": a parameter for each arm, of the users' features. "arms": one number for each arm, the same for all
        users, which is all that can be learned from a few hundred users at epsilon = 1.
    alpha, batch
        Arguments of LinTS.
    every
        Rounds after which the other libraries learn.
    """

    horizon: int
    n_seeds: int
    model: str
    alpha: float
    batch: int | str | Schedule = "auto"
    every: int = 100

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "batch": self.batch if isinstance(self.batch, int | str) else repr(self.batch)}


SETTINGS = {
    "actg175": StudySetting(horizon=2_000, n_seeds=40, model="arms", alpha=0.25, batch=333),  # 500 accepted
    "thornton": StudySetting(horizon=2_800, n_seeds=40, model="arms", alpha=0.25, batch=466),
    "obd": StudySetting(horizon=10_000, n_seeds=10, model="arms", alpha=0.25, batch=1_666),
    "routing": StudySetting(
        horizon=20_000, n_seeds=20, model="arms", alpha=0.25, batch=geometric(first=800, ratio=1.5)
    ),
    "shuttle": StudySetting(horizon=20_000, n_seeds=10, model="users", alpha=0.5, every=50),
}


_ENOUGH = 100  # people for each number of a model, of a feature or a constant of one arm


def choose_setting(name: str, *, rows: int, logged: bool, features: int, arms: int) -> StudySetting:
    """Return the setting of a data set by name; for other data, six batches of all events, or 20,000 rounds.

    Other data get a model of users if they have enough users.
    """
    if name in SETTINGS:
        return SETTINGS[name]
    horizon = rows if logged else 20_000
    people = horizon / arms if logged else horizon
    users = features > 0 and people >= _ENOUGH * arms * (features + 1)
    model, alpha = ("users", 0.5) if users else ("arms", 0.25)
    return StudySetting(horizon=horizon, n_seeds=20, model=model, alpha=alpha, batch=max(2, horizon // 6))


# Rows


OWN_ALGORITHMS = ("LinTS", "LinTS-users", "LinTS-arms", "LinUCB")
FIXED_ALGORITHMS = ("best arm", "random")
_WIDTH = 0.2  # of LinUCB, as its documentation has it


@dataclass(frozen=True, kw_only=True)
class StudyJob:
    """A row to compute: algorithm, privacy model and epsilon."""

    algorithm: str
    trust: str = "none"
    epsilon: float | None = None

    @property
    def label(self) -> str:
        return self.algorithm if self.epsilon is None else f"{self.algorithm}, {self.trust}, epsilon {self.epsilon:g}"


def known_rewards(data: DataSet, job: StudyJob) -> dict[str, Any]:
    """Return the row of the best or a random arm, which needs no run."""
    means = data.means
    return {"rewards": np.array([means.max() if job.algorithm == "best arm" else means.mean()]), "accepted": None}


def measure_rewards(data: DataSet, setting: StudySetting, job: StudyJob, delta: float) -> dict[str, Any]:
    """Return the mean reward of each seed, and the rest of the row."""
    if job.algorithm in PEERS:
        return {"rewards": _play_peer(data, setting, job.algorithm), "accepted": None}
    policy, contexts = _make_policy(data, setting, job, delta)
    stated = policy.guarantee
    promised = {
        "stated_epsilon": stated.epsilon if math.isfinite(stated.epsilon) else None,
        "stated_delta": stated.delta if math.isfinite(stated.epsilon) else None,
    }
    if data.given is not None:
        log = _kron_log(data) if job.algorithm == "LinUCB" else data.log(contexts=contexts)
        played = replay(policy, log, n_seeds=setting.n_seeds)
        return {
            "rewards": played.means,
            "accepted": float(played.weight.mean()),
            "releases": played.releases,
            **promised,
        }
    table = data.table(contexts=contexts)
    if job.algorithm == "LinUCB":
        table = replace(table, features=_kron_features(data))
    result = simulate(policy, table, n_seeds=setting.n_seeds, checkpoints=1)
    return {"rewards": result.rewards / setting.horizon, "accepted": None, "releases": result.releases, **promised}


def _make_policy(data: DataSet, setting: StudySetting, job: StudyJob, delta: float) -> tuple[Policy[Any], str]:
    privacy, arms = _make_privacy(job, delta), len(data.arms)
    if job.algorithm == "LinUCB":
        dim = arms * (_count_slopes(data) + 1)
        batch = setting.horizon // 20
        return LinUCB(dim=dim, horizon=setting.horizon, width=_WIDTH, privacy=privacy, batch=batch), "users"
    model = {"LinTS-users": "users", "LinTS-arms": "arms"}.get(job.algorithm, setting.model)
    sizes = setting.batch if job.trust != "concurrent" and model == setting.model else "auto"
    shared: dict[str, Any] = {"horizon": setting.horizon, "privacy": privacy, "alpha": setting.alpha, "batch": sizes}
    if model == "arms":
        return LinTS(dim=arms, intercept=True, **shared), model
    if not _count_slopes(data) or _count_slopes(data) != data.dim:
        raise InvalidArgument("algorithms", job.algorithm, "LinTS-arms for a map with Intercept()")
    return LinTS(n_arms=arms, features=data.dim, **shared), model


def _make_privacy(job: StudyJob, delta: float) -> Privacy:
    if job.epsilon is None:
        return none()
    trust = {"central": central, "shuffle": shuffle, "local": local, "concurrent": concurrent}[job.trust]
    return trust(epsilon=job.epsilon, delta=delta)  # type: ignore[operator, no-any-return]


def _kron_features(data: DataSet) -> Floats:
    """Return np.kron(arm, features), (n, K, K (d + 1)), for a policy without models for each arm."""
    users = add_constant(data)
    n, d = users.shape
    arms = len(data.arms)
    wide = np.zeros((n, arms, arms, d))
    wide[:, np.arange(arms), np.arange(arms)] = users[:, None]
    return wide.reshape(n, arms, arms * d)


def _kron_log(data: DataSet) -> Log:
    return replace(data.log(), contexts=_kron_features(data))


def add_constant(data: DataSet) -> Floats:
    """Return (z, 1)/sqrt 2, features of users in the unit ball, (n, d + 1)."""
    z = data.contexts[:, : _count_slopes(data)]
    return np.column_stack([z, np.ones(len(z))]) / math.sqrt(2)


def _count_slopes(data: DataSet) -> int:
    return 0 if data.features is None else data.features.slopes


def _play_peer(data: DataSet, setting: StudySetting, name: str) -> Floats:
    run = _replay_peer if data.given is not None else _simulate_peer
    users = add_constant(data)
    return np.array([run(data, users, setting, name, seed) for seed in range(setting.n_seeds)])


def _replay_peer(data: DataSet, users: Floats, setting: StudySetting, name: str, seed: int) -> float:
    log, streams, peer = data.log(), Streams([seed]), begin_peer(name, len(data.arms), seed)
    order = streams.generators("order")[0].permutation(len(log))[: setting.horizon]
    floor = log.propensities.min() if log.floor is None else log.floor
    keeping = streams.uniform("acceptance", (len(order),))[0] * log.propensities[order] < floor * (1 + 1e-9)
    known, every = log.scaled_rewards(), 1 if peer.online else setting.every
    total, count = 0.0, 0
    for begin in range(0, len(order), every):
        some = order[begin : begin + every]
        arms, chances = peer.act(users[some])
        taken = (arms == log.arms[some]) & keeping[begin : begin + every]
        rewards = known[some][taken]
        peer.learn(users[some][taken], arms[taken], rewards, chances[taken])
        total, count = total + float(rewards.sum()), count + len(rewards)
    return total / count if count else math.nan


def _simulate_peer(data: DataSet, users: Floats, setting: StudySetting, name: str, seed: int) -> float:
    world = data.table().begin(Streams([seed]))
    peer, total = begin_peer(name, len(data.arms), seed), 0.0
    every = 1 if peer.online else setting.every
    for begin in range(0, setting.horizon, every):
        world.contexts(begin, min(every, setting.horizon - begin))
        some = world.now[0]
        arms, chances = peer.act(users[some])
        rewards = data.rewards[some, arms]
        peer.learn(users[some], arms, rewards, chances)
        total += float(rewards.sum())
    return total / setting.horizon


# The study


TRUSTS = ("central", "shuffle", "local", "concurrent")
EPSILONS = (0.5, 1.0, 3.0, 10.0)


def study(
    data: DataSet,
    *,
    epsilons: Sequence[float] = EPSILONS,
    delta: float = 1e-5,
    trusts: Sequence[str] = TRUSTS,
    algorithms: Sequence[str] | None = None,
    n_seeds: int | None = None,
    horizon: int | None = None,
    out: str | PathLike[str] | None = None,
    jobs: int | None = None,
    executor: str | Executor | None = None,
    scheduler: str | None = None,
    progress: ProgressCallback = ignore_progress,
) -> list[dict[str, Any]]:
    """Measure the reward of algorithms on a data set, against epsilon and under privacy models.

    Parameters
    ----------
    epsilons, delta, trusts
        Budgets and privacy models.
    algorithms
        "LinTS" (with the data set's setting), "LinTS-users", "LinTS-arms", "LinUCB", "best arm", "random", and names of
        `PEERS`; by default LinTS, best arm, random and all installed peers.
    n_seeds, horizon
        Runs, and rounds or logged events; by default those of the data set's setting.
    out : path, optional
        A directory in which finished rows are kept.
    jobs, executor, scheduler
        As in `bd.experiments.run`, by default this process; a row is a task.
    progress : callable
        Called with the rows done, all rows, and a label.

    Returns
    -------
    list of dict
        Rows with algorithm, trust, epsilon, delta, mean_reward, stderr, n_seeds, ...
    """
    if not isinstance(data, DataSet):
        raise InvalidArgument("data", ValueSummary.of(data), "a data set, as bd.datasets.load(...) returns")
    logged = data.given is not None
    size = {"rows": len(data), "features": data.dim, "arms": len(data.arms)}
    setting = choose_setting(data.card.name, logged=logged, **size)
    if horizon is not None:
        most = len(data) if logged else 10**9
        setting = _shorten_setting(setting, validation.integer("horizon", horizon, least=20, most=most))
    if n_seeds is not None:
        setting = replace(setting, n_seeds=validation.integer("n_seeds", n_seeds, most=10_000))
    working = choose_executor_or_here(executor, jobs=jobs, scheduler=scheduler)
    todo = list(_list_jobs(epsilons, validation.delta(delta), trusts, _check_algorithms(algorithms)))
    folder = None if out is None else validation.path("out", out, folder=True)
    if folder is not None:
        if not (folder / "study.json").exists():
            check_ready(working)  # or nothing is left behind
        _claim_directory(folder, data, setting, delta)
    rows = {job: row for job in todo if (row := _read_row(folder, job))}
    shared = {"data": data, "setting": setting, "delta": delta}
    progress(len(rows), len(todo), f"{len(rows)} found" if rows else "")
    with closing(
        working.call_all(_compute_row, {job: {"job": job, **shared} for job in todo if job not in rows})
    ) as ending:
        for job, row in ending:
            rows[job] = _write_row(folder, job, row)
            progress(len(rows), len(todo), job.label)
    return [rows[job] for job in todo]


def _check_algorithms(algorithms: Sequence[str] | None) -> list[str]:
    if algorithms is None:
        return ["LinTS", *FIXED_ALGORITHMS, *(name for name in PEERS if installed(name))]
    known = (*OWN_ALGORITHMS, *FIXED_ALGORITHMS, *PEERS)
    return [
        validation.one_of("algorithms", each, known)
        for each in validation.list_entries("algorithms", algorithms, "names")
    ]


def _list_jobs(epsilons: Sequence[float], delta: float, trusts: Sequence[str], names: list[str]) -> Iterator[StudyJob]:
    sizes = [validation.epsilon(each) for each in validation.list_entries("epsilons", epsilons, "numbers > 0")]
    models = [
        validation.one_of("trusts", each, TRUSTS)
        for each in validation.list_entries("trusts", trusts, "privacy models")
    ]
    for name in dict.fromkeys(names):
        yield StudyJob(algorithm=name)
    for name in dict.fromkeys(name for name in names if name in OWN_ALGORITHMS):
        for trust in dict.fromkeys(models):
            for size in dict.fromkeys(sizes):
                yield StudyJob(algorithm=name, trust=trust, epsilon=size)


def _shorten_setting(setting: StudySetting, horizon: int) -> StudySetting:
    batch = setting.batch
    if isinstance(batch, int):
        batch = max(2, batch * horizon // setting.horizon)
    elif not isinstance(batch, str) and horizon < setting.horizon:
        batch = max(2, horizon // 6)
    return replace(setting, horizon=horizon, batch=batch, every=min(setting.every, max(1, horizon // 10)))


def _compute_row(data: DataSet, setting: StudySetting, job: StudyJob, delta: float) -> dict[str, Any]:
    began = time.perf_counter()
    found = (
        known_rewards(data, job) if job.algorithm in FIXED_ALGORITHMS else measure_rewards(data, setting, job, delta)
    )
    rewards: Floats = found.pop("rewards")
    known = job.algorithm in FIXED_ALGORITHMS  # from the data, exactly: there is nothing to run
    spread = float(np.std(rewards, ddof=1) / math.sqrt(len(rewards))) if len(rewards) > 1 else None
    return {
        "data": data.card.name,
        "algorithm": job.algorithm,
        "trust": job.trust,
        "epsilon": job.epsilon,
        "delta": None if job.epsilon is None else delta,
        "mean_reward": float(np.mean(rewards)),
        "stderr": 0.0 if known else spread,
        "n_seeds": 0 if known else len(rewards),
        "horizon": setting.horizon,
        **found,
        "seconds": time.perf_counter() - began,
    }


def _claim_directory(folder: Path, data: DataSet, setting: StudySetting, delta: float) -> None:
    print_ = zlib.crc32(np.ascontiguousarray(data.rewards).tobytes() + np.ascontiguousarray(data.contexts).tobytes())
    ours = {
        "bandanna": version("bandanna"),
        "data": data.card.name,
        "checksum": print_,
        "features": None if data.features is None else data.features.to_dict(),
        "delta": delta,
        "setting": setting.to_dict(),
    }
    record = folder / "study.json"
    try:
        (folder / "rows").mkdir(parents=True, exist_ok=True)
        if not record.exists():
            write_json(record, ours)
            return
        theirs = json.loads(record.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise BandannaError(f"{folder} cannot be used ({why}). Choose another --out") from error
    changed = [name for name in ours if not isinstance(theirs, dict) or theirs.get(name) != ours[name]]
    if changed:
        raise BandannaError(f"{folder} holds another study ({', '.join(changed)} differ). Choose another --out")


def _row_file(folder: Path, job: StudyJob) -> Path:
    plain = re.sub(r"[^a-z0-9.]+", "-", job.label.lower()).strip("-")
    return folder / "rows" / f"{plain}.json"


def _read_row(folder: Path | None, job: StudyJob) -> dict[str, Any] | None:
    if folder is None or not (file := _row_file(folder, job)).exists():
        return None
    try:
        row = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(row, dict) and (row.get("algorithm"), row.get("epsilon")) == (job.algorithm, job.epsilon)
    return row if same else None


def _write_row(folder: Path | None, job: StudyJob, row: dict[str, Any]) -> dict[str, Any]:
    if folder is not None:
        write_json(_row_file(folder, job), row)
    return row


# Outputs


def write_study(rows: Sequence[Mapping[str, Any]], out: str | PathLike[str], *, title: str) -> list[str]:
    """Write rows.json, .csv and .parquet and figures; return notes about missing extras."""
    folder, notes = validation.path("out", out, folder=True), []
    folder.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    whole = [{name: row.get(name) for name in names} for row in rows]
    columns = {name: [row[name] for row in whole] for name in names}
    write_json(folder / "rows.json", {"title": title, "rows": list(whole)})
    tables.write_csv(folder / "rows.csv", columns)
    try:
        tables.write_parquet(folder / "rows.parquet", columns, "a study as Parquet")
    except MissingExtra as missing:
        notes.append(str(missing))
    try:
        save_both(plot_rewards(whole, title=title), folder / "figure")
    except MissingExtra as missing:
        notes.append(str(missing))
    return notes
