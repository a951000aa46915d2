"""The policies that `docs/how-to/write-a-policy.md` shows: they are held to the laws as they stand there."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "write-a-policy.md"


def _source(title: str) -> str:
    """The text of a module that the page shows."""
    block = re.search(rf'^```python title="{title}"\n(.*?)^```$', _PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert block is not None
    return block[1]


SOURCE = _source("greedy.py")


def copied(prefix: str, source: str = SOURCE) -> str:
    """The text of the module with other stored names, so that it can be imported beside the documented one."""
    return source.replace('@bd.stored_as("', f'@bd.stored_as("{prefix}')


def _imported(name: str, source: str) -> Any:
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look for their types there
    exec(compile(copied("Documented", source), str(_PAGE), "exec", dont_inherit=True), vars(module))
    return module


Greedy = _imported("documented_policy", SOURCE).Greedy
Ridge = _imported("documented_linear_policy", _source("ridge.py")).Ridge
