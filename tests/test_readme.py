"""What the README says must be true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
def test_readme__python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "README.md", "exec"), {})
    assert "ocuments" in capsys.readouterr().out


def test_readme__ci_finds_its_line() -> None:
    lines = [line for line in README.splitlines() if re.fullmatch(r"python3 -m venv .*pytest", line)]
    assert len(lines) == 1
