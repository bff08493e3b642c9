"""The report: one HTML page that needs no other file."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..corpus.store import Corpus
from ..display import how_many
from ..model.predictor import Predictor, predictor_of
from ..progress import Progress, begin
from ..storage.destination import new_file
from . import facts, figures
from .measures import BEST, Measures, measure

if TYPE_CHECKING:
    from markupsafe import Markup

    from ..model.labeler import MomentLabeler

_CARDS = 200
"""Topics that get a card, heaviest first."""
_OPEN_CARDS = 12
_ROWS = 25
"""Rows of the table of labels that are on the page itself, for readers without scripts and for paper."""
_FILES = files("threepass.report")
_SPACE = "\N{NO-BREAK SPACE}"


def write_report(
    model: Predictor | MomentLabeler,
    path: str | Path,
    corpus: Corpus | None = None,
    *,
    overwrite: bool = False,
    texts: Mapping[int, str] | None = None,
    progress: Progress | None = None,
) -> None:
    """Write one self-contained HTML page about a model.

    It shows the corpus, the spectrum, the topics, the guarantee, seconds and memory, and a searchable table
    of labels; with a corpus also accuracy, calibration, and examples. The same model and corpus give the
    same page. It takes at most 3 MB and loads nothing.

    Parameters
    ----------
    model
        A fitted model.
    path
        File to write, as in `report.html`.
    corpus
        Documents with labels, to evaluate the model on; preferably none that it was fitted on.
    overwrite
        Replace an existing file.
    texts
        Original texts of documents of the corpus, by number, to show as examples.
    progress
        See `threepass.progress.Progress`.

    Examples
    --------
    >>> import tempfile
    >>> from threepass import MomentLabeler, ingest_shape
    >>> folder = tempfile.mkdtemp()
    >>> train, test = ingest_shape("bibtex", f"{folder}/bibtex.zarr", scale=0.2).split()
    >>> model = MomentLabeler(n_components=5, head="refined").fit(train)
    >>> write_report(model, f"{folder}/report.html", test)
    """
    with new_file(Path(path), overwrite=overwrite) as unfinished:
        unfinished.write_text(render(predictor_of(model), corpus, texts, progress), encoding="utf-8")


def render(
    model: Predictor,
    corpus: Corpus | None = None,
    texts: Mapping[int, str] | None = None,
    progress: Progress | None = None,
) -> str:
    """HTML of the page; see `write_report`."""
    import jinja2  # imported here, because only reports need it
    from markupsafe import Markup

    measures = None if corpus is None else measure(model, corpus, texts, progress)
    begin(progress, "page")
    script = _FILES.joinpath("script.js").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"clip": facts.clip, "gb": _gigabytes, "how_many": how_many, "seconds": _seconds}
    template = environment.from_string(_FILES.joinpath("page.html").read_text(encoding="utf-8"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        style=Markup(_FILES.joinpath("style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=digest,
        **_about_model(model),
        **_about_labels(model, measures),
        m=measures,
        m_figures={} if measures is None else _measure_figures(measures),
        judged="" if measures is None else facts.judged(measures.scores),
        calibrated_on=facts.calibrated_on(model),
        held_out=facts.held_out(model),
        best=BEST,
    )


def _about_model(model: Predictor) -> dict[str, Any]:
    topics = model.topics(10)
    on_map = topics[: figures.MAP_TOPICS]
    guarantee = model.guarantee()
    stages = facts.stages(model)
    further = facts.further_eigenvalues(model)
    return {
        "n_topics": len(topics),
        "cards": topics[:_CARDS],
        "card_numbers": {topic.number for topic in topics[:_CARDS]},
        "n_open": _OPEN_CARDS,
        "heaviest": topics[0].weight,
        "n_on_map": len(on_map),
        "sureness": figures.sureness,
        "model": model,
        "facts": facts.corpus_facts(model),
        "sizes": facts.size_facts(model),
        "stages": stages,
        "total_seconds": sum(stage.seconds for stage in stages),
        "slowest": max((stage.seconds for stage in stages), default=0.0) or 1.0,
        "peak": max((stage.peak for stage in stages if stage.peak is not None), default=None),
        "guarantee": guarantee,
        "about_guarantee": facts.about_guarantee(model),
        "guarantee_numbers": [
            (name.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else f"{value:,}")
            for name, value in guarantee.as_dict().items()
            if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value)
        ],
        "figures": {
            "spectrum": figures.spectrum(model.moments.eigenvalues, further),
            "tensor": figures.tensor(model.moments.tensor_eigenvalues),
            "map": figures.topic_map(on_map, model.moments.O),
            "labels": figures.label_curve(model.label_counts),
        },
        "n_further": len(further),
        "command": facts.fit_command(model),
        "python": facts.fit_python(model),
        "versions": _versions(),
    }


def _about_labels(model: Predictor, measures: Measures | None) -> dict[str, Any]:
    from markupsafe import Markup

    rows = facts.label_rows(model, measures)
    cards = [topic.number for topic in model.topics(1)[:_CARDS]]
    return {
        "label_rows": rows[:_ROWS],
        "n_label_rows": len(rows),
        "label_data": Markup(facts.embedded({"rows": rows, "cards": cards})),
        "n_labels": len(model.label_names),
    }


def _measure_figures(measures: Measures) -> dict[str, Markup]:
    return {
        "calibration": figures.calibration(measures.scores),
        "bands": figures.frequency_bars(measures.bands),
    }


def _versions() -> str:
    names = ("threepass", "numpy", "scipy", "dask", "zarr")
    found = []
    for name in names:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:  # run from its sources
            continue
    return ", ".join([*found, f"Python {platform.python_version()}"])


def _gigabytes(size: float | None) -> str:
    return "–" if size is None else f"{size / 1e9:.2f}{_SPACE}GB"


def _seconds(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2f}{_SPACE}s" if seconds < 10 else f"{seconds:.1f}{_SPACE}s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}{_SPACE}min {rest}{_SPACE}s"
