"""What runs with a user, against a deployment: look at the publication, act, report; and crowds of simulated users."""
