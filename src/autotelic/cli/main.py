"""The command `autotelic`: finds the verb and shows mistakes as one line."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

# Everything that takes time to load is imported inside `main`, where a signal has its answer.
from autotelic import __version__
from autotelic.errors import UserError
from autotelic.runs import workers

# Verb → what it does. Its module is imported when it is asked for: `--help` answers at once.
VERBS = {
    "play": "self-play: tasks proposed, solved, verified, learned",
    "train": "a policy learns in an environment: our own tasks, or any of Gymnasium's",
    "resume": "goes on with a run, or forks it from a checkpoint",
    "eval": "measures a run's player on a held-out suite, or its policy over episodes",
    "compare": "runs side by side: paired seeds, spread, confidence interval, config differences, a plot",
    "verify": "judges a run's archive again, here, and prints every verdict that differs",
    "watch": "films a run's policy, or an archived attempt of the arm: MP4 and a sheet of pictures",
    "export": "writes a run's archive as JSON lines, or its policy as ONNX",
    "data": "demonstrations as files: collect writes episodes of a player or a policy that are verified successes",
    "runs": "lists runs with their headline figures",
    "doctor": "what this machine can do: sandbox (proved), threads, GPU, GL, optional parts",
}

# Verbs that load policies and environments, which need more than torch alone: the extra of physics brings all of it.
OF_POLICIES = ("train", "resume", "eval", "watch", "export", "data")


def overview() -> str:
    width = max(map(len, VERBS))
    verbs = "\n".join(f"  {verb:<{width}}  {text}" for verb, text in VERBS.items())
    return (
        "usage: autotelic VERB [key=value ...] [options]\n\n"
        f"Models and robots that learn from tasks they set themselves.\n\n{verbs}\n\n"
        "options everywhere: --help, --debug (full tracebacks), --log-level LEVEL; autotelic --version\n"
        "example: autotelic play world=code player=grammar steps=20"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 good, 1 a check did not hold or our own mistake, 2 the user's mistake,
    130/143 stopped."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    try:
        workers.exit_on_sigterm()
        workers.follow_lifeline()
        return dispatch(arguments)
    except UserError as error:
        if debug:
            raise
        print(f"autotelic: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        if debug:
            raise
        print("autotelic: stopped", file=sys.stderr)
        return 130
    except workers.TerminatedError:
        return _terminated()
    except BrokenPipeError:
        # The reader of our output went away (| head). Nothing more can be said; keep Python from trying at exit.
        sys.stdout = None
        return 141
    except Exception as error:
        if debug:
            raise
        if workers.TerminatedError.came:
            import logging

            logging.getLogger(__name__).debug("an error after SIGTERM, taken for the stop", exc_info=error)
            return _terminated()
        what = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"autotelic: internal error: {what}; run again with --debug to see where", file=sys.stderr)
        return 1
    finally:
        workers.stop_all()


def _terminated() -> int:
    print("autotelic: stopped", file=sys.stderr)
    return 143


def command() -> NoReturn:
    """`autotelic` as a process."""
    leave(main())


def leave(code: int) -> NoReturn:
    """Ends the process once all is said. Not by way of taking the interpreter apart: with torch that takes a second,
    and threads of torch's that nobody waits for then can abort a process that has done all its work."""
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except BrokenPipeError:  # as in `main`
        code = 141
    os._exit(code)


def dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(overview())
        return 0
    if arguments[0] == "--version":
        print(f"autotelic {__version__}")
        return 0
    import importlib
    import logging

    from autotelic import registry
    from autotelic.cli.arguments import Parser, add_common

    verb = next((argument for argument in arguments if argument in VERBS), None)
    first = next((argument for argument in arguments if not argument.startswith("-")), None)
    if verb is None or first is None or (first != verb and not _before_verb(arguments, verb)):
        raise UserError(f"no verb '{first or arguments[0]}': {registry.nearest(first or arguments[0], list(VERBS))}")
    arguments.remove(verb)
    try:
        module = importlib.import_module(f"autotelic.cli.{verb}")
        parser = Parser(prog=f"autotelic {verb}", description=VERBS[verb], epilog=getattr(module, "EPILOG", None))
        add_common(parser)
        module.add_arguments(parser)
        parsed = parser.parse_intermixed_args(arguments)
        logging.basicConfig(level=parsed.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
        return module.run(parsed)
    except ModuleNotFoundError as error:
        # Only a whole part that is not there: one that lacks a module of its own is installed, and broken.
        part = error.name or ""
        if part not in registry.EXTRAS:
            raise
        extra = "physics" if part == "torch" and verb in OF_POLICIES else registry.EXTRAS[part]
        raise registry.missing(part, extra, f"autotelic {verb}") from error


def _before_verb(arguments: list[str], verb: str) -> bool:
    """Whether only common options stand before the verb, as in `autotelic --log-level info play`."""
    before = arguments[: arguments.index(verb)]
    while before:
        if before[0] == "--log-level":
            before = before[2:]
        elif before[0].startswith("-"):
            before = before[1:]
        else:
            return False
    return True


if __name__ == "__main__":
    command()
