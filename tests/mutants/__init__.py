"""The mutation check: faults put into copies of the package one at a time, and the tests that must notice each."""
