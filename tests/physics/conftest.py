"""The package decides where MuJoCo draws, which it can only before anything imports MuJoCo: tests do, by name."""

import autotelic.physics  # noqa: F401
