"""From noisy outputs to what an analyst reads."""
