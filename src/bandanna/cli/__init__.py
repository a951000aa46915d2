"""The command line: `bandanna`, its commands, and its output on a terminal."""

from __future__ import annotations
