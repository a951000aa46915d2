from __future__ import annotations

from ..coroutines import pytest_pyfunc_call as pytest_pyfunc_call
from ..nursery import _quick_roles as _quick_roles
from ..unsynced import _unsynced as _unsynced
