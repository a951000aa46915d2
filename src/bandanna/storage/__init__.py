"""Files that are whole or not there, of values that come back bit for bit."""
