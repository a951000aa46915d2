"""Policies on linear rewards."""
