"""The policy that `docs/own-policy.md` shows: it is held to the laws as it stands there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs" / "own-policy.md"
_FENCE = re.compile(r'^```python title="greedy.py"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_BLOCK = _FENCE.search(_PAGE.read_text(encoding="utf-8"))
assert _BLOCK is not None

SOURCE = _BLOCK[1]


def copied(prefix: str) -> str:
    """The text of the module with other stored names, so that it can be imported beside the documented one."""
    return SOURCE.replace('@bd.stored_as("', f'@bd.stored_as("{prefix}')


_module = types.ModuleType("documented_policy")
sys.modules[_module.__name__] = _module  # dataclasses look for their types there
exec(compile(copied("Documented"), str(_PAGE), "exec", dont_inherit=True), vars(_module))
Greedy = _module.Greedy
