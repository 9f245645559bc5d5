"""Autotelic: models and robots that learn from tasks they set themselves."""

__version__ = "0.1.0"
