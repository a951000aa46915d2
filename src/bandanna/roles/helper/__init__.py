"""The helper, the second of two mixers: it has the seeds of the masks that hide what the first one adds."""

from __future__ import annotations

from bandanna.roles.helper.errors import JobRefused
from bandanna.roles.helper.helper import Helper
from bandanna.roles.helper.keyring import Keyring
from bandanna.roles.helper.tables import SCHEMA

__all__ = ["SCHEMA", "Helper", "JobRefused", "Keyring"]
