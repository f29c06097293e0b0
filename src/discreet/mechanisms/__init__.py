"""The mechanisms: entropy, exact samplers, one mechanism per module with its proof note beside it. TRUSTED."""

from discreet._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
