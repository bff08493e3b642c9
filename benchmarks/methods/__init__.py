"""The methods that `benchmarks.compare` compares, each run in a process of its own.

Only the standard library is imported here: a peer may need an environment in which threepass cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TOP = 5
"""Labels that every method predicts for a document."""


@dataclass(frozen=True)
class Method:
    """How a method is run, and how it is shown."""

    title: str
    module: Literal["ours", "baseline", "peer"]
    """Which of the modules beside this one runs it."""
    has_k: bool = False
    """Whether it has a number of topics, or a rank."""
    one_k: bool = False
    """Whether it is too slow to be run with more than one."""
    package: str | None = None
    """What has to be importable; None for what is always there."""
    marker: str = "o"
    colour: str = "#000000"

    @property
    def every_k(self) -> bool:
        return self.has_k and not self.one_k


METHODS = {  # colours of Okabe and Ito, which every eye tells apart
    "threepass": Method("threepass", "ours", True, marker="o", colour="#0072B2"),
    "threepass-blend": Method("threepass, blend", "ours", True, marker="o", colour="#7FB8D9"),
    "threepass-paper": Method("threepass, paper's head", "ours", True, marker="s", colour="#56B4E9"),
    "leml": Method("LEML", "baseline", True, marker="D", colour="#D55E00"),
    "leml-logistic": Method("LEML, logistic", "baseline", True, True, marker="d", colour="#E69F00"),
    "leml-hinge": Method("LEML, squared hinge", "baseline", True, True, marker="p", colour="#8F6A00"),
    "wsabie": Method("WSABIE", "baseline", True, marker="^", colour="#CC79A7"),
    "ova": Method("one-vs-all", "baseline", marker="v", colour="#009E73"),
    "omikuji": Method("omikuji (Parabel)", "peer", package="omikuji", marker="P", colour="#000000"),
    "napkinxc": Method("napkinXC (PLT)", "peer", package="napkinxc", marker="X", colour="#7F7F7F"),
    "pecos": Method("PECOS (XR-Linear)", "peer", package="pecos", marker="*", colour="#4B3F72"),
    "libmultilabel": Method(
        "LibMultiLabel (tree)", "peer", package="libmultilabel", marker="h", colour="#A6761D"
    ),
    "fasttext": Method("fastText", "peer", package="fasttext", marker="<", colour="#B2B200"),
}


def phase(name: str) -> None:
    """Tell the process that watches this one what begins now."""
    print("phase", name, flush=True)
