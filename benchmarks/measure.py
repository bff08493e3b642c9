"""What every benchmark needs: the machine, peak memory of a process tree, files out of the page cache."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    model = platform.processor()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [
            line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": len(psutil.Process().cpu_affinity()),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "python": platform.python_version(),
    }


def run_measured(code: str, *arguments: object) -> dict[str, Any]:
    """Run Python code in a process of its own, and watch the memory of it and its children.

    The code prints one JSON object on its last line; `peak_mb` and `seconds` of the process are added.
    """
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    peak = 0
    tree = psutil.Process(process.pid)
    while process.poll() is None:
        try:
            members = [tree, *tree.children(recursive=True)]
            peak = max(peak, sum(member.memory_info().rss for member in members))
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.02)
    output = process.stdout.read() if process.stdout else ""
    if process.returncode:
        raise RuntimeError(f"the measured process failed with code {process.returncode}")
    result: dict[str, Any] = json.loads(output.strip().splitlines()[-1])
    return {**result, "peak_mb": round(peak / 1e6, 1), "process_seconds": time.perf_counter() - started}


def forget(paths: Iterable[Path]) -> None:
    """Drop files from the page cache, so that the next read comes from the disk."""
    for path in paths:
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
