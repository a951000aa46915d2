"""Policies: context -> action, estimate -> state; one file per algorithm."""
