"""A first look at discreet: `python -m demo`."""
