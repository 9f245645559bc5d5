"""Conformance checks for parts written elsewhere: call them from a test of your own.

Each check exercises a part the way the loop does and raises AssertionError with what was expected.
"""

from autotelic.testing.curricula import check_curriculum
from autotelic.testing.environments import check_environment
from autotelic.testing.minds import check_mind
from autotelic.testing.players import check_player
from autotelic.testing.policies import check_policy
from autotelic.testing.saved import run_digest
from autotelic.testing.worlds import check_world

__all__ = [
    "check_curriculum",
    "check_environment",
    "check_mind",
    "check_player",
    "check_policy",
    "check_world",
    "run_digest",
]
