"""One read of the corpus each: what a pass sums, and how its work is scheduled."""
