"""What is known to be bad must be refuted, what is known to be good must not: can the audit itself be trusted?"""

from __future__ import annotations

from bandanna.audit.gallery.bad import BAD as BAD
from bandanna.audit.gallery.running import ROWS as ROWS
from bandanna.audit.gallery.running import run_gallery as run_gallery
