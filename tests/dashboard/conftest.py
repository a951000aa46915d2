from __future__ import annotations

from ..coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from ..unsynced import _unsynced as _unsynced
