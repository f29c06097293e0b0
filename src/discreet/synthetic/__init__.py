"""DP synthetic files: exact totals on public grids, noise once, and everything else from the noisy totals."""

from discreet._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
