"""What the README says must be true: its commands and its Python run, one after the other, in one folder."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import threepass

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PYTHON_BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    for line in block.splitlines()
    if not line.startswith("python3 -m venv")  # the way to here; what the demo does has tests of its own
]
TOPICS = {
    "weather": ["rain", "storm", "wind", "cloud", "coast", "sun", "snow", "cold", "warm", "forecast"],
    "sport": ["match", "goal", "team", "player", "coach", "league", "season", "win", "cup", "score"],
    "food": ["bread", "soup", "salt", "pepper", "oven", "butter", "recipe", "taste", "kitchen", "dish"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the README speaks of."""
    folder = tmp_path_factory.mktemp("readme")
    rng = random.Random(0)

    def post() -> dict[str, object]:
        topics = rng.sample(sorted(TOPICS), rng.choice([1, 1, 2]))
        words = [rng.choice(TOPICS[rng.choice(topics)]) for _ in range(15)]
        return {"title": " ".join(words[:3]), "body": " ".join(words[3:]), "tags": [*topics, "news"]}

    for name, n in (("posts", 400), ("test", 100), ("new", 10)):
        lines = [json.dumps(post()) for _ in range(n)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    words = [" ".join(f"{i}:1" for i in rng.sample(range(40), 8)) for _ in range(500)]
    lines = [f"{rng.randrange(3)} {row}" for row in words]
    (folder / "train.txt").write_text("\n".join(["500 40 3", *lines]) + "\n")
    (folder / "labels.txt").write_text("one\ntwo\nthree\n")
    return folder


@pytest.fixture(scope="module")
def ran(folder: Path) -> dict[str, subprocess.CompletedProcess[str]]:
    """Every command, run in the README's order in that folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        return {command: run(command) for command in COMMANDS}


def run(command: str) -> subprocess.CompletedProcess[str]:
    """In this process, but for what a shell is needed for."""
    name, *words = shlex.split(command, comments=True)
    if name == "threepass" and not {"|", ">", "<", "&&"} & set(words):
        return threepass(*words)
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, shell=True, env=environment, capture_output=True, text=True, check=False)


def test_readme__commands_run_in_their_order(ran: dict[str, subprocess.CompletedProcess[str]]) -> None:
    for command, done in ran.items():
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.strip(), command
        assert "Traceback" not in done.stderr, command


@pytest.mark.parametrize("block", PYTHON_BLOCKS, ids=range(len(PYTHON_BLOCKS)))
@pytest.mark.usefixtures("ran")
def test_readme__python_blocks_run(
    block: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    exec(compile(block, "README.md", "exec"), {})
    assert "ocuments" in capsys.readouterr().out


@pytest.mark.usefixtures("ran")
def test_readme__labels_of_new_posts_are_right(folder: Path) -> None:
    posts = [json.loads(line) for line in (folder / "new.jsonl").read_text().splitlines()]
    found = [json.loads(line) for line in (folder / "labels.jsonl").read_text().splitlines()]
    right = sum(row["labels"][0] in post["tags"] for post, row in zip(posts, found, strict=True))
    assert right >= 9


def test_readme__has_commands_and_python() -> None:
    assert len(COMMANDS) >= 15
    assert len(PYTHON_BLOCKS) >= 2


def test_readme__ci_finds_its_line() -> None:
    lines = [line for line in README.splitlines() if re.fullmatch(r"python3 -m venv .*pytest", line)]
    assert len(lines) == 1


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_readme__links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()
