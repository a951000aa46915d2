"""The result of a simulation, its files, and the tally that players fill.

A file holds a table of seed, round and regret. The first line of CSV, or the metadata of Parquet, holds the rest as
JSON with a checksum.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from os import PathLike
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.data.tables import make_frame
from bandanna.errors import BandannaError, InvalidArgument, MissingExtra
from bandanna.policies.registry import compute_bounds
from bandanna.policies.regret_bounds import BoundCurve
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.simulation.figures import format_axis_number, plot_regret
from bandanna.storage.files import replace_file
from bandanna.types import Floats, Ints

FORMAT, VERSION = "bandanna result", 1
_COLUMNS = ("seed", "round", "regret")
_METADATA_KEY = b"bandanna"  # of the schema's metadata

Table = tuple[list[int], list[int], list[float]]  # the columns
Made = TypeVar("Made")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Result:
    """Regret of every seed at the checkpoints, against the true means, with releases and guarantee.

    Parameters
    ----------
    checkpoints, regret
        Rounds (C,), and regret (S, C).
    rewards
        Sums of rewards, (S,).
    releases
        Releases in one run.
    clipped, repairs
        Clipped reports, and releases made positive definite, (S,).
    bits_per_user
        Bits of the longest report as sent.
    guarantee, seconds, seeds, name
        The guarantee, seconds of all runs, the seeds, and a label for figures.
    users
        Users whose report was released in one run; None means all.
    numbers_per_user
        Real numbers in one report before encoding; None if not recorded.
    counts
        Other counts by name, (S,) each.
    plays
        Users of each arm, (S, K), which a server does not know; None if not counted.
    setting
        Facts of policy and environment for `bounds`.
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
        n_seeds = validation.integer("number of seeds", len(self.seeds))
        self._shaped("checkpoints", (validation.integer("number of checkpoints", np.size(self.checkpoints)),), np.int64)
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
        """Compare all fields; NaN equals NaN."""
        if not isinstance(other, Result):
            return NotImplemented
        return all(_is_equal(getattr(self, each.name), getattr(other, each.name)) for each in fields(self))

    @property
    def label(self) -> str:
        """The name; without one, the privacy model."""
        return self.name or self.guarantee.trust

    @property
    def n_seeds(self) -> int:
        """The number of independent runs."""
        return len(self.seeds)

    @property
    def horizon(self) -> int:
        """Number of rounds in a run: the last checkpoint."""
        return int(self.checkpoints[-1])

    @property
    def final_regret(self) -> Floats:
        """The regret at the horizon, (S,)."""
        return self.regret[:, -1]

    def mean(self) -> Floats:
        """Return the mean regret over seeds at every checkpoint, (C,)."""
        return np.asarray(np.mean(self.regret, axis=0))

    def stderr(self) -> Floats:
        """Return the standard error of `mean()`, (C,); NaN for a single seed."""
        if self.n_seeds == 1:
            return np.full(len(self.checkpoints), math.nan)
        return np.asarray(np.std(self.regret, axis=0, ddof=1) / math.sqrt(self.n_seeds))

    def summary(self, *, kind: str = "pandas") -> Any:
        """Return a frame with one row: the numbers at the horizon.

        `kind` is "pandas", "polars" or "arrow", and needs that library.
        """
        return make_frame(_to_columns([self.summary_row()]), kind, f"summary(kind={kind!r})")

    def summary_row(self) -> dict[str, Any]:
        """Return the row of `summary`, with sums of clips and repairs."""
        epsilon = self.guarantee.epsilon
        return {
            "label": self.label,
            "policy": self.setting.get("policy"),
            "trust": self.guarantee.trust,
            "epsilon": epsilon,
            "delta": math.nan if math.isinf(epsilon) else self.guarantee.delta,
            "n_seeds": self.n_seeds,
            "horizon": self.horizon,
            "regret": float(self.mean()[-1]),
            "stderr": float(self.stderr()[-1]),
            "median": float(np.median(self.final_regret)),
            "reward": float(np.mean(self.rewards)),
            "releases": self.releases,
            "users": self.horizon if self.users is None else self.users,
            "bits_per_user": self.bits_per_user,
            "clipped": int(np.sum(self.clipped)),
            "repairs": int(np.sum(self.repairs)),
            "seconds": self.seconds,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON.

        Clips and repairs are sums over the seeds, counts are means, communication is per run. Unknown and infinite
        values are None.
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
        if what in self.counts:
            return round(float(np.mean(self.counts[what])))
        return None if each is None else users * each

    def __repr__(self) -> str:
        with np.errstate(all="ignore"):  # whatever the numbers are, they can be looked at
            return f"<Result of {self.describe()}>"

    def __str__(self) -> str:
        promise = self.guarantee.promise()
        return f"{self.describe()}.\n{promise}"

    def describe(self) -> str:
        """Return the numbers at the horizon in one line."""
        spread = "" if self.n_seeds == 1 else f" ± {format_axis_number(float(self.stderr()[-1]))}"
        seeds = "one seed" if self.n_seeds == 1 else f"mean ± standard error of {self.n_seeds:,} seeds"
        clipped = int(np.sum(self.clipped))
        clips = f"{clipped:,} clipped, " if clipped else ""
        return (
            f"{self.label}: regret {format_axis_number(float(self.mean()[-1]))}{spread} ({seeds}) "
            f"after {self.horizon:,} rounds; {self.releases:,} releases, {self.bits_per_user:,} bits per user, "
            f"{clips}{self.seconds:.3g} s"
        )

    def bounds(self) -> list[BoundCurve]:
        """Return the papers' regret bounds for this policy and setting at every checkpoint."""
        promised = {name: getattr(self.guarantee, name) for name in ("trust", "epsilon", "delta", "rho")}
        return compute_bounds({**self.setting, **promised}, self.checkpoints)

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        title: str | None = None,
        log: bool = False,
        bounds: bool = False,
    ) -> Any:
        """Draw the mean regret with a band of two standard errors, as `plot_regret`, and return the `Figure`.

        Parameters
        ----------
        path
            Where to save the figure, as .png or .svg.
        log
            Use logarithmic axes.
        bounds
            Add the papers' bounds, on logarithmic axes.
        """
        return plot_regret([self], path, title=title, log=log, bounds=bounds)

    def to_frame(self, *, kind: str = "pandas", rounds: str = "all") -> Any:
        """Return a tidy table with a row for every seed and checkpoint.

        Columns are label, policy, trust, epsilon and delta (infinite and NaN without privacy), dim, n_arms, horizon,
        seed, round and regret.

        Parameters
        ----------
        kind : {"pandas", "polars", "arrow"}
            The library of the table.
        rounds : {"all", "last"}
            "last" keeps only the last checkpoint of every seed, and adds reward (the sum), releases, users,
            bits_per_user, clipped, repairs and the `counts` by name.
        """
        return make_frame(self.columns(rounds=rounds), kind, f"to_frame(kind={kind!r})")

    def columns(self, *, rounds: str = "all") -> dict[str, list[Any]]:
        """Return the columns of `to_frame` as lists."""
        last = validation.one_of("rounds", rounds, ("all", "last")) == "last"
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
        """Write columns seed, round and regret, with the rest in a first line `# {...}`."""
        write_csv(path, self._fields())

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write columns seed, round and regret, with the rest as metadata; needs the extra `results`."""
        write_parquet(path, self._fields())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Result:
        """Read a file of `to_csv` or `to_parquet`; a damaged file is refused."""
        return read_result(path, cls)

    def _fields(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


class ResultSet(Mapping[str, Result]):
    """Results by their labels, as one table and one figure.

    Parameters
    ----------
    results
        Results by their labels, at least one.
    asked
        Further columns of the frames, by label.
    """

    def __init__(self, results: Mapping[str, Result], asked: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self._results = {label: replace(result, name=label) for label, result in results.items()}
        self._asked = {label: dict(asked[label]) if asked else {} for label in results}

    def __getitem__(self, label: str) -> Result:
        return self._results[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"<ResultSet of {', '.join(self)}>"

    def __str__(self) -> str:
        return "\n".join(result.describe() for result in self.values())

    def summary(self, *, kind: str = "pandas") -> Any:
        """Return a frame with a row for each result."""
        rows = [result.summary_row() | self._asked[label] for label, result in self.items()]
        return make_frame(_to_columns(rows), kind, f"summary(kind={kind!r})")

    def to_frame(self, *, kind: str = "pandas", rounds: str = "all") -> Any:
        """Return the rows of all results; a column that one result does not have is missing there."""
        tables = [result.columns(rounds=rounds) for result in self.values()]
        for table, asked in zip(tables, self._asked.values(), strict=True):
            table |= {name: [value] * len(table["label"]) for name, value in asked.items()}
        names = list(dict.fromkeys(name for table in tables for name in table))
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for table in tables:
            for name in names:
                columns[name] += table.get(name, [None] * len(table["label"]))
        return make_frame(columns, kind, f"to_frame(kind={kind!r})")

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        title: str | None = None,
        log: bool = False,
        bounds: bool = False,
    ) -> Any:
        """Return a matplotlib `Figure` with a curve for each result, as `plot_regret`."""
        return plot_regret(self, path, title=title, log=log, bounds=bounds)


def _to_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def checkpoints_for(horizon: int, count: int) -> Ints:
    """Return up to `count` evenly spaced rounds, the horizon among them."""
    count = validation.integer("checkpoints", count)
    return np.unique(np.ceil(np.linspace(0, horizon, min(count, horizon) + 1)[1:]).astype(np.int64))


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_is_equal(one[name], other[name]) for name in one)
    return bool(one == other)


# The totals and the tally of a run


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """The totals that a player returns for S seeds: `clipped` of `reports` in one run.

    Guarantee, repairs and lengths are None if the policy states them itself.
    """

    releases: int
    users: int
    clipped: NDArray[np.int64]  # (S,)
    guarantee: Guarantee | None = None
    repairs: NDArray[np.int64] | None = None  # (S,)
    bits_per_user: int | None = None
    numbers_per_user: int | None = None
    reports: int | None = None
    counts: dict[str, NDArray[np.int64]] = field(default_factory=dict)


@dataclass(kw_only=True)
class Tally:
    """Cumulative regret of S seeds at the checkpoints only, rewards, and plays of each arm."""

    checkpoints: NDArray[np.int64]
    n_seeds: int
    n_arms: int = 0  # 0: nobody counts who took which
    done: int = 0  # rounds
    passed: int = 0  # checkpoints
    regret: Floats = field(init=False)  # (S, checkpoints)
    total: Floats = field(init=False)  # (S,): regret so far
    rewards: Floats = field(init=False)  # (S,)
    plays: Ints = field(init=False)  # (S, K)

    def __post_init__(self) -> None:
        self.regret = np.zeros((self.n_seeds, len(self.checkpoints)))
        self.total, self.rewards = np.zeros(self.n_seeds), np.zeros(self.n_seeds)
        self.plays = np.zeros((self.n_seeds, self.n_arms), dtype=np.int64)
        self._rows = np.arange(self.n_seeds)

    def add_arms(self, arms: Ints, rows: Ints | None = None) -> None:
        """Count the arms of users (rows, n) of all seeds, or of the seeds `rows`."""
        if self.n_arms:
            rows = self._rows if rows is None else rows
            flat = (rows[:, None] * self.n_arms + arms).ravel()
            self.plays += np.bincount(flat, minlength=self.plays.size).reshape(self.plays.shape)

    def add_plays(self, arms: Ints, counts: Ints | int, rows: Ints | None = None) -> None:
        """Count `counts` users who took one arm in every seed, or in the seeds `rows`."""
        if self.n_arms:
            self.plays[self._rows if rows is None else rows, arms] += counts

    def steady(self, gaps: Floats, rounds: int) -> None:
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + rounds:
            self.regret[:, self.passed] = self.total + gaps * (self.checkpoints[self.passed] - self.done)
            self.passed += 1
        self.total = self.total + (gaps if rounds == 1 else gaps * rounds)
        self.done += rounds

    def of_seed(self, place: int, begun: int, gaps: Floats, rewards: Floats) -> None:
        """Add rounds of one seed, (rounds,) each, after its first `begun` rounds."""
        self.own(np.array([place]), begun, gaps[None])
        self.rewards[place] += rewards.sum()

    def own(self, rows: NDArray[np.int64], begin: int, gaps: Floats) -> None:
        """Add losses (rows, rounds) of some seeds after round `begin`, already added as lossless."""
        running = self.total[rows, None] + np.cumsum(gaps, axis=1)
        first, last = np.searchsorted(self.checkpoints, [begin + 1, begin + gaps.shape[1] + 1])
        self.regret[rows, first:last] = running[:, self.checkpoints[first:last] - begin - 1]
        self.total[rows] = running[:, -1]

    def add_losses(self, gaps: Floats) -> None:
        running = self.total[:, None] + np.cumsum(gaps, axis=1)
        while self.passed < len(self.checkpoints) and self.checkpoints[self.passed] <= self.done + gaps.shape[1]:
            self.regret[:, self.passed] = running[:, self.checkpoints[self.passed] - self.done - 1]
            self.passed += 1
        self.total = running[:, -1]
        self.done += gaps.shape[1]


# Files


def write_csv(path: str | PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write one row per seed and checkpoint; floats are read back exactly."""
    rows = zip(*_table(fields), strict=True)
    lines = [f"# {_make_header(fields)}", ",".join(_COLUMNS), *(f"{s},{t},{regret!r}" for s, t, regret in rows)]
    text = "\n".join(lines) + "\n"
    replace_file(path, lambda beside: beside.write_text(text, encoding="utf-8", newline="\n"))


