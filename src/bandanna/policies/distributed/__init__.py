"""Phased elimination over a population: fresh clients answer in every phase."""
