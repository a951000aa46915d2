"""Drawing: regret over time, the bounds beside it, axes in the style of the house."""
