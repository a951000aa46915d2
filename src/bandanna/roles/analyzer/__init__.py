"""The server that need not be trusted: ledger, analysis, learning, and snapshots that are signed and chained."""
