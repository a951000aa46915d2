"""What the papers share: a figure as a value, rows, rates, drawing, work in several processes."""
