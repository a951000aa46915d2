"""The simulator: many seeds at once, exact in law."""
