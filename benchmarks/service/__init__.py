"""The service under load, from a second process on loopback: how long replies take, how many, what time tells."""
