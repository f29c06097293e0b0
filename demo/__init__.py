"""A first look at discreet: `make demo`."""
