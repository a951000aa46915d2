"""Policies on a finite set of arms that stays."""
