"""Tokenizing of texts, and numbering of their terms."""
