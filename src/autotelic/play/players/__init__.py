"""Players that need no model."""
