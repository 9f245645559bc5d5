# Typed as loosely as what it is made of.
from typing import Any

def __getattr__(name: str) -> Any: ...
