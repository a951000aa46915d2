"""Players by kind of episode: exact accelerations of the plain loop."""
