"""Questions and releases replayed on neighboring tables."""
