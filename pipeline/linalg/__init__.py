"""Small dense linear algebra, and products of tall matrices with small ones."""
