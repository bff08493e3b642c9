"""The estimator: what it takes, what it knows afterwards, and where its warnings point."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import cross_val_score

from tests.conftest import random_matrices
from tests.model.kinds import FITTED, paper_labeler
from threepass import Corpus, InputError, MomentLabeler, Predictor, ingest_matrices, ingest_text
from threepass.model.fitted import _LEARNED
from threepass.model.parameters import NAMES, threads_of
from threepass.moments import method
from threepass.tasks import n_cpus

HEADS = ["posterior", "refined", "ridge", "blend"]
TEXTS = ["the ship sails over the sea", "bread and soup for dinner", "a ship in a storm at sea", "warm bread"]
TAGS = [["sea"], ["food", "home"], ["sea", "weather"], ["food"]]


@pytest.fixture(scope="module")
def heads(planted: Corpus) -> dict[str, MomentLabeler]:
    """A model with each head, of the same corpus."""
    return {head: MomentLabeler(4, head=head, head_dim=10).fit(planted) for head in HEADS}  # type: ignore[arg-type]


def numbers(model: MomentLabeler) -> dict[str, Any]:
    """What a model says of the paper's topics."""
    return {
        **{name: getattr(model, name) for name in FITTED},
        "tensor": model.tensor_eigenvalues_,
        "residual": model.tensor_residual_,
        "bars": asdict(model.error_bars_),
        "guarantee": asdict(model.guarantee()),
        "topics": [asdict(topic) for topic in model.topics(7)],
    }


# -- the paper's topics, whatever the head -------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS[1:])
def test_topics__are_the_papers_whatever_the_head(heads: dict[str, MomentLabeler], head: str) -> None:
    np.testing.assert_equal(numbers(heads[head]), numbers(heads["posterior"]))


@pytest.mark.parametrize("head", HEADS)
def test_topics__are_the_papers_after_saving_and_loading(
    heads: dict[str, MomentLabeler], head: str, tmp_path: Path
) -> None:
    heads[head].save(tmp_path / "m.zarr")
    np.testing.assert_equal(numbers(MomentLabeler.load(tmp_path / "m.zarr")), numbers(heads[head]))


def test_topics__that_the_head_refined_are_others(heads: dict[str, MomentLabeler], planted: Corpus) -> None:
    model = heads["refined"]
    (refined,) = model.predictor_.blend.parts
    assert abs(refined.model.pi - model.topic_weights_).max() > 1e-3  # type: ignore[attr-defined]
    few = planted.head(50)
    np.testing.assert_array_equal(model.transform(few), heads["posterior"].transform(few))


@pytest.mark.parametrize("head", HEADS)
def test_error_bars__stand_beside_the_numbers_they_measure(
    heads: dict[str, MomentLabeler], head: str
) -> None:
    model = heads[head]
    for topic in model.topics(5):
        assert topic.weight == model.topic_weights_[topic.number]
        assert (
            dict(topic.words).items()
            <= dict(zip(model.term_names_, model.word_topics_[:, topic.number].tolist(), strict=True)).items()
        )
        assert topic.word_error == model.error_bars_.words[topic.number]
        assert topic.label_error == model.error_bars_.labels[topic.number]
        assert f"off by about {topic.word_error:.2f} in its words" in str(topic)
    assert model.guarantee().measured_words == pytest.approx(np.median(model.error_bars_.words))


def test_guarantee__delta_is_a_probability(small_model: MomentLabeler) -> None:
    with pytest.raises(InputError, match="delta"):
        small_model.guarantee(delta=0)
    assert small_model.guarantee(0.01).bound_words > small_model.guarantee(0.5).bound_words


# -- learned attributes --------------------------------------------------------------------------------------


def test_learned__there_are_none_before_fit(small_model: MomentLabeler) -> None:
    unfitted = clone(small_model)
    for name in [*_LEARNED, "classes_", "n_features_in_", "predictor_"]:
        assert not hasattr(unfitted, name), name
        assert hasattr(small_model, name), name
    assert set(_LEARNED) <= set(dir(small_model))
    assert not set(_LEARNED) & set(dir(unfitted))
    with pytest.raises(AttributeError, match="'MomentLabeler' object has no attribute 'colour'"):
        _ = small_model.colour


def test_learned__each_is_documented_or_plain() -> None:
    documented = MomentLabeler.__doc__ or ""
    plain = {"statistics_", "label_counts_", "label_names_", "term_names_", "threshold_", "scores_mean_"}
    assert {name for name in _LEARNED if f"{name} :" not in documented} == plain


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_learned__is_copied(small_model: MomentLabeler, copied: Any) -> None:
    X, _ = random_matrices(50, 23, 7)
    small_model.predict_topk(X)
    other = copied(small_model)
    assert other.get_params() == small_model.get_params()
    np.testing.assert_equal(numbers(other), numbers(small_model))
    np.testing.assert_array_equal(other.predict_proba(X), small_model.predict_proba(X))


