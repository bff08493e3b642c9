"""The corpus: its format on disk, and the class that reads it."""
