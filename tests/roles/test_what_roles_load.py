"""What the registrar's and the helper's programs have in memory: no more than their sight allows."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = "import json, sys, bandanna.roles.{0}.app; print(json.dumps(sorted(sys.modules)))"
NEITHER = ("policies", "loop", "simulation", "agent", "tasks", "environments")


@pytest.mark.parametrize(
    ("role", "forbidden"),
    [("registrar", (*NEITHER, "protocols", "mechanisms", "accounting", "device", "roles.helper")),
     ("helper", (*NEITHER, "roles.registrar"))],
)  # fmt: skip
def test_a_role_loads_only_what_it_may_know(role: str, forbidden: tuple[str, ...]) -> None:
    """False if importing a role loaded a policy, a runner, another role, or a server that is not asked for yet."""
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(role)], capture_output=True, text=True, check=True)
    loaded = json.loads(done.stdout)
    assert f"bandanna.roles.{role}.app" in loaded
    for name in forbidden:
        assert not [each for each in loaded if f"{each}.".startswith(f"bandanna.{name}.")]
    assert not {"starlette", "uvicorn", "httpx"} & set(loaded)
