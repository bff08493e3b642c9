from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest

from tests.command import THREEPASS, check_one_line_error, threepass

GOOD = "3 6 3\n0,2 1:1 3:2\n1 5:1 0:3\n2 4:1\n"


def test_ingest_and_info(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(GOOD)
    (tmp_path / "names").write_text("zero\none\ntwo\n")
    run = threepass(
        "ingest", tmp_path / "train.txt", tmp_path / "d.zarr", "--label-names", tmp_path / "names", "-q"
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert "3 documents x 6 terms, 3 labels" in run.stdout
    run = threepass("info", tmp_path / "d.zarr")
    assert run.returncode == 0
    for part in (
        "5 nonzeros",
        "bits a nonzero",
        "labels on a document: mean 1.33, median 1",
        "labels: zero, two",
    ):
        assert part in run.stdout
    numbers = json.loads(threepass("info", tmp_path / "d.zarr", "--json", "-").stdout)
    assert numbers["documents"] == 3
    assert numbers["words_per_document"]["histogram"] == [["1", 1], ["2-3", 2]]
    assert numbers["sample"]["labels"] == ["zero", "two"]


def test_ingest__json_file_and_svmlight(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("0,2 1:1 3:2\n1 5:1 0:3\n")
    run = threepass(
        "ingest",
        tmp_path / "train.txt",
        tmp_path / "d.zarr",
        "--no-header",
        "--binary",
        "--json",
        tmp_path / "j",
    )
    assert "2 documents" in run.stdout
    numbers = json.loads((tmp_path / "j").read_text())
    assert numbers["values"] == "ones"
    assert numbers["seconds"] > 0


def test_ingest__npz(tmp_path: Path) -> None:
    import scipy.sparse

    scipy.sparse.save_npz(tmp_path / "X.npz", scipy.sparse.eye_array(4))
    run = threepass("ingest", tmp_path / "X.npz", tmp_path / "X.npz", tmp_path / "d.zarr")
    assert "4 documents x 4 terms, 4 labels" in run.stdout


def test_synth(tmp_path: Path) -> None:
    run = threepass("synth", "delicious", tmp_path / "d.zarr", "--scale", "0.1", "--json", "-")
    assert json.loads(run.stdout)["documents"] == 1292


def test_fit_predict_evaluate(tmp_path: Path) -> None:
    corpus, model = tmp_path / "c.zarr", tmp_path / "m.zarr"
    threepass("synth", "delicious", corpus, "--scale", "0.05")
    run = threepass("fit", corpus, model, "-k", "5", "--json", tmp_path / "fit.json")
    assert run.returncode == 0, run.stderr
    assert "5 topics from 646 documents" in run.stdout
    assert "Theorem 1" in run.stdout
    assert "head sharp" in run.stdout
    assert "held-out training documents" in run.stdout
    assert "MB on disk" in run.stdout
    assert json.loads((tmp_path / "fit.json").read_text())["guarantee"]["n_docs"] == 646
    scores = json.loads(threepass("evaluate", model, corpus, "--json", "-").stdout)
    assert 0.5 < scores["auc"] <= 1
    evaluated = threepass("evaluate", model, corpus).stdout
    assert "p@1" in evaluated
    assert "brier" in evaluated
    assert "predicted   observed" in evaluated
    run = threepass("predict", model, corpus, tmp_path / "best.parquet", "--top", "3")
    assert "the 3 best labels of 646 documents" in run.stdout
    check_one_line_error(threepass("fit", corpus, model), "exists already")
    check_one_line_error(threepass("fit", corpus, tmp_path / "n.zarr", "--tensor", "cp"), "orthogonal, power")
    check_one_line_error(threepass("predict", corpus, corpus, tmp_path / "x"), "not a model")
    check_one_line_error(threepass("evaluate", model, model), "not a corpus")


def test_fit__plan_tells_and_does_nothing(tmp_path: Path) -> None:
    corpus, model = tmp_path / "d.zarr", tmp_path / "m.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.2", "-q")
    run = threepass("fit", corpus, model, "-k", "10", "--plan", "--threads", "2", "-q")
    assert (run.returncode, run.stderr) == (0, "")
    for stage in ("pairs", "triples", "labels", "head", "peak"):
        assert re.search(rf"^ *{stage} .*\d\.\d\dGB", run.stdout, re.MULTILINE)
    assert not model.exists()
    numbers = json.loads(threepass("fit", corpus, model, "-k", "10", "--plan", "--json", "-").stdout)
    assert numbers["peak_bytes"] == max(row["bytes"] for row in numbers["stages"])
    assert numbers["seconds"] == sum(row["seconds"] for row in numbers["stages"]) > 0
    run = threepass("fit", corpus, model, "--plan", "--memory-limit", "100MB")
    check_one_line_error(run, "memory_limit=0.10GB", "takes 0.", "Raise memory_limit to 0.")
    run = threepass("fit", corpus, model, "--memory-limit", "100MB")
    check_one_line_error(run, "memory_limit=0.10GB")
    assert not model.exists()


def test_fit__heads(tmp_path: Path) -> None:
    corpus = tmp_path / "c.zarr"
    threepass("synth", "delicious", corpus, "--scale", "0.05")
    options = ["--head", "ridge", "--head-dim", "9", "--weighting", "binary", "-k", "3"]
    options += ["--tail-weight", "0.5", "--memory-limit", "1GB"]
    fit = json.loads(threepass("fit", corpus, tmp_path / "m.zarr", *options, "--json", "-").stdout)
    assert fit["fit"]["head"] == "ridge"
    assert fit["fit"]["head_dim"] == 9
    assert "calibrated" in fit["scores_mean"]
    assert fit["bytes_on_disk"] > 1000
    refined = threepass("fit", corpus, tmp_path / "r.zarr", "--head", "refined", "--refine-passes", "1")
    assert "head refined" in refined.stdout
    wrong = threepass("fit", corpus, tmp_path / "x.zarr", "--head", "best")
    check_one_line_error(wrong, "auto, posterior, refined, ridge, blend")


def test_check(tmp_path: Path) -> None:
    corpus, model = tmp_path / "c.zarr", tmp_path / "m.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.1")
    threepass("fit", corpus, model, "-k", "3")
    run = threepass("check", corpus, "-q")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"{corpus}: a whole corpus: 1 block, 488 documents, 1,836 terms, 159 labels")
    assert run.stdout.count("\n") == 1
    run = threepass("check", model)
    assert run.returncode == 0
    assert f"{model}: a whole model: " in run.stdout
    numbers = json.loads(threepass("check", corpus, "--json", "-").stdout)
    assert (numbers["whole"], numbers["documents"], numbers["damage"]) == (True, 488, [])


