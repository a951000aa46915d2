"""The parties of a deployment, one folder for each process; they know each other by what travels, and nothing else."""
