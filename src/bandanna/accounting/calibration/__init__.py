"""The least noise that keeps a promise: searches over the accountant, and the papers' printed constants beside them."""
