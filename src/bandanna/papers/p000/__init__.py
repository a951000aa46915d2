"""Paper 000, linear contextual bandits in the shuffle model: its figures, users who come back, rates."""
