"""How long a calibration takes: the first time, read from the cache, and the statement of its guarantee.

For every protocol three rows, each the slowest over the `SETTINGS` below:

    first     calibrate, with an empty cache                                         (promise: 2 s)
    cached    calibrate again in a new interpreter, with the cache on disk filled    (promise: at once, 0.1 s;
              2 s for shuffle_gaussian, whose check for returning users is a composition)
    stated    the guarantee of what was calibrated, in an interpreter that has not computed it before (promise: 2 s)

Every time is CPU time of a fresh interpreter with `bandanna` imported. Beside it, `A @ A`: the product of two matrices
of 1000 x 1000 doubles, measured in the same interpreters. `python -m benchmarks.calibration` prints every setting.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass

from benchmarks.promises import Ratio

FIRST, AT_ONCE = 2.0, 0.1
CHECKED = {"shuffle_gaussian": FIRST}  # what a stored calibration's check takes where it is not at once
PROTOCOLS = ("central_gaussian", "central_continual", "shuffle_binomial", "shuffle_gaussian", "local_gaussian")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A budget for batches of reports, a user in `participations` of them; `horizon` is the continual protocol's."""

    features: int
    batch: int
    epsilon: float
    delta: float
    participations: int = 1
    horizon: int = 1_000_000


SETTINGS = (
    Setting(features=5, batch=200, epsilon=1.0, delta=1e-5, horizon=200),
    Setting(features=50, batch=2, epsilon=0.01, delta=1e-12),
    Setting(features=50, batch=1_000_000, epsilon=0.01, delta=1e-12),
    Setting(features=50, batch=1_000_000, epsilon=20.0, delta=1e-12),
    Setting(features=5, batch=200, epsilon=1.0, delta=1e-5, participations=10),
    Setting(features=50, batch=1_000_000, epsilon=0.01, delta=1e-12, participations=100),
)

CHILD = """
import json, sys, time
import numpy as np
import bandanna as bd
from bandanna import protocols

name, given = sys.argv[1], json.loads(sys.argv[2])
kinds = {kind.name: kind for kind in
         (protocols.CentralGaussian, protocols.CentralContinual, protocols.ShuffleBinomial, protocols.ShuffleGaussian,
          protocols.LocalGaussian)}
arguments = {
    "domain": bd.device.LinearReport(features=given["features"]),
    "budget": bd.privacy.ApproxDP(epsilon=given["epsilon"], delta=given["delta"]),
    "participations": given["participations"],
}
if name.startswith("shuffle"):
    arguments["batch"] = given["batch"]
if name == "central_continual":
    arguments["horizon"] = given["horizon"]
square = np.random.default_rng(0).normal(size=(1000, 1000))
square @ square
start = time.process_time()
square @ square
product = time.process_time() - start
start = time.process_time()
protocol = kinds[name].calibrate(**arguments)
calibrate = time.process_time() - start
start = time.process_time()
protocol.guarantee
print(json.dumps({"product": product, "calibrate": calibrate, "state": time.process_time() - start}))
"""


def seconds(protocol: str, setting: Setting, cache: str) -> dict[str, float]:
    """CPU times of one fresh interpreter with this cache directory."""
    command = [sys.executable, "-c", CHILD, protocol, json.dumps(asdict(setting))]
    environment = {**os.environ, "BANDANNA_CACHE": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


def pair(protocol: str, setting: Setting) -> tuple[dict[str, float], dict[str, float]]:
    """The same calibration with an empty cache and with a filled one."""
    with tempfile.TemporaryDirectory() as cache:
        return seconds(protocol, setting, cache), seconds(protocol, setting, cache)


def ratios(protocol: str, pairs: list[tuple[dict[str, float], dict[str, float]]]) -> list[Ratio]:
    """The slowest of these pairs, beside the median of their matrix products."""
    product = statistics.median(times["product"] for both in pairs for times in both)
    slowest = {
        "first": (max(first["calibrate"] for first, _ in pairs), FIRST),
        "cached": (max(cached["calibrate"] for _, cached in pairs), CHECKED.get(protocol, AT_ONCE)),
        "stated": (max(first["state"] for first, _ in pairs), FIRST),
    }
    return [
        Ratio(what=f"{protocol}, {step}", ours=ours, beside="A @ A", theirs=product, promise=promise)
        for step, (ours, promise) in slowest.items()
    ]


def measure() -> list[Ratio]:
    """All protocols over all settings; about a minute."""
    return [row for each in PROTOCOLS for row in ratios(each, [pair(each, setting) for setting in SETTINGS])]


if __name__ == "__main__":
    for each in PROTOCOLS:
        for setting in SETTINGS:
            for row in ratios(each, [pair(each, setting)]):
                print(f"{row.what:27} {row.ours:7.3f} s  {row.ratio:7.2f} x A @ A   {setting}")
