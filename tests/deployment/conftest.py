from __future__ import annotations

from ..nursery import _quick_roles as _quick_roles
from ..unsynced import _unsynced as _unsynced
