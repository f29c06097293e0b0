"""Middleware: authentication, deadlines, headers, limits."""
