"""Runs untrusted programs. The only place in Autotelic where code from a model, an archive or a dataset is executed."""

from autotelic.worlds.code.sandbox.config import Limits, SandboxConfig
from autotelic.worlds.code.sandbox.outcome import Job, Outcome, Remote
from autotelic.worlds.code.sandbox.pool import Sandbox
from autotelic.worlds.code.sandbox.session import RemoteError, Session

__all__ = ["Job", "Limits", "Outcome", "Remote", "RemoteError", "Sandbox", "SandboxConfig", "Session"]
