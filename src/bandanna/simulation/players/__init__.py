"""Players run a policy for many seeds: `reference` runs any policy, the others are exact accelerations of it."""

from __future__ import annotations
