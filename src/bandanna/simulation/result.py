"""What a simulation returns: regret over time for every seed, what was released, and what it was promised to cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.errors import InvalidArgument
from bandanna.figures.axes import number
from bandanna.figures.regret import plot_regret
from bandanna.policies.bounds import bounds_for
from bandanna.simulation import storage
from bandanna.storage.frames import frame
from bandanna.theory.catalogue import Curve


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """Regret against the true means at `checkpoints`, for every seed.

    users             users whose report was released, in one run; None: every round's
    numbers_per_user  real numbers in one report before it is encoded; None: not recorded
    bits_per_user     bits of the longest report as sent
    counts            what else the policy counts, by name, for every seed
    plays             how many users each arm was given to, for every seed: what a simulation knows and a server does
                      not; None if it was not counted
    setting           what `simulate` notes of policy and world, for `bounds`
    """

    checkpoints: Ints  # (C,)
    regret: Floats  # (S, C)
    rewards: Floats  # (S,): sums
    releases: int
    clipped: Ints  # (S,)
    repairs: Ints  # (S,): releases that had to be made positive definite
    bits_per_user: int
    guarantee: Guarantee
    seconds: float
    seeds: tuple[int, ...]
    name: str = ""
    users: int | None = None
    numbers_per_user: int | None = None
    counts: dict[str, Ints] = field(default_factory=dict)
    plays: Ints | None = None  # (S, K)
    setting: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seeds", tuple(int(seed) for seed in self.seeds))
        n_seeds = require.whole("number of seeds", len(self.seeds))
        self._shaped("checkpoints", (require.whole("number of checkpoints", np.size(self.checkpoints)),), np.int64)
        self._shaped("regret", (n_seeds, len(self.checkpoints)), np.float64)
        self._shaped("rewards", (n_seeds,), np.float64)
        self._shaped("clipped", (n_seeds,), np.int64)
        self._shaped("repairs", (n_seeds,), np.int64)
        if self.plays is not None:
            self._shaped("plays", (n_seeds, np.shape(self.plays)[-1] if np.ndim(self.plays) else 0), np.int64)
        counts = {name: np.asarray(values, dtype=np.int64) for name, values in self.counts.items()}
        object.__setattr__(self, "counts", counts)
        for name, values in counts.items():
            if values.shape != (n_seeds,):
                raise InvalidArgument(f"shape of counts[{name!r}]", values.shape, f"({n_seeds},), from the seeds")

    def _shaped(self, name: str, shape: tuple[int, ...], kind: type[np.generic]) -> None:
        values = np.asarray(getattr(self, name), dtype=kind)
        if values.shape != shape:
            raise InvalidArgument(f"shape of {name}", values.shape, f"{shape}, from the seeds and checkpoints")
        object.__setattr__(self, name, values)

    def __eq__(self, other: object) -> bool:
        """Every field, array by array; NaN equals NaN."""
        if not isinstance(other, Result):
            return NotImplemented
        return all(_same(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    @property
    def label(self) -> str:
        """The name, or whom the users trust."""
        return self.name or self.guarantee.trust

    @property
    def n_seeds(self) -> int:
        """Independent runs."""
        return len(self.seeds)

    @property
    def horizon(self) -> int:
        """The last checkpoint: rounds in a run."""
        return int(self.checkpoints[-1])

    @property
    def final_regret(self) -> Floats:
        """Regret at the horizon, (S,)."""
        return self.regret[:, -1]

    def mean(self) -> Floats:
        """Mean regret over the seeds at every checkpoint, (C,)."""
        return np.asarray(np.mean(self.regret, axis=0))

    def stderr(self) -> Floats:
        """Standard error of `mean()`, (C,): sample deviation (n - 1) / sqrt(n); NaN for a single seed."""
        if self.n_seeds == 1:
            return np.full(len(self.checkpoints), math.nan)
        return np.asarray(np.std(self.regret, axis=0, ddof=1) / math.sqrt(self.n_seeds))

    def summary(self) -> dict[str, Any]:
        """Plain values for JSON. Clips and repairs are sums over the seeds, counts means; communication is of one run.

        Bits and numbers of users whose reports differ in length are those counted, on average over the seeds.
        What is unknown is None: the standard error of one seed, numbers that were not recorded, infinities.
        """
        users = self.horizon if self.users is None else self.users
        stderr = float(self.stderr()[-1])
        return {
            "name": self.name,
            "mean": float(self.mean()[-1]),
            "stderr": None if math.isnan(stderr) else stderr,
            "median": float(np.median(self.final_regret)),
            "n_seeds": self.n_seeds,
            "horizon": self.horizon,
            "releases": self.releases,
            "clipped": int(np.sum(self.clipped)),
            "repairs": int(np.sum(self.repairs)),
            "counts": {name: float(np.mean(values)) for name, values in self.counts.items()},
            "communication": {
                "users": users,
                "bits_per_user": self.bits_per_user,
                "bits": self._sent("bits", users, self.bits_per_user),
                "numbers": self._sent("numbers", users, self.numbers_per_user),
            },
            "seconds": self.seconds,
            "guarantee": self.guarantee.to_dict(),
        }

    def _sent(self, what: str, users: int, each: int | None) -> int | None:
        """As counted; or the same from every user."""
        if what in self.counts:
            return round(float(np.mean(self.counts[what])))
        return None if each is None else users * each

    def __repr__(self) -> str:
        """The line of numbers; the arrays have names."""
        with np.errstate(all="ignore"):  # whatever the numbers are, they can be looked at
            return f"<Result of {self._line()}>"

    def __str__(self) -> str:
        """One line of numbers, and the guarantee's first sentence."""
        promise = self.guarantee.promise()
        return f"{self._line()}.\n{promise}"

    def _line(self) -> str:
        spread = "" if self.n_seeds == 1 else f" ± {number(float(self.stderr()[-1]))}"
        seeds = "one seed" if self.n_seeds == 1 else f"mean ± standard error of {self.n_seeds:,} seeds"
        clipped = int(np.sum(self.clipped))
        clips = f"{clipped:,} clipped, " if clipped else ""
        return (
            f"{self.label}: regret {number(float(self.mean()[-1]))}{spread} ({seeds}) "
            f"after {self.horizon:,} rounds; {self.releases:,} releases, {self.bits_per_user:,} bits per user, "
            f"{clips}{self.seconds:.3g} s"
        )

    def bounds(self) -> list[Curve]:
        """What the papers prove about this policy on such problems, at every checkpoint (`bandanna.theory`)."""
        promised = {name: getattr(self.guarantee, name) for name in ("trust", "epsilon", "delta", "rho")}
        return bounds_for({**self.setting, **promised}, self.checkpoints)

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        title: str | None = None,
        log: bool = False,
        bounds: bool = False,
    ) -> Any:
        """A matplotlib `Figure` of mean regret with a band of two standard errors; saved to `path` if there is one.

        `bounds` adds what the papers prove, on logarithmic axes: see `plot_regret`.
        """
        return plot_regret([self], path, title=title, log=log, bounds=bounds)

    def to_frame(self, *, kind: str = "pandas", rounds: str = "all") -> Any:
        """A tidy table: a row for every seed and checkpoint, or with `rounds="last"` for every seed.

        kind     "pandas" or "polars" for a `DataFrame`, "arrow" for a pyarrow `Table`; needs that library
        columns  label, policy, trust, epsilon and delta (of what ran; infinite and NaN without privacy), dim, n_arms,
                 horizon, seed, round, regret; of the last round also reward (the sum), releases, users, bits_per_user,
                 clipped, repairs and, by name, `counts`
        """
        return frame(self.columns(rounds=rounds), kind, f"to_frame(kind={kind!r})")

    def columns(self, *, rounds: str = "all") -> dict[str, list[Any]]:
        """The columns of `to_frame`, as lists."""
        last = require.one_of("rounds", rounds, ("all", "last")) == "last"
        marks = [self.horizon] if last else self.checkpoints.tolist()
        rows = self.n_seeds * len(marks)
        known: dict[str, Any] = {
            "label": self.label,
            "policy": self.setting.get("policy"),
            "trust": self.guarantee.trust,
        }
        epsilon = self.guarantee.epsilon
        known |= {"epsilon": epsilon, "delta": math.nan if math.isinf(epsilon) else self.guarantee.delta}
        known |= {"dim": self.setting.get("dim"), "n_arms": self.setting.get("n_arms"), "horizon": self.horizon}
        table = {name: [value] * rows for name, value in known.items()}
        table["seed"] = [seed for seed in self.seeds for _ in marks]
        table["round"] = marks * self.n_seeds
        table["regret"] = (self.final_regret if last else self.regret.ravel()).tolist()
        if last:
            table["reward"] = self.rewards.tolist()
            shared = {"releases": self.releases, "bits_per_user": self.bits_per_user}
            shared |= {"users": self.horizon if self.users is None else self.users}
            table |= {name: [value] * rows for name, value in shared.items()}
            table |= {"clipped": self.clipped.tolist(), "repairs": self.repairs.tolist()}
            table |= {name: values.tolist() for name, values in self.counts.items() if name not in table}
        return table

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Columns seed, round, regret, under a first line `# {...}` with everything else; `load` reads it back."""
        storage.write_csv(path, self._fields())

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Columns seed, round, regret, and everything else as metadata; needs the extra `results`."""
        storage.write_parquet(path, self._fields())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """What `to_csv` or `to_parquet` wrote, equal in every field; a damaged file is refused by name."""
        return storage.read(path, cls)

    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


def checkpoints_for(horizon: int, wanted: int) -> Ints:
    """Up to `wanted` rounds, evenly spaced, the horizon among them."""
    wanted = require.whole("checkpoints", wanted)
    return np.unique(np.ceil(np.linspace(0, horizon, min(wanted, horizon) + 1)[1:]).astype(np.int64))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other)
