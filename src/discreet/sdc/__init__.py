"""Statistical disclosure control: methods that protect a file, and measures of its utility and disclosure risk."""

from discreet._lazy import attach

__all__, __getattr__, __dir__ = attach(__name__)
