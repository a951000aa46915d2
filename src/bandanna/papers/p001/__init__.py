"""Paper 001, one action for a whole population, learned from a few clients: its figures, Table II, rates."""
