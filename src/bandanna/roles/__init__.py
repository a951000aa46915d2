"""The parties of a deployment: each folder but `serving`, which they share, is a process that others need not trust.

They know each other by what travels, and nothing else.
"""

from __future__ import annotations
