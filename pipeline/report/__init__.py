"""One page that tells what a model has learned, and how far it can be trusted."""
