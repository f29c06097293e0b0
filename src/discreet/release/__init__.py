"""Files that leave: which method, how they are written, and what is recorded of them."""