def test_parameters__are_those_of_the_estimator() -> None:
    assert set(NAMES) == set(inspect.signature(MomentLabeler.__init__).parameters) - {"self"}


def test_labels__keep_their_names(tmp_path: Path) -> None:
    X, Y = random_matrices(60, 23, 3)
    corpus = ingest_matrices(X, Y, tmp_path / "named.zarr", label_names=["art", "war", "zoo"])
    assert paper_labeler(2).fit(corpus).label_names_ == ["art", "war", "zoo"]
    assert paper_labeler(2).fit(X, Y).label_names_ == ["0", "1", "2"]


def test_tail_weight__can_be_set_after_fit(small_model: MomentLabeler) -> None:
    model, (X, _) = copy.deepcopy(small_model), random_matrices(50, 23, 7)
    plain = model.predict_topk(X, k=2)[0]
    rare = model.set_params(tail_weight=1.0).predict_topk(X, k=2)[0]
    assert not np.array_equal(rare, plain)
    ranking = model.predictor_.ranking_blend
    model.predict_topk(X)
    assert model.predictor_.ranking_blend is ranking  # made once
    np.testing.assert_array_equal(model.set_params(tail_weight=0.0).predict_topk(X, k=2)[0], plain)


def test_save__keeps_the_parameters_of_the_fit(small_model: MomentLabeler, tmp_path: Path) -> None:
    model, (X, _) = copy.deepcopy(small_model), random_matrices(50, 23, 7)
    model.set_params(smoothing=0.9, n_components=9, head="ridge", tail_weight=0.5).save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    assert loaded.get_params() == {**small_model.get_params(), "tail_weight": 0.5}
    np.testing.assert_array_equal(loaded.transform(X), small_model.transform(X))


# -- what fit takes ------------------------------------------------------------------------------------------


def test_fit__labels_by_either_name(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    for fitted in (paper_labeler(3).fit(X, y=Y), paper_labeler(3).fit(X, Y=Y)):
        np.testing.assert_array_equal(fitted.label_topics_, small_model.label_topics_)
    with pytest.raises(InputError, match="Found both y and Y"):
        paper_labeler(3).fit(X, Y, Y=Y)


def test_n_jobs__counts_from_all_processors_down() -> None:
    assert threads_of(None) is None
    assert threads_of(-1) is None
    assert threads_of(3) == 3
    assert threads_of(-2) == max(1, n_cpus() - 1)
    assert threads_of(-1000) == 1


def test_n_jobs__of_any_number_is_the_same_fit(small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    for n_jobs in (-1, 1):
        fitted = paper_labeler(3, n_jobs=n_jobs).fit(X, Y)
        np.testing.assert_array_equal(fitted.word_topics_, small_model.word_topics_)


@pytest.mark.parametrize("make", [lambda: 3, np.random.RandomState, np.random.default_rng, lambda: None])
def test_random_state__of_any_kind(make: Any, tmp_path: Path) -> None:
    X, Y = random_matrices(100, 23, 7)
    model = paper_labeler(2, whitening="sketch", random_state=make()).fit(X, Y)
    assert np.isfinite(model.word_topics_).all()
    model.save(tmp_path / "m.zarr")
    np.testing.assert_array_equal(MomentLabeler.load(tmp_path / "m.zarr").transform(X), model.transform(X))


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng])
def test_random_state__a_generators_seed_decides(kind: Any) -> None:
    X, Y = random_matrices(100, 23, 7)
    fits = [paper_labeler(2, whitening="sketch", random_state=kind(seed)).fit(X, Y) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(fits[0].whitening_, fits[1].whitening_)
    assert not np.array_equal(fits[0].whitening_, fits[2].whitening_)


def text_inputs() -> dict[str, tuple[Any, Any]]:
    import pandas

    objects = np.empty(len(TAGS), object)
    objects[:] = TAGS
    return {
        "lists": (TEXTS, TAGS),
        "tuples": (tuple(TEXTS), tuple(map(tuple, TAGS))),
        "sets": (TEXTS, [set(own) for own in TAGS]),
        "arrays": (np.array(TEXTS), objects),
        "object arrays": (np.array(TEXTS, object), objects),
        "series": (pandas.Series(TEXTS), pandas.Series(TAGS)),
        "series of another index": (pandas.Series(TEXTS, [7, 3, 3, 0]), pandas.Series(TAGS, [4, 3, 2, 1])),
    }


@pytest.mark.parametrize("kind", text_inputs())
def test_fit__texts_and_their_tags(kind: str) -> None:
    texts, tags = text_inputs()[kind]
    model = MomentLabeler(2).fit(texts, tags)
    assert sorted(model.label_names_) == ["food", "home", "sea", "weather"]
    assert model.text_ is not None
    assert "ship" in model.term_names_
    by_name = dict(zip(model.label_names_, model.label_counts_.tolist(), strict=True))
    assert by_name == {"food": 2, "home": 1, "sea": 2, "weather": 1}
    best = [model.label_names_[i] for i in model.predict_topk(["a storm at sea", "soup"], k=1)[0][:, 0]]
    assert best[0] in ("sea", "weather")
    assert best[1] in ("food", "home")
    assert not hasattr(model, "feature_names_in_")


def test_fit__empty_and_unlabelled_texts_keep_their_places() -> None:
    with pytest.warns(UserWarning, match="no text, and no words"):
        model = MomentLabeler(2, head="posterior").fit(["", *TEXTS], [["empty"], *TAGS[:3], []])
    assert model.statistics_.n_docs == 5
    assert model.statistics_.n_labelled == 4
    assert "empty" in model.label_names_


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        (TAGS[:3], "4 texts and 3 labels"),
        (["sea", "food", "sea", "food"], "a list of labels each. Found 'sea' for text 0"),
        ([["sea"], ["food"], ["sea"], None], "Found None for text 3"),
        ([["sea"], ["food"], ["sea", 4], []], "are names. Found .* for text 2"),
        (None, "requires y to be passed"),
    ],
)
def test_fit__tags_that_are_none_are_refused(tags: Any, why: str) -> None:
    with pytest.raises(InputError, match=why):
        MomentLabeler(2).fit(TEXTS, tags)


