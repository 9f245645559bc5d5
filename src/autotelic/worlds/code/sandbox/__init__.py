"""Runs untrusted programs. The only place in Autotelic where code from a model, an archive or a dataset is executed."""

from autotelic.worlds.code.sandbox.outcome import Job, Limits, Outcome, Remote
from autotelic.worlds.code.sandbox.pool import Sandbox, SandboxConfig, Session

__all__ = ["Job", "Limits", "Outcome", "Remote", "Sandbox", "SandboxConfig", "Session"]
