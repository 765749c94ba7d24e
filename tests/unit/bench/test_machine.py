"""Which of its properties describe a machine in the results."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.machine import machine

TWO = """\
processor\t: 0
model\t\t: 85
model name\t: {name}

processor\t: 1
model name\t: {name}
"""


def test_machines_with_other_processors_are_others(tmp_path: Path) -> None:
    said = []
    for number, name in enumerate(("Xeon @ 2.50GHz", "Xeon @ 2.60GHz")):
        file = tmp_path / str(number)
        file.write_text(TWO.format(name=name))
        said.append(machine(file))
        assert f", {name}, Linux " in said[-1]
    assert said[0] != said[1]


@pytest.mark.parametrize("text", ["", "processor\t: 0\nCPU implementer\t: 0x41\n"])
def test_a_kernel_without_a_model_is_no_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert ", ," not in machine(tmp_path / "cpuinfo")
