from __future__ import annotations

from ..unsynced import _unsynced as _unsynced
