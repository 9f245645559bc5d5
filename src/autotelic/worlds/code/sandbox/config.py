"""What a sandbox can be told."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Limits:
    """What one job may use. CPU seconds are whole: the kernel counts them so."""

    cpu: int = 1  # seconds of processor time
    wall: float = 5.0  # seconds of waiting
    memory: int = 256  # MiB of address space beyond the server's own
    output: int = 1 << 20  # bytes of canonical text per value

    def __post_init__(self) -> None:
        for name in ("cpu", "wall", "memory", "output"):
            if not getattr(self, name) > 0:
                raise ValueError(f"sandbox.limits.{name} is {getattr(self, name)}; it must be above 0")


@dataclass
class SandboxConfig:
    backend: str = "sandlock"  # sandlock, bubblewrap or docker; never another than the one named
    servers: int = 4  # warm servers, each with a hash seed of its own; not by cores, or results would depend on them
    lanes: int = 0  # jobs that run at once; 0: two a core, so that a core is busy while a job starts or ends
    ahead: int = 8  # children that a server forks ahead at a time
    preload: list[str] = field(default_factory=lambda: ["math"])  # modules jobs need not load; each slows every fork
    namespaces: bool = True  # sandlock only: also hide which paths and processes exist; false where a system denies it
    image: str = "python:3.11-slim"  # docker only
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        for name, least, most in (("servers", 1, 64), ("lanes", 0, 1024), ("ahead", 1, 100)):
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"sandbox.{name} is {getattr(self, name)}; it must be {least} to {most}")
