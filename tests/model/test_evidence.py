from __future__ import annotations

import copy
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from tests.conftest import random_matrices
from threepass import Corpus, InputError, MomentLabeler, ingest_matrices
from threepass.corpus.convert import as_rows
from threepass.model.evidence import Explanation, Topic, topic_list
from threepass.moments.error_bars import ErrorBars
from threepass.moments.posterior import TopicModel
from threepass.parts.refined import TopicScorer

HEADS = ["posterior", "refined", "ridge", "blend"]
D, L = 23, 7
TEXTS = [
    "The cat sleeps on the mat, and the cat's mouse hides",
    "boil the pasta and add salt",
    "a dog and a cat run in the garden",
    "add garlic and oil to the pan",
    "the dog barks and the cat hides",
    "fry the onion with garlic in hot oil",
    "my cat eats fish while the dog sleeps",
    "stir the soup and add salt and pepper",
    "the horse and the dog sleep in the barn",
    "bake the bread in a hot oven",
    "the cat hunts a mouse in the barn",
    "melt butter in the pan and fry the onion",
    "a fish swims and the cat waits",
    "season the soup with pepper and garlic",
    "the cat and the mouse run in the garden",
    "serve the pasta with oil and pepper",
] * 2
LABELS = [["animals"], ["kitchen", "food"]] * (len(TEXTS) // 2)


@pytest.fixture(scope="module", params=HEADS)
def model(request: pytest.FixtureRequest) -> MomentLabeler:
    """Fitted on counts, with held-out documents to choose and calibrate by."""
    return MomentLabeler(3, head=request.param).fit(*random_matrices(700, D, L))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A corpus of few words with names; its columns are not in the order of the names."""
    vectorizer = CountVectorizer(stop_words=["the", "and", "in", "on"], token_pattern=r"[^\W_]+(?:'[^\W_]+)*")
    X = vectorizer.fit_transform(TEXTS)
    binarizer = MultiLabelBinarizer()
    Y = binarizer.fit_transform(LABELS)
    path = tmp_path_factory.mktemp("texts") / "texts.zarr"
    names = vectorizer.get_feature_names_out().tolist()
    return ingest_matrices(
        X, Y, path, feature_names=names, label_names=binarizer.classes_.tolist(), block_bytes=300
    )


@pytest.fixture(scope="module", params=HEADS)
def text_model(request: pytest.FixtureRequest, texts: Corpus) -> MomentLabeler:
    return MomentLabeler(2, head=request.param).fit(texts)


def raw_score(model: MomentLabeler, row: np.ndarray, label: int) -> float:
    blend = model.predictor_.blend
    seen = blend.see(as_rows(row[None, :], "X"))
    return float(blend.scores(seen, slice(0, 1), slice(label, label + 1))[0, 0])


def topic_models(model: MomentLabeler) -> list[TopicModel]:
    """The topics that labels are scored by, where there are any."""
    return [part.model for part in model.predictor_.blend.parts if isinstance(part, TopicScorer)]


def words_of(explained: Explanation) -> dict[str, float]:
    words = dict(explained.words)
    assert len(words) == len(explained.words)
    return words


def assert_alike(one: Explanation, other: Explanation) -> None:
    """The same but for rounding, which may change the order of words that weigh alike."""
    assert one.label == other.label
    assert one.score == pytest.approx(other.score, rel=1e-4, abs=1e-6)
    assert words_of(one) == pytest.approx(words_of(other), rel=1e-3, abs=1e-5)
    assert dict(t[:2] for t in one.topics) == pytest.approx(dict(t[:2] for t in other.topics), abs=1e-5)


# -- words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 5])
def test_explain__words_are_what_the_score_would_lose(model: MomentLabeler, label: int) -> None:
    X, _ = random_matrices(700, D, L)
    assert X.max() > 1  # how often a word occurs counts for some heads
    for row in X[[1, 2, 4, 70]]:
        explained = model.explain(row, label, n=D)
        whole = raw_score(model, row, label)
        expected = {}
        for word in np.flatnonzero(row):
            without = row.copy()
            without[word] = 0
            expected[model.term_names_[word]] = whole - raw_score(model, without, label)
        assert len(expected) > 2
        assert words_of(explained) == pytest.approx(expected, rel=1e-3, abs=2e-6)
        sizes = [abs(gain) for _, gain in explained.words]
        assert sizes == sorted(sizes, reverse=True)
        assert max(sizes) > 1e-4  # far above rounding
        assert explained.label == model.label_names_[label]
        assert explained.score == pytest.approx(model.predict_proba(row[None, :])[0, label], rel=1e-5)
        assert explained.unknown == []


def test_explain__a_share_is_of_the_topics_that_labels_are_scored_by(model: MomentLabeler) -> None:
    row = random_matrices(700, D, L)[0][4]
    if not topic_models(model):
        assert model.explain(row, 0).topics == []
        return
    (topics,) = topic_models(model)
    P = topics.posterior(as_rows(row[None, :], "X"))[0].astype(np.float64)
    for label in range(L):
        said = P * topics.Q[label]
        explained = model.explain(row, label)
        assert [share for _, _, share in explained.topics] == sorted(said / said.sum(), reverse=True)
        for topic, probability, share in explained.topics:
            assert probability == pytest.approx(P[topic])
            assert share == pytest.approx(said[topic] / said.sum())
        assert sum(share for _, _, share in explained.topics) == pytest.approx(1)
        fewer = model.explain(row, label, n=2)
        assert fewer.topics == explained.topics[:2]
        assert sum(share for _, _, share in fewer.topics) <= 1 + 1e-9


@pytest.mark.parametrize("n", [1, 3, 10**6])
def test_explain__so_many_words(model: MomentLabeler, n: int) -> None:
    row = random_matrices(700, D, L)[0][4]
    explained = model.explain(row, 3, n=n)
    assert explained.words == model.explain(row, 3, n=D).words[:n]
    assert len(explained.words) == min(n, np.count_nonzero(row))
    assert len(explained.topics) == (min(n, 3) if topic_models(model) else 0)


def test_explain__a_document_without_words(model: MomentLabeler) -> None:
    nothing = np.zeros((1, D))
    for document in ("", "  ;\n", nothing, nothing[0], scipy.sparse.csr_array(nothing)):
        explained = model.explain(document, 2)
        assert explained.words == []
        assert explained.unknown == []
        assert explained.score == pytest.approx(model.predict_proba(nothing)[0, 2], rel=1e-6)
        probabilities = {topic: probability for topic, probability, _ in explained.topics}
        for topics in topic_models(model):
            assert probabilities == pytest.approx(
                dict(enumerate(topics.pi ** (1 / topics.temperature))), rel=0.5
            )
            assert sum(probabilities.values()) == pytest.approx(1)


def test_explain__a_label_that_no_topic_knows() -> None:
    X, Y = random_matrices(700, D, L)
    Y[:, 2] = 0
    model = MomentLabeler(3, head="posterior").fit(X, Y)
    assert model.explain(X[4], 2).topics == []
    assert len(model.explain(X[4], 1).topics) == 3


def test_explain__parts_add_up_to_the_raw_score(model: MomentLabeler) -> None:
    row = random_matrices(700, D, L)[0][4]
    for label in (0, 3):
        parts = model.explain(row, label).parts
        assert [name for name, _ in parts] == [part.name for part in model.predictor_.blend.parts]
        assert sum(share for _, share in parts) == pytest.approx(raw_score(model, row, label), rel=1e-5)


def test_explain__does_not_change_the_document(model: MomentLabeler) -> None:
    X = scipy.sparse.csr_array(random_matrices(700, D, L)[0][4:5])
    kept = X.toarray()
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = False
    model.explain(X, 0)
    np.testing.assert_array_equal(X.toarray(), kept)


# -- documents of every kind --------------------------------------------------------------------------------


@pytest.mark.parametrize("label", [0, 1])
def test_explain__text_row_vector_and_corpus_agree(
    text_model: MomentLabeler, texts: Corpus, label: int
) -> None:
    row = np.zeros(texts.n_terms)
    for word in ("cat", "sleeps", "mat", "cat's", "mouse", "hides"):
        row[text_model.term_names_.index(word)] = 1
    explained = text_model.explain(row, label)
    assert len(explained.words) == 6
    for document in (row[None, :], row.tolist(), scipy.sparse.csr_array(row[None, :]), texts.head(1)):
        alike = text_model.explain(document, label)
        assert_alike(alike, explained)
        assert alike.unknown == []
    text = text_model.explain(TEXTS[0], label)
    assert_alike(text, explained)
    assert text.unknown == ["The", "on", "the", "and"]


def test_explain__animals_and_kitchen(text_model: MomentLabeler) -> None:
    cat = text_model.explain("The cat and the soup.", "animals")
    gains = words_of(cat)
    assert gains["cat"] > 0 > gains["soup"] or gains["cat"] > gains["soup"] > 0
    assert cat.unknown == ["The", "and", "the"]
    assert cat.score > text_model.explain("The soup.", "animals").score
    soup = words_of(text_model.explain("The cat and the soup.", "food"))
    assert soup["soup"] > soup["cat"]


def test_explain__text_counts_words_of_any_case(text_model: MomentLabeler) -> None:
    row = np.zeros(text_model.n_features_in_)
    row[text_model.term_names_.index("cat")] = 3
    row[text_model.term_names_.index("soup")] = 1
    text = text_model.explain("Cat-cat: CAT_soup!", "food")
    assert_alike(text, text_model.explain(row, "food"))
    assert text.unknown == []


def test_explain__unknown_words_once_and_in_order(text_model: MomentLabeler) -> None:
    text = text_model.explain("Xylophone cat, zither! Xylophone's zither; 42 xylophone été", 0)
    assert text.unknown == ["Xylophone", "zither", "Xylophone's", "42", "xylophone", "été"]
    assert list(words_of(text)) == ["cat"]


def test_explain__a_name_as_it_is_written_comes_first(texts: Corpus) -> None:
    model = copy.copy(MomentLabeler(2, head="posterior").fit(texts))
    names = ["Cat" if name == "dog" else name for name in model.term_names_]
    model.predictor_ = replace(model.predictor_, term_names=names)
    assert list(words_of(model.explain("Cat", 0))) == ["Cat"]
    assert list(words_of(model.explain("cat", 0))) == ["cat"]
    assert list(words_of(model.explain("CAT", 0))) == ["cat"]


def test_explain__a_document_of_a_corpus_in_many_blocks(text_model: MomentLabeler, texts: Corpus) -> None:
    assert texts.n_blocks > 2
    with pytest.raises(InputError, match=f"Found {texts.n_docs}"):
        text_model.explain(texts, 0)


# -- refusals -----------------------------------------------------------------------------------------------


def test_explain__label_by_name_or_number(text_model: MomentLabeler) -> None:
    assert text_model.label_names_ == ["animals", "food", "kitchen"]
    for number, name in enumerate(text_model.label_names_):
        by_name = text_model.explain("cat soup", name)
        assert by_name.label == name
        assert (
            by_name
            == text_model.explain("cat soup", number)
            == text_model.explain("cat soup", np.int64(number))
        )


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ("animal", r"no label of that name\. Found 'animal'\. Did you mean: animals\?"),
        ("Kitchen", r"Found 'Kitchen'\. Did you mean: kitchen\?"),
        ("", r"Found ''\. See label_names_"),
        ("zzz", r"Found 'zzz'\. See label_names_"),
        (-1, r"no label of that number\. Found -1\. Pass 0 to 2, or a name"),
        (3, r"Found 3\. Pass 0 to 2"),
        (10**9, r"Found 1000000000\. Pass 0 to 2"),
    ],
)
def test_explain__refuses_labels_there_are_not(text_model: MomentLabeler, label: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        text_model.explain("cat", label)


@pytest.mark.parametrize("n", [0, 2, 5])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_explain__refuses_any_number_of_rows_but_one(model: MomentLabeler, kind: Any, n: int) -> None:
    with pytest.raises(InputError, match=rf"One document at a time.*Found {n}\. Pass one row"):
        model.explain(kind(random_matrices(700, D, L)[0][:n]), 0)


def test_explain__refuses_any_number_of_documents_but_one(text_model: MomentLabeler, texts: Corpus) -> None:
    for n in (0, 2):
        with pytest.raises(InputError, match=rf"Found {n}\."):
            text_model.explain(texts.head(n), 0)


@pytest.mark.parametrize("document", [np.ones(D + 1), np.ones((1, D - 1)), ["a text in a list"], 3.0])
def test_explain__refuses_other_columns(model: MomentLabeler, document: Any) -> None:
    with pytest.raises(InputError, match=f"expecting {D} features"):
        model.explain(document, 0)


def test_evidence__unfitted_says_so() -> None:
    with pytest.raises(NotFittedError):
        MomentLabeler().explain("cat", 0)
    with pytest.raises(NotFittedError):
        MomentLabeler().topics()


# -- topics -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 4, 10, D, 10**6])
def test_topics__heaviest_first_with_their_best_words(model: MomentLabeler, n: int) -> None:
    topics = model.topics(n)
    weights = [topic.weight for topic in topics]
    assert weights == sorted(model.topic_weights_.tolist(), reverse=True)
    assert sorted(topic.number for topic in topics) == [0, 1, 2]
    for topic in topics:
        k = topic.number
        assert topic.weight == model.topic_weights_[k]
        shares, overall = model.word_topics_[:, k], model.word_topics_ @ model.topic_weights_
        gains = {
            name: p * math.log(p / q) if p > 0 else 0.0
            for name, p, q in zip(model.term_names_, shares.tolist(), overall.tolist(), strict=True)
        }
        found_gains = [gains[name] for name, _ in topic.words]
        np.testing.assert_allclose(found_gains, sorted(gains.values(), reverse=True)[:n], atol=1e-6)
        labels = model.label_topics_[:, k].tolist()
        assert [p for _, p in topic.labels] == sorted(labels, reverse=True)[:n]
        for found, names, matrix in (
            (topic.words, model.term_names_, model.word_topics_),
            (topic.labels, model.label_names_, model.label_topics_),
        ):
            column = matrix[:, k].tolist()
            assert all(column[names.index(name)] == p for name, p in found)
            assert len({name for name, _ in found}) == min(n, len(names))
        assert topic.word_error == model.error_bars_.words[k]
        assert topic.label_error == model.error_bars_.labels[k]


def test_topics__ten_words_unless_told(model: MomentLabeler) -> None:
    assert {len(topic.words) for topic in model.topics()} == {10}
    assert {len(topic.labels) for topic in model.topics()} == {L}


def test_topics__ties_go_to_the_first() -> None:
    moments = SimpleNamespace(
        O=np.full((3, 2), 1 / 3, np.float32),
        Q=np.array([[0.25, 0.5], [0.75, 0.5]]),
        pi=np.array([0.5, 0.5]),
        error_bars=ErrorBars.unknown(2),
    )
    first, second = topic_list(moments, ["a", "b", "c"], ["x", "y"], 2)  # type: ignore[arg-type]
    assert [first.number, second.number] == [0, 1]
    assert [name for name, _ in first.words] == ["a", "b"]
    assert first.labels == [("y", 0.75), ("x", 0.25)]
    assert second.labels == [("x", 0.5), ("y", 0.5)]
    assert math.isnan(first.word_error)
    assert math.isnan(second.label_error)


@pytest.mark.parametrize("n", [0, -1])
def test_topics__refuses_no_words(model: MomentLabeler, n: int) -> None:
    with pytest.raises(InputError, match=rf"Found {n}\. Pass 1 or more"):
        model.topics(n)


# -- as people read it --------------------------------------------------------------------------------------


def test_str__topic() -> None:
    topic = Topic(4, 0.125, [("cat", 0.5), ("dog", 0.25)], [("animals", 0.9)], 0.25, 0.1)
    assert str(topic) == (
        "topic 4 (12.5%, off by about 0.25 in its words)\n  words:  cat, dog\n  labels: animals"
    )
    unknown = replace(topic, word_error=math.nan, label_error=math.nan)
    assert str(unknown) == "topic 4 (12.5%)\n  words:  cat, dog\n  labels: animals"


def test_str__explanation() -> None:
    explained = Explanation(
        "food",
        0.25,
        [("soup", 0.5), ("cat", -0.125)],
        [("ridge", 0.25), ("memory", -0.5)],
        [(1, 0.75, 0.9)],
        ["zither", "The"],
    )
    assert str(explained) == (
        "food: 0.2500\n"
        "  +0.5000  soup\n"
        "  -0.1250  cat\n"
        "  +0.2500  ridge part\n"
        "  -0.5000  memory part\n"
        "  topic 1: probability 0.75, share 90%\n"
        "not known: zither, The"
    )
    assert str(Explanation("food", 0.25, [], [], [], [])) == "food: 0.2500"


def test_str__of_a_model(text_model: MomentLabeler) -> None:
    lines = str(text_model.explain("The cat and the soup", "animals")).splitlines()
    assert lines[0].startswith("animals: 0.")
    assert lines[-1] == "not known: The, and, the"
    assert {line.split()[-1] for line in lines[1:3]} == {"cat", "soup"}
    text = "\n".join(str(topic) for topic in text_model.topics(5))
    assert text.count("words:") == text.count("labels:") == 2
    assert "cat" in text
    assert "animals" in text
