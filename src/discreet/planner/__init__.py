"""Chooses mechanisms from public facts."""
