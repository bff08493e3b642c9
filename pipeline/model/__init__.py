"""Models: the estimator that learns, the predictor that labels, and their files."""
