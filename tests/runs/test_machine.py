"""What a machine says of itself."""

import platform

import pytest

from autotelic.runs import machine

ONE = "processor\t: {}\ncpu family\t: {}\nmodel\t\t: 2\nmodel name\t: Some CPU\nflags\t\t: fpu\n\n"


@pytest.fixture
def cpu_of(tmp_path, monkeypatch):
    def cpu(text: str | None) -> str:
        monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
        if text is not None:
            (tmp_path / "cpuinfo").write_text(text)
        return machine.cpu()

    return cpu


def test_processors_of_one_name_and_two_families_are_told_apart(cpu_of):
    assert cpu_of(ONE.format(0, 23)) == "Some CPU (family 23, model 2)"
    assert cpu_of(ONE.format(0, 23)) != cpu_of(ONE.format(0, 26))


def test_only_the_first_processor_is_looked_at(cpu_of):
    assert cpu_of(ONE.format(0, 23) + ONE.format(1, 26)) == "Some CPU (family 23, model 2)"


def test_a_processor_with_a_name_alone_is_called_by_it(cpu_of):
    assert cpu_of("processor : 0\nmodel name : Other\n") == "Other"


def test_where_nothing_is_said_the_platform_is_asked(cpu_of):
    assert cpu_of(None) == (platform.processor() or platform.machine())
