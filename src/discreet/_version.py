"""The version of the package: stated here, so that nothing imports the package for it."""

__version__ = "0.1.0"
