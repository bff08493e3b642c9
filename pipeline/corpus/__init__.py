"""What is stored: the on-disk format and the corpus that reads it."""
