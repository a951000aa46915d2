"""Paper 004, concentrated privacy: its figures, and one policy under two definitions."""
