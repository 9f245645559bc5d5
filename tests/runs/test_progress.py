import io

from rich.console import Console

from autotelic.runs.progress import Display, duration


def shown(terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=120, soft_wrap=True)
    with Display("play", 4, results="runs/[x]", console=console, plain_seconds=0) as display:
        for step in range(1, 5):
            display.update(step, {"solved": 0.5})
    return stream.getvalue()


def test_without_a_terminal_lines_say_rate_time_left_and_where_results_go():
    lines = shown(terminal=False).splitlines()
    assert lines[0] == "play: results go to runs/[x]"
    assert lines[1].startswith("play: 1/4 steps")
    assert "steps/s" in lines[1]
    assert "left" in lines[1]
    assert "solved 0.5" in lines[1]
    assert "\x1b" not in "".join(lines)


def test_a_terminal_gets_a_live_bar():
    assert "4/4" in shown(terminal=True)


def test_the_bar_shows_the_time_to_the_nearer_bound():
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120)
    with Display("play", 1_000_000_000, minutes=1.0, console=console) as display:
        display.update(1)
    assert "1:00 left" in stream.getvalue()


def test_time_left_follows_the_nearer_bound():
    display = Display("play", 1_000_000, minutes=1.0, console=Console(file=io.StringIO()))
    display.update(1)
    left = display.left()
    assert left is not None
    assert left <= 60


def test_durations_read_like_clocks():
    assert [duration(seconds) for seconds in (7, 750, 11100)] == ["0:07", "12:30", "3:05:00"]
