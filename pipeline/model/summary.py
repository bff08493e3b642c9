"""What a fitted model shows of itself in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.display import html_table

if TYPE_CHECKING:
    from pipeline.model.labeler import MomentLabeler


def fitted_table(model: MomentLabeler) -> str:
    """HTML: what was learned, and how well it did on held-out training documents."""
    stats = model.fit_stats_
    rows = [
        ("topics", f"{len(model.topic_weights_):,}"),
        ("terms", f"{len(model.word_topics_):,}"),
        ("labels", f"{len(model.label_topics_):,}"),
        ("training documents", f"{model.statistics_.n_docs:,}"),
        ("head", model.head_.kind),
        ("scores mean", model.scores_mean_),
        ("reads of the corpus", f"{model.n_passes_:,}"),
        ("seconds", f"{sum(stats['seconds'].values()):.1f}"),
        *((f"{name}, held out", f"{value:.4f}") for name, value in stats.get("held_out", {}).items()),
    ]
    return html_table("Fitted", rows)
