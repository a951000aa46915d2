"""Where devices report: slots that always hold a report, durable before acknowledged, and batches that close once.

A component, not a process: it is part of the shuffler, or of an analyzer that may see single reports.
"""