def test_fit__feature_names_of_a_table_are_kept(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    X, Y = random_matrices(60, 4, 3)
    frame = pandas.DataFrame(X, columns=["ape", "bee", "cat", "ärger\n"])
    model = paper_labeler(2).fit(frame, Y)
    model.save(tmp_path / "m.zarr")
    loaded = MomentLabeler.load(tmp_path / "m.zarr")
    np.testing.assert_array_equal(loaded.feature_names_in_, frame.columns)
    np.testing.assert_array_equal(loaded.transform(frame), model.transform(frame))
    with pytest.raises(InputError, match="feature names"):
        loaded.transform(frame[["bee", "ape", "cat", "ärger\n"]])
    paper_labeler(2).fit(X, Y).save(tmp_path / "plain.zarr")
    assert not hasattr(MomentLabeler.load(tmp_path / "plain.zarr"), "feature_names_in_")


def test_fit__feature_names_of_an_earlier_fit_are_forgotten(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    X, Y = random_matrices(60, 4, 3)
    model = paper_labeler(2).fit(pandas.DataFrame(X, columns=["ape", "bee", "cat", "dog"]), Y)
    model.fit(TEXTS, TAGS).save(tmp_path / "m.zarr")
    assert not hasattr(model, "feature_names_in_")
    assert MomentLabeler.load(tmp_path / "m.zarr").term_names_ == model.term_names_


# -- warnings ------------------------------------------------------------------------------------------------


def test_fit__tells_of_a_tensor_that_did_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = method.decompose
    monkeypatch.setattr(
        method, "decompose", lambda *args, **kwargs: replace(plain(*args, **kwargs), converged=False)
    )
    with pytest.warns(ConvergenceWarning, match=r"did not converge.*n_components") as warned:
        model = paper_labeler(2).fit(*random_matrices(60, 23, 7))
    assert warned[0].filename == __file__
    assert model.fit_stats_["tensor_converged"] is False


def test_warnings__point_at_the_users_own_line(tmp_path: Path, small_model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    (tmp_path / "t.csv").write_text("text,tags\nein schiff,see\nein boot,see\n")
    calls = {
        "Only": lambda: paper_labeler(40).fit(X, Y),
        "No document has a label": lambda: paper_labeler(2).fit(X, 0 * Y),
        "trained on": lambda: small_model.evaluate(X, Y),
        "one label only": lambda: ingest_text(tmp_path / "t.csv", tmp_path / "c.zarr"),
        "no text": lambda: MomentLabeler(2).fit(["", *TEXTS], [[], *TAGS]),
        "instead of 90": lambda: cross_val_score(paper_labeler(90), X, Y, cv=2),
    }
    for message, call in calls.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        own = [warning for warning in caught if message in str(warning.message)]
        assert own, message
        for warning in own:
            line = Path(warning.filename).read_text().splitlines()[warning.lineno - 1]
            assert warning.filename == __file__, message
            assert "lambda: " in line, message


def test_warnings__of_a_thread_point_somewhere() -> None:
    from concurrent.futures import ThreadPoolExecutor

    from threepass.warn import warn

    with ThreadPoolExecutor(1) as pool, pytest.warns(UserWarning, match="from a thread"):
        pool.submit(warn, "from a thread").result()


def test_unfitted__has_no_predictor(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        MomentLabeler().topics()
    model = MomentLabeler.of(Predictor.load(_saved(tmp_path)))
    assert model.predict(scipy.sparse.csr_array(np.eye(23)), k=1).shape == (23, 7)


def _saved(folder: Path) -> Path:
    paper_labeler(2).fit(*random_matrices(60, 23, 7)).save(folder / "m.zarr")
    return folder / "m.zarr"
