"""A task: a policy with everything that its parties must agree on, as one public document that never changes."""
