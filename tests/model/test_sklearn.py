from __future__ import annotations

import warnings

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from dask_ml.wrappers import ParallelPostFit
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import check_estimator

from tests.conftest import random_matrices
from threepass import InputError, MomentLabeler

DEFAULTS = {
    "n_components": 100,
    "whitening": "auto",
    "tensor": "orthogonal",
    "self_pairs": "keep",
    "words": "binary",
    "prior": "eigenvalues",
    "smoothing": None,
    "head": "auto",
    "head_dim": None,
    "weighting": "log",
    "refine_passes": 0,
    "tail_weight": 0.0,
    "memory_limit": None,
    "n_jobs": None,
    "random_state": 0,
}

# scikit-learn asks any estimator with predict_proba for one column for each value of a single target. Here a
# column of Y is a label, which a document has or has not, and predict_proba has one column for each label.
ONE_COLUMN_A_LABEL = "predict_proba gives a column for each column of Y, not for each value of one column"
EXPECTED_FAILURES = {
    "check_estimator_sparse_array": ONE_COLUMN_A_LABEL,
    "check_estimator_sparse_matrix": ONE_COLUMN_A_LABEL,
}


@pytest.fixture(scope="module")
def model() -> MomentLabeler:
    return MomentLabeler(3).fit(*random_matrices(300, 23, 7))


# -- conventions ---------------------------------------------------------------------------------------------


def test_estimator__passes_the_checks_of_scikit_learn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks' data have few documents and few pairs of words
        results = check_estimator(
            MomentLabeler(n_components=2),
            expected_failed_checks=EXPECTED_FAILURES,
            on_fail=None,
            on_skip=None,
        )
    failed = {r["check_name"]: repr(r["exception"]) for r in results if r["status"] == "failed"}
    assert failed == {}
    # a listed failure that no longer fails should leave the list
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == EXPECTED_FAILURES.keys()
    assert sum(r["status"] == "passed" for r in results) > 40


def test_params__get_set_clone() -> None:
    model = MomentLabeler()
    assert DEFAULTS.items() <= model.get_params().items()
    changed = {
        "n_components": 7,
        "whitening": "sketch",
        "tensor": "power",
        "self_pairs": "drop",
        "words": "counts",
        "prior": "uniform",
        "smoothing": 0.5,
        "head": "ridge",
        "head_dim": 40,
        "weighting": "binary",
        "refine_passes": 2,
        "tail_weight": 0.5,
        "memory_limit": "3GB",
        "n_jobs": 2,
        "random_state": 11,
    }
    assert model.set_params(**changed) is model
    assert changed.items() <= model.get_params().items()
    assert clone(model).get_params() == model.get_params()
    with pytest.raises(ValueError, match="colour"):
        model.set_params(colour="red")


def test_clone__forgets_what_was_learned(model: MomentLabeler) -> None:
    with pytest.raises(NotFittedError):
        clone(model).transform(np.ones((1, 23)))
    assert clone(model).get_params() == model.get_params()


def test_init__only_assigns() -> None:
    # Nonsense is refused by fit, so that set_params and clone work on anything.
    assert MomentLabeler(-1, words="nonsense").get_params()["words"] == "nonsense"


@pytest.mark.parametrize(
    "call",
    ["transform", "predict", "predict_proba", "predict_topk", "evaluate", "score", "guarantee", "save"],
)
def test_unfitted__says_so(call: str) -> None:
    X, Y = random_matrices(5, 9, 3)
    arguments = {"evaluate": (X, Y), "score": (X, Y), "guarantee": (), "save": ("nowhere",)}.get(call, (X,))
    with pytest.raises(NotFittedError):
        getattr(MomentLabeler(), call)(*arguments)


def test_tags__say_what_it_takes() -> None:
    tags = get_tags(MomentLabeler())
    assert tags.input_tags.sparse
    assert tags.input_tags.positive_only
    assert not tags.input_tags.allow_nan
    assert tags.target_tags.required
    assert tags.target_tags.multi_output
    assert not tags.target_tags.single_output
    assert tags.transformer_tags is not None
    assert not is_classifier(MomentLabeler())


