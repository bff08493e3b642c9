"""What is imported when: by the package next to nothing, and to label texts no more than that takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = "import sys; sys.argv[0] = 'threepass'; from threepass.cli import main; main()"
NOT_TO_LABEL = {
    "dask",
    "distributed",
    "dask_ml",
    "sklearn",
    "pandas",
    "pyarrow",
    "scipy.stats",
    "scipy.sparse",
}
ENCODE = """
import numpy as np
from threepass import Tokenizer
from threepass.corpus.encode import encode
from threepass.corpus.store import Corpus
from threepass.metrics.measures import ranking_sums
from threepass.metrics.scores import Scores
from threepass.tasks import map_tasks, one_blas_thread, ordered_reduce
from threepass.text.terms import TermTable
from threepass.text.words import WordFinder, as_texts
"""
ENCODE_ONE = (
    ENCODE
    + """
tokenizer, table = Tokenizer(), TermTable.of_names(["rain", "spain"])
with one_blas_thread():
    (found,) = map_tasks(WordFinder(tokenizer).find, [[as_texts(["Rain in Spain e\u0301"])]], name="find")
rows = encode(found, table, tokenizer, 2)
assert rows.indices.tolist() == [0, 1], rows
"""
)


def imported(code: str) -> set[str]:
    """Names of all modules that a process has imported once it has run some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


def test_package__imports_nothing_else() -> None:
    ours = {name for name in imported("import threepass") if name.split(".")[0] == "threepass"}
    assert ours == {"threepass"}
    new = imported("import threepass") - imported("import importlib")
    assert {name.split(".")[0] for name in new} <= sys.stdlib_module_names | {"threepass"}


@pytest.mark.parametrize("code", [ENCODE, ENCODE_ONE])
def test_texts__are_encoded_without_dask_and_arrow(code: str) -> None:
    imported(code)  # kernels are compiled, which takes more
    modules = imported(code)
    assert {"numpy", "numba", "zarr"} <= modules
    assert not modules & NOT_TO_LABEL


def test_tasks__dask_comes_with_the_second() -> None:
    two = "from threepass.tasks import map_tasks; assert map_tasks(len, ['a', 'bc'], name='len') == [1, 2]"
    modules = imported(two)
    assert "dask" in modules
    assert not modules & {"distributed", "dask.array", "pandas"}


def test_dask__knows_sparse_blocks_whenever_it_meets_them() -> None:
    """In a worker, where Dask is there first; and in a program that makes arrays of a corpus."""
    size = "from dask.sizeof import sizeof; assert sizeof(rows.to_gcxs()) > 8_000, sizeof(rows.to_gcxs())"
    rows = "rows = SparseRows(np.arange(2), np.zeros(1, np.int32), None, 1).take(np.zeros(1000, int))"
    imports = "import numpy as np; from threepass.corpus.rows import SparseRows"
    imported(f"import dask; {imports}; {rows}; {size}")
    corpus = (
        "import tempfile, threepass; X = rows.to_scipy(); "
        "corpus = threepass.ingest_matrices(X, X, tempfile.mkdtemp() + '/c.zarr')"
    )
    imported(f"{imports}; {rows}; {corpus}; corpus.X; {size}")


def test_package__beside_a_pipeline_of_ones_own(tmp_path: Path) -> None:
    """The folder of the sources is called `pipeline`, as is that of many a project."""
    (tmp_path / "pipeline").mkdir()
    for name in ("pipeline/__init__.py", "pipeline/model.py", "pipeline.py"):
        (tmp_path / name).write_text(f"raise ImportError('{name} is not to be imported')")

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    fit = (
        "import scipy.sparse, threepass; X = scipy.sparse.random_array((60, 20), density=0.3, rng=0); "
        "Y = scipy.sparse.random_array((60, 5), density=0.3, rng=1) > 0; "
        "model = threepass.MomentLabeler(2, head='posterior').fit(X, Y); "
        "print(model.predict_topk(X.tocsr()[:7], 3)[0].shape)"
    )
    assert run("-c", fit) == "(7, 3)\n"
    run("-c", COMMAND, "synth", "bibtex", "c.zarr", "--scale", "0.05", "-q")
    run("-c", COMMAND, "fit", "c.zarr", "m.zarr", "-k", "2", "--head", "posterior", "-q")
    assert run("-c", COMMAND, "predict", "m.zarr", "c.zarr").count("\n") == 244
    with pytest.raises(AssertionError, match="is not to be imported"):
        run("-c", "import pipeline")


def test_one_blas_thread__also_of_a_library_that_is_imported_within() -> None:
    imported(
        """
import threadpoolctl, numpy
from threepass.tasks import one_blas_thread
def threads():
    return [each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"]
threadpoolctl.threadpool_limits(2, user_api="blas")
with one_blas_thread():
    before = threads()
    import scipy.linalg
    with one_blas_thread():
        within = threads()
assert set(before) == set(within) == {1}, (before, within)
assert 2 in threads(), threads()
"""
    )
