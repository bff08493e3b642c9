"""Benchmarks: each prints one JSON, and every time in it stands beside another from the same run."""
