"""The one error type that is shown to a user as a single line."""


class UserError(Exception):
    """A mistake in input or surroundings: what, where, what to do. Printed without a traceback, exit code 2."""
