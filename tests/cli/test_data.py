from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.command import THREEPASS, check_one_line_error, threepass
from tests.ingest.test_fetch import BY_HAND, COUNTS, TEST, TRAIN, manifest, online
from tests.web import serve
from threepass.ingest.fetch import DATA_VARIABLE


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)


def test_data_list(tmp_path: Path) -> None:
    (tmp_path / "delicious").mkdir()
    for split in ("train", "test"):
        (tmp_path / "delicious" / f"{split}.txt").write_bytes(TRAIN)
    run = threepass("data", "list", "--from", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    lines = {line.split()[0]: line for line in run.stdout.splitlines()}
    assert "4,880 + 2,515 documents" in lines["bibtex"]
    assert " download " in lines["bibtex"]
    assert " local " in lines["delicious"]
    assert " manual " in lines["wikilshtc-325k"]
    assert lines["yso-finna-en"].endswith("CC0")
    assert len({line.index(" documents") for line in lines.values()}) == 1


def test_data_list__json() -> None:
    found = json.loads(threepass("data", "list", "--json", "-").stdout)["datasets"]
    bibtex = next(one for one in found if one["name"] == "bibtex")
    assert bibtex["where"] == "download"
    assert bibtex["propensity"] == {"A": 0.55, "B": 1.5}
    assert bibtex["counts"]["mean_features"] == 68.67


def test_data_list__folder_that_is_not() -> None:
    check_one_line_error(
        threepass("data", "list", "--from", "/no/such"), "/no/such is not a folder", "--from"
    )


def test_data_fetch__download_tells_the_hash_that_is_not_pinned(tmp_path: Path) -> None:
    with serve({"train.txt": TRAIN, "test.txt.gz": TEST}) as web:
        path = manifest(tmp_path, online(web))
        run = threepass("data", "fetch", path, "--dest", tmp_path / "out", "--cache", tmp_path / "kept")
    assert (run.returncode, run.stderr) == (0, "")
    assert "tiny-train.zarr: 3 documents x 6 terms, 3 labels\n" in run.stdout
    assert "which the manifest does not state" in run.stdout
    assert "A = 0.5, B = 0.4" in run.stdout
    assert "all 8 counts are as the manifest states" in run.stdout


def test_data_fetch__counts_that_differ(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_bytes(TRAIN)
    (tmp_path / "test.txt").write_bytes(TEST)
    path = manifest(tmp_path, BY_HAND, manual="Ask.", labels=4, mean_features=9.5)
    run = threepass("data", "fetch", path, "--from", tmp_path, "--dest", tmp_path, "--json", "-")
    assert run.returncode == 1
    assert run.stderr.splitlines()[1:] == [
        "  labels: expected 4, found 3",
        "  mean features: expected 9.5, found 1.5",
    ]
    numbers = json.loads(run.stdout)
    assert numbers["counts"] == COUNTS
    assert numbers["differences"][0] == {"what": "labels", "expected": 4, "found": 3}
    assert threepass("info", tmp_path / "tiny-train.zarr").returncode == 0


def test_data_fetch__errors_are_one_line(tmp_path: Path) -> None:
    check_one_line_error(threepass("data", "fetch", "bibtx"), "Did you mean 'bibtex'?")
    run = threepass("data", "fetch", "wikilshtc-325k", "--dest", tmp_path)
    check_one_line_error(run, "wikiLSHTC_train.txt", "Home page: http://manikvarma.org", "--from")
    with serve({"train.txt": TRAIN}) as web:
        path = manifest(tmp_path, online(web, train={"sha256": "0" * 64}))
        run = threepass("data", "fetch", path, "--dest", tmp_path, "--cache", tmp_path / "kept")
    check_one_line_error(run, "is not the file that the manifest describes")
    assert not list(tmp_path.glob("*.zarr"))


def test_data_fetch__interrupted__goes_on(tmp_path: Path) -> None:
    train = b"30000 6 3\n" + b"0,2 1:1 3:2\n" * 30000
    with serve({"train.txt": train, "test.txt.gz": TEST}) as web:
        path = manifest(tmp_path, online(web), train_documents=30000, mean_features=2.0, median_features=2)
        words = ["data", "fetch", path, "--dest", str(tmp_path), "--cache", str(tmp_path / "kept")]
        web.cut_after, web.stalled = [200_000], threading.Event()
        part = tmp_path / "kept" / "tiny" / "train.txt.part"
        try:
            run = subprocess.Popen([*THREEPASS, *words], stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 60
            while not (part.exists() and part.stat().st_size) and time.monotonic() < deadline:
                time.sleep(0.02)
            run.send_signal(signal.SIGINT)
            _, stderr = run.communicate(timeout=30)
        finally:
            web.stalled.set()
        assert run.returncode == 130
        assert stderr.splitlines()[-1].startswith("threepass: Interrupted. What was downloaded is kept")
        arrived = part.stat().st_size
        assert 0 < arrived <= 200_000
        assert not list(tmp_path.glob("*.zarr"))
        threepass(*words)
        assert web.asked[1]["Range"] == f"bytes={arrived}-"
    assert (tmp_path / "kept" / "tiny" / "train.txt").read_bytes() == train


def test_data__no_command_is_help() -> None:
    run = threepass("data")
    assert run.returncode == 2
    assert "fetch" in run.stdout + run.stderr
