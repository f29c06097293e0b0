"""The claims of protected files, checked without the methods that made them."""
