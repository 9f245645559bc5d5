"""What to propose and what to practise next."""

from autotelic.play.curriculum.base import Curriculum, NoCurriculum, Outcome, Pool, Wish

__all__ = ["Curriculum", "NoCurriculum", "Outcome", "Pool", "Wish"]
