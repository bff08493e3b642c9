"""Measures of rankings and probabilities."""
