"""What is learned: the estimator, its guarantee, and how it is saved."""
