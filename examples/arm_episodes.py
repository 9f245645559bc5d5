"""A robot arm is given tasks, one after the other, and a hand-written controller solves each in simulation. No screen
is needed.

    python examples/arm_episodes.py --episodes 3 --difficulty hard --selection random

The same from the command line: autotelic play world=arm player=scripted episodes=3 loop.difficulty=hard
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import autotelic


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Episodes of a robot arm.")
    parser.add_argument("--episodes", type=int, default=3)
    parser.add_argument("--difficulty", choices=["easy", "medium", "hard"], default="easy")
    parser.add_argument("--selection", choices=["sequential", "random"], default="sequential")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    with autotelic.new_episodes(
        "world=arm",
        "player=scripted",
        f"player.selection={chosen.selection}",
        f"loop.difficulty={chosen.difficulty}",
        f"seed={chosen.seed}",
    ) as episodes:
        found = []
        for _ in range(chosen.episodes):
            episode = episodes.run_episode()
            print(episode)
            found.append(episode)
    solved = sum(episode.solved for episode in found)
    seconds = sum(episode.metrics["time"] for episode in found) / max(len(found), 1)
    print(f"{solved} of {len(found)} solved, {seconds:.2f} s of simulated time each")


if __name__ == "__main__":
    main()
