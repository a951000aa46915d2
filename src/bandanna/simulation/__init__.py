"""The simulator: `engine` runs a policy in an environment, `players` accelerate it, `result` keeps what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "engine": "simulate sweep",
    "figures": "plot_regret",
    "result": "Result ResultSet",
}
_MODULES = {"environments": "environments"}

if TYPE_CHECKING:
    from bandanna.simulation import environments as environments
    from bandanna.simulation.engine import simulate as simulate
    from bandanna.simulation.engine import sweep as sweep
    from bandanna.simulation.figures import plot_regret as plot_regret
    from bandanna.simulation.result import Result as Result
    from bandanna.simulation.result import ResultSet as ResultSet
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, _MODULES)