def test_repr__is_that_of_scikit_learn(model: MomentLabeler) -> None:
    assert isinstance(model, BaseEstimator)
    assert repr(MomentLabeler()) == "MomentLabeler()"
    assert repr(MomentLabeler(5, words="counts")) == "MomentLabeler(n_components=5, words='counts')"
    assert repr(model) == "MomentLabeler(n_components=3)"


def test_fit__returns_itself() -> None:
    model = MomentLabeler(2)
    assert model.fit(*random_matrices(60, 23, 7)) is model


def test_fit_transform__is_fit_then_transform(model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    np.testing.assert_array_equal(MomentLabeler(3).fit_transform(X, Y), model.transform(X))


def test_classes__are_the_columns_of_the_labels(model: MomentLabeler) -> None:
    np.testing.assert_array_equal(model.classes_, np.arange(7))
    assert not hasattr(MomentLabeler(), "classes_")


def test_fit__columns_of_a_data_frame_must_match() -> None:
    pandas = pytest.importorskip("pandas")
    X, Y = random_matrices(60, 4, 3)
    frame = pandas.DataFrame(X, columns=["ape", "bee", "cat", "dog"])
    model = MomentLabeler(2).fit(frame, pandas.DataFrame(Y))
    np.testing.assert_array_equal(model.feature_names_in_, ["ape", "bee", "cat", "dog"])
    plain = MomentLabeler(2).fit(X, Y)
    np.testing.assert_array_equal(model.transform(frame), plain.transform(X))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(frame[["bee", "ape", "cat", "dog"]])


def test_cross_val_score__uses_precision_at_one() -> None:
    X, Y = random_matrices(120, 23, 7)
    halves = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    scores = cross_val_score(MomentLabeler(2), X, Y, cv=halves)
    ref = [MomentLabeler(2).fit(X[a], Y[a]).score(X[b], Y[b]) for a, b in halves]
    np.testing.assert_array_equal(scores, ref)


def test_grid_search__chooses_by_score() -> None:
    X, Y = random_matrices(120, 23, 7)
    halves = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    search = GridSearchCV(MomentLabeler(2), {"n_components": [1, 3]}, cv=halves)
    search.fit(scipy.sparse.csr_array(X), Y)
    assert len(search.best_estimator_.topic_weights_) == search.best_params_["n_components"]
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()


# -- behind a vectorizer -------------------------------------------------------------------------------------

ANIMALS = [
    "the cat sleeps on the warm mat",
    "a dog and a cat run in the garden",
    "the dog barks and the cat hides",
    "my cat eats fish while the dog sleeps",
    "a young dog runs after the cat",
    "the horse and the dog sleep in the barn",
    "a horse eats grass beside the dog",
    "the cat hunts a mouse in the barn",
    "the mouse hides while the cat sleeps",
    "a fish swims and the cat waits",
    "the dog eats and the horse waits in the barn",
    "the cat and the mouse run in the garden",
]
KITCHEN = [
    "boil the pasta and add salt",
    "add garlic and oil to the pan",
    "fry the onion with garlic in hot oil",
    "stir the soup and add salt and pepper",
    "bake the bread in a hot oven",
    "melt butter in the pan and fry the onion",
    "knead flour water and salt for the bread",
    "season the soup with pepper and garlic",
    "serve the pasta with oil and pepper",
    "warm the oven and bake the onion bread",
    "boil water with salt for the soup",
    "spread butter on hot bread",
]
TEXTS = [text for pair in zip(ANIMALS, KITCHEN, strict=True) for text in pair]
LABELS = [["animals"], ["kitchen", "food"]] * len(ANIMALS)


@pytest.fixture(scope="module")
def text_labels() -> tuple[MultiLabelBinarizer, np.ndarray]:
    binarizer = MultiLabelBinarizer(classes=["animals", "food", "kitchen"])
    return binarizer, binarizer.fit_transform(LABELS)


def test_pipeline__labels_texts(text_labels: tuple[MultiLabelBinarizer, np.ndarray]) -> None:
    binarizer, Y = text_labels
    pipeline = make_pipeline(CountVectorizer(stop_words="english"), MomentLabeler(2))
    assert pipeline.fit(TEXTS, Y) is pipeline
    fresh = ["a mouse and a horse in the garden", "salt and garlic soup with bread"]
    X = pipeline[:-1].transform(fresh)
    np.testing.assert_array_equal(pipeline[-1].predict_topk(X, k=1)[0][0], [0])
    assert set(pipeline[-1].predict_topk(X, k=2)[0][1].tolist()) == {1, 2}
    named = binarizer.inverse_transform(pipeline.predict(fresh, k=1))
    assert named[0] == ("animals",)
    assert named[1] in {("food",), ("kitchen",)}
    np.testing.assert_array_equal(pipeline.predict_proba(fresh), pipeline[-1].predict_proba(X))
    assert pipeline.transform(fresh).shape == (2, 2)
    assert pipeline.score(TEXTS, Y) == 1
    assert pipeline[-1].n_features_in_ == len(pipeline[0].vocabulary_)


def test_pipeline__sparse_labels_and_unknown_words(
    text_labels: tuple[MultiLabelBinarizer, np.ndarray],
) -> None:
    Y = scipy.sparse.csr_matrix(text_labels[1])
    pipeline = make_pipeline(CountVectorizer(stop_words="english"), MomentLabeler(2)).fit(TEXTS, Y)
    nothing_known = pipeline.transform(["xylophone quartet"])
    np.testing.assert_allclose(nothing_known, [pipeline[-1].topic_weights_], rtol=1e-5)


def test_pipeline__clones(text_labels: tuple[MultiLabelBinarizer, np.ndarray]) -> None:
    pipeline = make_pipeline(CountVectorizer(), MomentLabeler(2)).fit(TEXTS, text_labels[1])
    again = clone(pipeline).set_params(momentlabeler__words="counts")
    assert again[-1].words == "counts"
    with pytest.raises(NotFittedError):
        again.predict(TEXTS)


def test_pipeline__lists_of_names_are_no_labels() -> None:
    with pytest.raises(InputError, match=r"(?i)label"):
        MomentLabeler(2).fit(CountVectorizer().fit_transform(TEXTS), np.array([ls[0] for ls in LABELS]))


# -- on Dask arrays, by dask-ml ------------------------------------------------------------------------------


def as_dask(X: np.ndarray, kind: str) -> da.Array:
    array = da.from_array(X, chunks=(64, 9 if kind == "cut across" else -1))
    if kind == "csr":
        return array.map_blocks(scipy.sparse.csr_array, meta=scipy.sparse.csr_array((0, 0)))
    return array


@pytest.mark.parametrize("fit_on", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("kind", ["dense", "cut across", "csr"])
def test_parallel_post_fit__equals_the_model(kind: str, fit_on: type, model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    wrapped = ParallelPostFit(MomentLabeler(3)).fit(fit_on(X), fit_on(Y))
    for method in ("transform", "predict_proba", "predict"):
        lazy = getattr(wrapped, method)(as_dask(X, kind))
        assert isinstance(lazy, da.Array)
        computed, direct = lazy.compute(scheduler="threads"), getattr(model, method)(X)
        if method == "predict":
            computed, direct = computed.toarray(), direct.toarray()
        np.testing.assert_allclose(computed, direct, rtol=1e-5, atol=1e-6)


def test_parallel_post_fit__scores(model: MomentLabeler) -> None:
    X, Y = random_matrices(300, 23, 7)
    wrapped = ParallelPostFit(MomentLabeler(3)).fit(X, Y)
    assert wrapped.score(as_dask(X, "dense"), as_dask(Y, "dense")) == model.score(X, Y)
    np.testing.assert_array_equal(wrapped.transform(X), model.transform(X))
