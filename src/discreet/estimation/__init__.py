"""Better answers from noisy ones: public, it never sees rows or entropy."""
