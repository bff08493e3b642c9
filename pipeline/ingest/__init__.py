"""How a corpus gets on disk."""
