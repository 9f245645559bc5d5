# MuJoCo's functions and classes are compiled and have no types of their own.
from typing import Any

def __getattr__(name: str) -> Any: ...
