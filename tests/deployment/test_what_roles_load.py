"""What the registrar's and the helper's programs have in memory: no more than their sight allows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = "import json, sys, bandanna.deployment.{0}_service; print(json.dumps(sorted(sys.modules)))"
NEITHER = ("policies", "simulation", "agent", "deployment.task")
HELPER = ("deployment.helper", "deployment.helper_service")
REGISTRAR = ("deployment.registrar", "deployment.registrar_service")


@pytest.mark.parametrize(
    ("role", "forbidden"),
    [
        ("registrar", (*NEITHER, *("protocols", "mechanisms", "privacy", "device"), *HELPER)),
        ("helper", (*NEITHER, *REGISTRAR)),
    ],
)
def test_a_role_loads_only_what_it_may_know(role: str, forbidden: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(role)], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert f"bandanna.deployment.{role}_service" in loaded
    for name in forbidden:
        assert not [each for each in loaded if f"{each}.".startswith(f"bandanna.{name}.")]
