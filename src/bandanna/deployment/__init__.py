"""A deployment: clients, registrar, shuffler, helper, analyzer and dashboard as processes."""

from __future__ import annotations