def write_parquet(path: str | PathLike[str], fields: Mapping[str, Any]) -> None:
    """Write the rows of `write_csv` as columns; seeds beyond 64 bits become texts."""
    arrow, parquet = _import_pyarrow("Result.to_parquet")
    seeds, rounds, regret = _table(fields)
    wide = max(seeds) >= 2**63 or min(seeds) < -(2**63)
    columns = {
        "seed": arrow.array(
            [str(seed) for seed in seeds] if wide else seeds, arrow.string() if wide else arrow.int64()
        ),
        "round": arrow.array(rounds, arrow.int64()),
        "regret": arrow.array(regret, arrow.float64()),
    }
    table = arrow.table(columns).replace_schema_metadata({_METADATA_KEY: _make_header(fields).encode()})
    replace_file(path, lambda beside: parquet.write_table(table, str(beside)))


def read_result(path: str | PathLike[str], make: Callable[..., Made]) -> Made:
    """Return `make(**fields)` of a CSV or Parquet file, told apart by its first bytes."""
    file = validation.path("path", path)
    try:
        content = file.read_bytes()
    except OSError as error:
        raise BandannaError(f"{file} cannot be read: {error.strerror or error}") from error
    try:
        header, table = _from_parquet(content) if content.startswith(b"PAR1") else _from_csv(content)
        return make(**_read_fields(header, table))
    except MissingExtra:
        raise
    except (BandannaError, ArithmeticError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        raise BandannaError(f"{file} is not a whole file of Result.to_csv or Result.to_parquet: {error}") from error


def _from_csv(content: bytes) -> tuple[str, Table]:
    first, *lines = content.decode("utf-8").splitlines() or [""]
    if not first.startswith("# {"):
        raise ValueError("its first line is not `# {...}`")
    if not lines or tuple(lines[0].split(",")) != _COLUMNS:
        raise ValueError(f"its second line is not {','.join(_COLUMNS)}")
    rows = [each.split(",") for each in lines[1:]]
    for line, row in enumerate(rows, start=3):
        if len(row) != len(_COLUMNS):
            raise ValueError(f"line {line} has {len(row)} of {len(_COLUMNS)} values")
    return first[2:], ([int(row[0]) for row in rows], [int(row[1]) for row in rows], [float(row[2]) for row in rows])


def _from_parquet(content: bytes) -> tuple[str, Table]:
    arrow, parquet = _import_pyarrow("Result.load of a Parquet file")
    try:
        table = parquet.ParquetFile(arrow.BufferReader(content)).read()
    except arrow.ArrowException as error:
        raise ValueError(str(error)) from error
    metadata = table.schema.metadata or {}
    if _METADATA_KEY not in metadata or tuple(table.column_names) != _COLUMNS:
        raise ValueError(f"it has the columns {', '.join(table.column_names)} and no metadata of this package")
    seeds, rounds, regret = (table.column(name).to_pylist() for name in _COLUMNS)
    return metadata[_METADATA_KEY].decode(), ([int(seed) for seed in seeds], rounds, regret)


def _table(fields: Mapping[str, Any]) -> Table:
    seeds, rounds = fields["seeds"], fields["checkpoints"].tolist()
    return [seed for seed in seeds for _ in rounds], rounds * len(seeds), fields["regret"].ravel().tolist()


def _make_header(fields: Mapping[str, Any]) -> str:
    plain = {name: _to_plain(value) for name, value in fields.items() if name != "regret"}
    document: dict[str, Any] = {"format": FORMAT, "version": VERSION, **plain}
    return json.dumps({**document, "sha256": _checksum(document, fields["regret"])}, allow_nan=False)


def _read_fields(header: str, table: Table) -> dict[str, Any]:
    document = json.loads(header)
    checksum = document.pop("sha256", None)
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise ValueError(f"it is {document.get('format')!r}, version {document.get('version')!r}; known is {VERSION}")
    seeds, rounds, values = table
    marks = document["checkpoints"]
    if rounds != marks * len(document["seeds"]) or seeds != [s for s in document["seeds"] for _ in marks]:
        raise ValueError(
            f"its {len(rounds)} rows are not the {len(document['seeds'])} x {len(marks)} that it announces"
        )
    regret = np.asarray(values, dtype=np.float64).reshape(len(document["seeds"]), len(marks))
    if checksum != _checksum(document, regret):
        raise ValueError("its content was changed, the checksum differs")
    fields = {name: _from_plain(value) for name, value in document.items() if name not in ("format", "version")}
    return {**fields, "regret": regret, "guarantee": _guarantee_from_plain(fields["guarantee"])}


def _checksum(document: Mapping[str, Any], regret: Floats) -> str:
    """Hash the canonical JSON and the bytes of the regret; every NaN has the same bytes."""
    numbers = np.where(np.isnan(regret), math.nan, regret).astype("<f8").tobytes()
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode() + numbers).hexdigest()


def _to_plain(value: Any) -> Any:
    """Return a field as JSON values; a float that JSON does not have becomes {"float": "inf"}."""
    if isinstance(value, Guarantee):
        return _to_plain(asdict(value))
    if isinstance(value, np.ndarray | np.generic):
        return _to_plain(value.tolist())
    if isinstance(value, dict):
        return {name: _to_plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(entry) for entry in value]
    return {"float": repr(value)} if isinstance(value, float) and not math.isfinite(value) else value


def _from_plain(value: Any) -> Any:
    if isinstance(value, dict):
        return float(value["float"]) if set(value) == {"float"} else {name: _from_plain(e) for name, e in value.items()}
    return tuple(_from_plain(entry) for entry in value) if isinstance(value, list) else value


def _guarantee_from_plain(plain: Mapping[str, Any]) -> Guarantee:
    shuffler = None if plain["shuffler"] is None else ApproxDP(**plain["shuffler"])
    return Guarantee(**{**plain, "shuffler": shuffler})


def _import_pyarrow(needed_for: str) -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise MissingExtra("results", needed_for) from None
