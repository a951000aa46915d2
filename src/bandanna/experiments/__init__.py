"""Experiments from TOML files, studies on real data, and forecasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "experiment": "Experiment",
    "runner": "Results run",
}

if TYPE_CHECKING:
    from bandanna.experiments.experiment import Experiment as Experiment
    from bandanna.experiments.runner import Results as Results
    from bandanna.experiments.runner import run as run
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {})
