"""Paper 003, private generalised linear bandits: its Table 2 and figures."""
