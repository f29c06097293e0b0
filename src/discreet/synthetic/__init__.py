"""Differentially private files: exact totals on public grids, noise once, and everything else from what is noisy."""
