"""From the statistics of a batch of users to a private sum: one folder per protocol."""
