"""What a label's score is made of."""
