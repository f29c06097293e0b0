"""What analysts know: priors, distances between values, taxonomies, and posteriors."""
