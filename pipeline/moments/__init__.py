"""The paper: moments of words and labels, and what they decompose into."""
