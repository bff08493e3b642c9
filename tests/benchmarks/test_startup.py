"""What a start takes, beside another; and benchmarks by their names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as by_name
from benchmarks import startup
from benchmarks.startup import Start

SHORT, LONG = (
    (sys.executable, "-S", "-c", "pass"),
    (sys.executable, "-S", "-c", "import time; time.sleep(0.3)"),
)


def test_launch__seconds_and_memory_of_the_process_alone() -> None:
    code = "import sys, time; assert sys.stdin.read() == {!r}; x = bytearray(60_000_000); time.sleep(0.2)"
    run = startup.launch([sys.executable, "-c", code.format(startup.TEXT)])
    assert 0.2 < run["seconds"] < 20
    assert 60 < run["peak_mb"] < 90
    assert startup.launch(SHORT)["peak_mb"] < 20
    with pytest.raises(RuntimeError, match="failed:\nno such thing"):
        startup.launch([sys.executable, "-c", "import sys; sys.exit('no such thing')"])


def test_measure__ratios_stand_beside_their_bars() -> None:
    starts = [
        Start("quick", SHORT, "slow", LONG, 0.5),
        Start("slow", LONG, "quick", SHORT, 1.5, 0.01),
        Start("alone", SHORT),
    ]
    quick, slow, alone = startup.measure(starts, 2)
    assert quick["seconds"] == slow["beside_seconds"] == alone["seconds"]
    assert quick["holds"]
    assert not slow["holds"]
    assert slow["ratio"] == pytest.approx(slow["seconds"] / slow["beside_seconds"], rel=0.01)
    assert "ratio" not in alone
    _, _, *lines = startup.table([quick, slow, alone]).splitlines()
    assert lines[0].endswith("| 0.5 x |")
    assert lines[1].endswith("| 1.5 x + 10 ms (missed) |")
    assert lines[2].endswith("|  |  |  |  |  |")


def test_starts__a_model_and_another_version_where_they_are_given() -> None:
    assert [start.what for start in startup.starts(None, None, None)] == [
        "threepass --help",
        "threepass fit --help",
        "import threepass",
    ]
    alone = startup.starts(Path("m.zarr"), None, None)[-1]
    assert alone.command[1:] == ("predict", "m.zarr", "-")
    assert (alone.reference, alone.bar) == ((), "")
    other = startup.starts(Path("m.zarr"), "/old/threepass", Path("old.zarr"))[-1]
    assert other.reference == ("/old/threepass", "predict", "old.zarr", "-")
    assert other.bar == "0.333 x"


def test_by_name__runs_what_can_be_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert {"startup", "latency", "scale"} <= set(by_name.names())
    assert not {"measure", "tables", "__main__"} & set(by_name.names())
    monkeypatch.setattr(sys, "argv", ["benchmarks", "startup", "--help"])
    with pytest.raises(SystemExit) as end:
        by_name.main()
    assert not end.value.code
    assert "--before-model" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["benchmarks", "strtup"])
    with pytest.raises(SystemExit, match=r"NAME is one of .*startup"):
        by_name.main()
