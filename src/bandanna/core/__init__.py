"""Shared nouns: domains, statistics, estimates, argument checks."""
