"""How a data set is studied: how long, how often, and which public choices LinTS is given.

LinTS has two models here. "users": a parameter of its own for each arm, of the features of users. "arms": one number
for each arm, the same for all users, whose features are the corners of a simplex beside a constant. With noise for
epsilon = 1 and a few hundred people, the second is what can be learned: every feature costs noise in each arm's block.

Where the settings come from: `docs/study.md`. They were chosen on simulated trials, or on other seeds than those of a
study (which begin at 0), and are public: nothing in them follows from the people who are played with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bandanna.policies.linear.schedules import Schedule, geometric


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Of one data set.

    horizon  rounds of a table; logged events of a log, of which the policy's choice is accepted
    model    of LinTS: "users" or "arms";   alpha, batch: its arguments
    every    after so many rounds the other libraries learn
    """

    horizon: int
    seeds: int
    model: str
    alpha: float
    batch: int | str | Schedule = "auto"
    every: int = 100

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "batch": self.batch if isinstance(self.batch, int | str) else repr(self.batch)}


SETTINGS = {
    "actg175": Setting(horizon=2_000, seeds=40, model="arms", alpha=0.25, batch=333),  # 500 accepted
    "thornton": Setting(horizon=2_800, seeds=40, model="arms", alpha=0.25, batch=466),
    "obd": Setting(horizon=10_000, seeds=10, model="arms", alpha=0.25, batch=1_666),
    "routing": Setting(horizon=20_000, seeds=20, model="arms", alpha=0.25, batch=geometric(first=800, ratio=1.5)),
    "shuttle": Setting(horizon=20_000, seeds=10, model="users", alpha=0.5, every=50),
}


_ENOUGH = 100  # people for each number of a model, of a feature or a constant of one arm


def setting_of(name: str, *, rows: int, logged: bool, features: int, arms: int) -> Setting:
    """Of a data set by its name; for own data, six batches of all events, or 20,000 rounds.

    Own data have a model of users where there are enough people for one. Of n logged events n/K are accepted, if arms
    were given alike.
    """
    if name in SETTINGS:
        return SETTINGS[name]
    horizon = rows if logged else 20_000
    people = horizon / arms if logged else horizon
    users = features > 0 and people >= _ENOUGH * arms * (features + 1)
    model, alpha = ("users", 0.5) if users else ("arms", 0.25)
    return Setting(horizon=horizon, seeds=20, model=model, alpha=alpha, batch=max(2, horizon // 6))
