"""The papers' experiments as their authors ran them, beside what the noise they used really promises."""
