"""Paper 002: concurrent shufflers; noise of running counts, regret of LinUCB, the tree of batches."""
