"""Ingest: every way to write a corpus to disk."""
