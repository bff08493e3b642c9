"""Parts of a label's score: how they learn, and what they add."""
