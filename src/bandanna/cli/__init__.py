"""The command line: one file per command; calls functions of the library, contains none."""
