"""What a protected file is worth and what it gives away, measured without the methods that made it."""
