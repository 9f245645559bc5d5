"""The arm world."""

from autotelic import physics as physics  # decides where MuJoCo draws, before a module here loads it
