"""From texts to words, and from words to numbers."""
