"""Paper 000: LinUCB under every privacy model; figures 1 and 2, returning users, rates."""