def test_check__damage_is_listed_and_exits_1(tmp_path: Path) -> None:
    corpus = tmp_path / "c.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.1")
    for name in ("X/00000/indices/c/0", "term_counts/c/0"):
        (corpus / name).unlink()
    run = threepass("check", corpus, "-q")
    assert (run.returncode, run.stderr) == (1, "")
    first, *damage = run.stdout.splitlines()
    assert "a damaged corpus" in first
    assert "2 things are not as written. Ingest the source again with --overwrite." in first
    assert sorted(line.split(":")[0] for line in damage) == ["  X/00000", "  term_counts"]
    run = threepass("check", corpus, "--json", tmp_path / "check.json")
    assert run.returncode == 1
    assert len(json.loads((tmp_path / "check.json").read_text())["damage"]) == 2
    (corpus / "zarr.json").write_text("{")
    check_one_line_error(threepass("check", corpus), "zarr.json is damaged: it is not JSON")
    check_one_line_error(threepass("check", tmp_path / "nothing"), "There is no corpus or model at")
    check_one_line_error(threepass("info", corpus), "zarr.json is damaged")


def test_errors__one_line_exit_1(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text(GOOD.replace("4:1", "9:1"))
    (tmp_path / "there").mkdir()
    check_one_line_error(threepass("ingest", tmp_path / "bad.txt", tmp_path / "d"), "bad.txt, line 4", "'9'")
    check_one_line_error(threepass("ingest", tmp_path / "no.txt", tmp_path / "d"), "no.txt does not exist")
    check_one_line_error(threepass("ingest", tmp_path / "bad.txt", tmp_path / "there"), "exists already")
    check_one_line_error(threepass("info", tmp_path / "there"), "not a corpus")
    check_one_line_error(threepass("synth", "amazon", tmp_path / "d"), "amazoncat")
    check_one_line_error(
        threepass("ingest", tmp_path / "bad.txt", tmp_path / "d", "--block-size", "big"), "20MB"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.txt", "there"]


def test_usage__exit_2() -> None:
    for words in (
        (),
        ("ingst",),
        ("ingest",),
        ("info", "--nonsense"),
        ("synth", "bibtex", "d", "--threads", "0"),
    ):
        run = threepass(*words)
        assert run.returncode == 2, words
        assert "Traceback" not in run.stderr
    assert "ingest" in threepass("ingst").stderr  # did you mean


def test_help__on_every_command() -> None:
    commands = re.findall(r"^│ (\w+)  ", threepass("--help").stdout.split("Commands")[1], re.MULTILINE)
    assert {"ingest", "synth", "fit", "predict", "evaluate", "info", "check", "report", "demo"} <= set(
        commands
    )
    for command in commands:
        said = threepass(command, "--help").stdout
        assert "Usage: " in said
        assert f"threepass {command}" in said.split("╰")[-1] or "Commands" in said  # an example, or a group


def test_pipe__a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(GOOD)
    threepass("ingest", tmp_path / "train.txt", tmp_path / "d.zarr")
    command = f"set -o pipefail; {THREEPASS[0]} -c '{THREEPASS[2]}' info {tmp_path / 'd.zarr'} | true"
    run = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def _start_long_ingest(folder: Path) -> subprocess.Popen[str]:
    """An ingest that takes long enough to be interrupted: a few hundred thousand documents, one thread."""
    source = folder / "long.txt"
    with source.open("w") as file:
        file.write("400000 1000 10\n")
        line = "1,2 " + " ".join(f"{i}:1" for i in range(0, 1000, 17)) + "\n"
        for _ in range(400):
            file.write(line * 1000)
    process = subprocess.Popen(
        [*THREEPASS, "ingest", str(source), str(folder / "d.zarr"), "--threads", "1"],
        stderr=subprocess.PIPE,
        text=True,
    )
    spool = folder / "d.zarr.partial/spool"
    deadline = time.monotonic() + 60
    while not (spool.is_dir() and any(spool.iterdir())):
        assert process.poll() is None, "the ingest ended before it could be interrupted"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def test_ctrl_c__leaves_nothing(tmp_path: Path) -> None:
    process = _start_long_ingest(tmp_path)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert stderr == "threepass: Interrupted. Nothing was left behind.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["long.txt"]


def test_kill__does_not_open_and_the_same_command_redoes_it(tmp_path: Path) -> None:
    process = _start_long_ingest(tmp_path)
    process.kill()
    process.communicate()
    assert (tmp_path / "d.zarr.partial").exists()
    check_one_line_error(threepass("info", tmp_path / "d.zarr"), "cut short", "same command again")
    # the same, but a store whose mark alone is missing
    shutil.copytree(tmp_path / "d.zarr.partial", tmp_path / "half.zarr")
    check_one_line_error(threepass("info", tmp_path / "half.zarr"), "not a corpus")
    run = threepass("ingest", tmp_path / "long.txt", tmp_path / "d.zarr")
    assert run.returncode == 0, run.stderr
    assert threepass("info", tmp_path / "d.zarr").returncode == 0
    assert not (tmp_path / "d.zarr.partial").exists()


def test_full_disk__on_a_real_small_disk(tmp_path: Path) -> None:
    """Where the machine lets us mount one: a disk of 2 MB fills up during an ingest."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if os.geteuid() != 0 or mount is None:
        pytest.skip("only root can mount a disk")
    if (
        subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)], check=False).returncode
        != 0
    ):
        pytest.skip("this machine does not let us mount a disk")
    try:
        check_one_line_error(
            threepass("synth", "nytimes", disk / "d.zarr", "-q"), "No space left", "Free some space"
        )
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_fit__interrupted_and_run_again(tmp_path: Path) -> None:
    assert threepass("synth", "bibtex", tmp_path / "c.zarr", "--block-size", "100kB", "-q").returncode == 0
    fit = ["fit", str(tmp_path / "c.zarr"), str(tmp_path / "m.zarr"), "-k", "5", "--head-dim", "10"]
    with subprocess.Popen(
        [*THREEPASS, *fit],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        log = tmp_path / "m.zarr.run" / "run.jsonl"
        deadline = time.monotonic() + 60
        while not log.exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        stderr = process.stderr.read()
    assert process.returncode == 130
    assert stderr.splitlines()[-1].startswith("threepass: Interrupted. The same command goes on where it was")
    assert not (tmp_path / "m.zarr").exists()
    run = threepass(*fit, "--run-log", tmp_path / "run.jsonl")
    assert run.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.zarr", "m.zarr", "run.jsonl"]


def test_fit__on_workers(tmp_path: Path) -> None:
    threepass("synth", "bibtex", tmp_path / "c.zarr", "--block-size", "100kB", "-q")
    options = ["-k", "5", "--head", "blend", "--head-dim", "10", "--dashboard-address", "127.0.0.1:0"]
    fit = [*THREEPASS, "fit", str(tmp_path / "c.zarr"), str(tmp_path / "m.zarr"), *options]
    run = subprocess.run(
        [*fit, "--workers", "2", "--worker-memory", "1GB", "--performance-report", str(tmp_path / "p.html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert re.match(r"dashboard: http://127\.0\.0\.1:\d+/status\n", run.stderr)
    assert "5 topics from 4,880 documents" in run.stdout
    assert "pairs" in (tmp_path / "p.html").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.zarr", "m.zarr", "p.html"]


def test_fit__workers_that_cannot_be(tmp_path: Path) -> None:
    threepass("synth", "bibtex", tmp_path / "c.zarr", "-q")
    fit = ["fit", tmp_path / "c.zarr", tmp_path / "m.zarr"]
    check_one_line_error(threepass(*fit, "--performance-report", tmp_path / "p.html"), "neither --workers")
    check_one_line_error(threepass(*fit, "--workers", 1, "--scheduler", "tcp://127.0.0.1:1"), "Give one")
    check_one_line_error(threepass(*fit, "--workers", 1, "--worker-memory", "lots"), "as in 4GB")
    assert [path.name for path in tmp_path.iterdir()] == ["c.zarr"]


def test_version() -> None:
    from importlib.metadata import version

    import threepass as package

    assert package.__version__ == version("threepass")
    assert threepass("--version").stdout == f"threepass {version('threepass')}\n"
    with pytest.raises(AttributeError, match="no attribute '__versions__'"):
        package.__versions__  # noqa: B018


def test_help__no_type_beside_flags() -> None:
    for words in ((), ("fit",), ("ingest",), ("data",), ("data", "fetch")):
        said = threepass(*words, "--help").stdout
        assert "--help" in said
        assert "bool" not in said.lower()


def test_fit__options_by_the_names_that_messages_have(tmp_path: Path) -> None:
    corpus = tmp_path / "c.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.05")
    for i, option in enumerate(("-k", "--topics", "--n-components", "--n_components")):
        run = threepass("fit", corpus, tmp_path / f"{i}.zarr", option, "2", "--head", "posterior", "-q")
        assert run.returncode == 0, run.stderr
        assert "2 topics" in run.stdout
    run = threepass("fit", corpus, tmp_path / "m.zarr", "--memory_limit", "100MB", "--head_dim", "5")
    check_one_line_error(run, "Raise memory_limit")


def test_fit__quiet_prints_the_result_alone_and_warnings(tmp_path: Path) -> None:
    corpus, model = tmp_path / "c.zarr", tmp_path / "m.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.05")
    run = threepass("fit", corpus, model, "-k", "300", "--head", "posterior", "-q")
    assert run.stdout.startswith(f"{model}: ")
    assert run.stdout.count("\n") == 1
    assert run.stderr.startswith("threepass: warning: Only ")
    assert "note:" not in run.stderr


def test_info__of_a_model(tmp_path: Path) -> None:
    corpus, model = tmp_path / "c.zarr", tmp_path / "m.zarr"
    threepass("synth", "bibtex", corpus, "--scale", "0.1")
    threepass("fit", corpus, model, "-k", "3", "--head-dim", "10")
    run = threepass("info", model)
    assert run.returncode == 0, run.stderr
    numbers = json.loads(threepass("info", model, "--json", "-").stdout)
    fingerprint = json.loads(threepass("info", corpus, "--json", "-").stdout)["fingerprint"]
    for part in (
        "a model with the head sharp: 3 topics, 1,836 terms, 159 labels",
        f"scores: {numbers['scores_mean']}",
        f"threshold: {numbers['threshold']:.3f}, of the best micro-F1, {numbers['threshold_micro_f1']:.3f}",
        f"{numbers['held_out_docs']} documents: auc 0.",
        f"learned from 488 documents: kind planted, fingerprint {fingerprint}; fitted in ",
        " MB on disk",
        f"written by threepass {metadata.version('threepass')}, 20",
    ):
        assert part in run.stdout
    assert "written by threepass" in threepass("info", corpus).stdout
    assert (numbers["topics"], numbers["terms"], numbers["labels"]) == (3, 1836, 159)
    assert numbers["corpus"]["fingerprint"] == fingerprint
    assert numbers["parameters"]["n_components"] == 3
    assert numbers["bytes_on_disk"] > 10_000
    assert numbers["fit_seconds"] > 0


def test_plurals__one_of_each(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("1 2 1\n0 0:1 1:1\n")
    said = threepass("ingest", tmp_path / "one.txt", tmp_path / "c.zarr").stdout
    assert "1 document x 2 terms, 1 label, " in said
    said = threepass("info", tmp_path / "c.zarr").stdout
    assert said.startswith("1 document x 2 terms, 1 label\n2 nonzeros")
    said = threepass("check", tmp_path / "c.zarr").stdout
    assert "1 block, 1 document, 2 terms, 1 label, 2 nonzeros" in said
    run = threepass("fit", tmp_path / "c.zarr", tmp_path / "m.zarr", "-k", "2", "--head", "posterior")
    assert ": 1 topic from 1 document in" in run.stdout, run.stderr
    assert "1 documents" not in run.stdout + run.stderr
    assert "1 topics" not in run.stdout + run.stderr
    said = threepass("evaluate", tmp_path / "m.zarr", tmp_path / "c.zarr").stdout
    assert said.startswith("1 document, 0 of them without labels")
    said = threepass("predict", tmp_path / "m.zarr", tmp_path / "c.zarr", tmp_path / "p.jsonl", "--top", "1")
    assert said.stdout == f"{tmp_path / 'p.jsonl'}: the 1 best label of 1 document\n"
