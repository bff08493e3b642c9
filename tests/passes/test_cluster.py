"""Workers that are lost, that hang or that are too few: the fit goes on and its model stays the same."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

from tests.passes.conftest import assert_identical, every_pass
from tests.passes.test_checkpoints import assert_same
from threepass import Corpus, InputError, MomentLabeler, StoreError, ThreepassError, ingest_planted
from threepass.ingest.synthetic import Lengths, Planted
from threepass.passes.checkpoints import RunDirectory
from threepass.passes.cluster import workers as cluster
from threepass.passes.cluster.executor import Cluster
from threepass.passes.cluster.tasks import Patience, cluster_results, news_to
from threepass.passes.executors import Executor, Threads
from threepass.passes.runner import Runner

PLANTED = Planted(6000, 300, 12, 4, words=Lengths(20, 16), labels=Lengths(2, 2), distinct=False, seed=3)
PASSES = ("pairs", "triples", "labels")
METHOD = "distributed.worker.multiprocessing-method"
USUAL = Patience()


def labeler(**parameters: Any) -> MomentLabeler:
    return MomentLabeler(4, **{"head": "blend", "head_dim": 20, "whitening": "sketch", **parameters})


@pytest.fixture(scope="module", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Fork workers from a process that has imported everything, as Dask's own tests do; it saves seconds."""
    from distributed.utils import get_mp_context

    with dask.config.set({METHOD: "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", "threepass.model.labeler", "pytest"])
        yield


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster") / "c.zarr"


@pytest.fixture(scope="module")
def corpus(root: Path) -> Corpus:
    return ingest_planted(PLANTED, root, block_bytes=100_000)


@pytest.fixture(scope="module")
def undisturbed(corpus: Corpus) -> MomentLabeler:
    return labeler().fit(corpus)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two workers for all tests; whatever a test does to them, Dask restarts them."""
    patience = Patience(silent_worker=1)  # Dask makes it 5, and looks every second
    where = cluster.Workers(2, memory="1GB", dashboard="127.0.0.1:0", patience=patience)
    with cluster.connected(where) as client:
        yield client


@pytest.fixture(scope="module")
def lonely() -> Iterator[Any]:
    """A cluster with a single worker."""
    with cluster.connected(cluster.Workers(1, dashboard="127.0.0.1:0")) as client:
        yield client


@pytest.fixture
def one_loss(client: Any, lonely: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask itself gives a task up at the first worker that it loses, instead of the fourth."""
    for each in (client, lonely):
        monkeypatch.setattr(each.cluster.scheduler, "allowed_failures", 0)


@contextmanager
def in_threads(n_workers: int) -> Iterator[Any]:
    """A cluster whose workers are threads of this process."""
    from distributed import Client, LocalCluster

    where = {"dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=n_workers, processes=False, **where) as inside, Client(inside) as client:
        yield client


def pids(client: Any) -> list[int]:
    return [nanny.pid for nanny in client.cluster.workers.values()]


def when(disturb: Callable[[], None], moments: dict[str, float]) -> Callable[[str, float, float], None]:
    """Does something once in each of some passes, when such a share of it is done."""
    left = dict(moments)

    def progress(stage: str, done: float, total: float) -> None:
        if stage in left and done >= left[stage] * total:
            del left[stage]
            threading.Thread(target=disturb).start()

    progress.left = left  # type: ignore[attr-defined]
    return progress


def test_workers__the_same_model(corpus: Corpus, client: Any) -> None:
    """With classifiers that are solved on workers, too."""
    steps: list[tuple[str, float, float]] = []
    sharp = labeler(head="sharp")
    model = sharp.fit(corpus, client=client, progress=lambda *step: steps.append(step))
    assert_same(model, labeler(head="sharp").fit(corpus))
    assert model.fit_stats_["run"]["segments_reused"] == 0
    for name in PASSES:
        of_pass = [step for step in steps if step[0] == name]
        assert of_pass[0] == (name, 0, corpus.n_docs)
        assert of_pass[-1] == (name, corpus.n_docs, corpus.n_docs)
        assert len({step[1] for step in of_pass}) > 3  # block by block, not all at the end


def test_workers__tasks_are_named_by_their_pass(corpus: Corpus, client: Any) -> None:
    """This is what the dashboard shows."""
    names: set[str] = set()

    def progress(*_: Any) -> None:
        names.update(client.cluster.scheduler.task_prefixes)

    labeler().fit(corpus, client=client, progress=progress)
    assert set(PASSES) <= names


@pytest.mark.parametrize("moment", [0.0, 0.6])
def test_workers__killed_in_each_pass(
    corpus: Corpus, undisturbed: MomentLabeler, client: Any, moment: float
) -> None:
    progress = when(lambda: os.kill(pids(client)[0], signal.SIGKILL), dict.fromkeys(PASSES, moment))
    model = labeler().fit(corpus, client=client, progress=progress)
    assert not progress.left  # type: ignore[attr-defined]
    assert_same(model, undisturbed)


def warn() -> None:
    logging.getLogger("distributed.worker.state_machine").warning("a task was cancelled")


def test_workers__warnings_of_dask_are_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    where = cluster.Workers(1, dashboard="127.0.0.1:0")
    with dask.config.set({METHOD: "spawn"}), cluster.connected(where) as client:  # as users have it
        client.run(warn)
    assert capfd.readouterr().err == ""


def test_workers__one_that_is_stopped(corpus: Corpus, undisturbed: MomentLabeler, client: Any) -> None:
    progress = when(lambda: os.kill(pids(client)[1], signal.SIGSTOP), {"triples": 0.3})
    assert_same(labeler().fit(corpus, client=client, progress=progress), undisturbed)


def test_workers__the_only_one_killed_in_each_pass(
    corpus: Corpus, undisturbed: MomentLabeler, lonely: Any
) -> None:
    progress = when(lambda: os.kill(pids(lonely)[0], signal.SIGKILL), dict.fromkeys(PASSES, 0.4))
    model = labeler().fit(corpus, client=lonely, progress=progress)
    assert not progress.left  # type: ignore[attr-defined]
    assert_same(model, undisturbed)


@pytest.mark.exhaustive
def test_workers__gone_with_who_would_restart_them(
    corpus: Corpus, undisturbed: MomentLabeler, lonely: Any
) -> None:
    """A fit, with the patience that users have; for tasks alone see below."""
    (nanny,) = lonely.cluster.workers.values()
    progress = when(lambda: lonely.sync(nanny.close, timeout=1), {"triples": 0.3})
    assert_same(labeler().fit(corpus, client=lonely, progress=progress), undisturbed)
    assert nanny not in lonely.cluster.workers.values()


def run_tasks(
    client: Any,
    function: Any,
    items: list[int],
    patience: Patience = USUAL,
    on_news: Callable[[int, int], None] = lambda *_: None,
) -> dict[int, Any]:
    options: dict[str, Any] = {"on_news": on_news, "patience": patience}
    return dict(cluster_results(client, function, {item: item for item in items}, name="some", **options))


def wait_a_little(item: int, topic: str) -> int:
    tell, _ = news_to(topic)
    tell(item, 0)
    time.sleep(0.2)
    return item


def test_tasks__workers_gone_with_who_would_restart_them(lonely: Any) -> None:
    (nanny,) = lonely.cluster.workers.values()
    closing = threading.Thread(target=lambda: lonely.sync(nanny.close, timeout=1))

    def on_news(number: int, _: int) -> None:
        if number == 1 and not closing.ident:
            closing.start()

    patience = Patience(revival=0.5, no_workers=20)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}):  # then Dask forgets the lost one
        assert run_tasks(lonely, wait_a_little, [0, 1, 2, 3], patience, on_news) == {0: 0, 1: 1, 2: 2, 3: 3}
    closing.join()
    assert nanny not in lonely.cluster.workers.values()


class EndWorker:
    """A task that ends its worker each time, or only so many times."""

    def __init__(self, folder: str, times: int) -> None:
        self.folder, self.times = folder, times

    def __call__(self, item: int, topic: str) -> int:
        del topic
        marks = list(Path(self.folder).iterdir())
        if item == 1 and len(marks) < self.times:
            (Path(self.folder) / str(len(marks))).touch()
            os._exit(1)
        return item


@pytest.mark.usefixtures("one_loss")
def test_tasks__more_losses_than_dask_allows(lonely: Any, tmp_path: Path) -> None:
    assert run_tasks(lonely, EndWorker(str(tmp_path), 2), [0, 1]) == {0: 0, 1: 1}
    assert len(list(tmp_path.iterdir())) == 2  # Dask gives up after the first


@pytest.mark.exhaustive
def test_tasks__more_losses_than_dask_allows_by_default(lonely: Any, tmp_path: Path) -> None:
    assert run_tasks(lonely, EndWorker(str(tmp_path), 5), [0, 1]) == {0: 0, 1: 1}
    assert len(list(tmp_path.iterdir())) == 5  # Dask gives up after the fourth


@pytest.mark.usefixtures("one_loss")
def test_tasks__one_that_always_ends_its_worker_is_told(lonely: Any, tmp_path: Path) -> None:
    with pytest.raises(ThreepassError, match="Segment 1 of 'some' has lost its worker again and again"):
        # beside it, others would be lost as often
        run_tasks(lonely, EndWorker(str(tmp_path), 1000), [1], Patience(losses=0))
    assert len(list(tmp_path.iterdir())) == 1


def divide(item: int, topic: str) -> float:
    del topic
    return 1 / item


def test_tasks__an_error_is_raised(lonely: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        run_tasks(lonely, divide, [2, 1, 0, 4])


def test_tasks__a_cluster_without_workers() -> None:
    with (
        in_threads(0) as client,
        pytest.raises(ThreepassError, match=r"without workers for 0\.5 s\. Start some"),
    ):
        run_tasks(client, divide, [1], Patience(no_workers=0.5))


def test_workers__one_that_was_stopped_is_replaced(client: Any) -> None:
    """Dask takes ten seconds for this; the tests between wait for others."""
    client.wait_for_workers(2, timeout=60)


def take_memory() -> None:
    taken = []
    for _ in range(30):
        taken.append(np.ones(10_000_000))
        time.sleep(0.02)


@pytest.mark.usefixtures("one_loss")
def test_workers__over_their_memory(corpus: Corpus, undisturbed: MomentLabeler, client: Any) -> None:
    before = set(pids(client))
    greedy = client.submit(take_memory, pure=False, retries=0)
    assert_same(labeler().fit(corpus, client=client), undisturbed)
    deadline = time.monotonic() + 60
    while set(pids(client)) == before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert set(pids(client)) != before  # it was ended, and another one came
    client.cancel([greedy], force=True)


class HangOnce:
    """A task that has begun and never ends, as when a disk does not answer; but only the first time."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __call__(self, item: int, topic: str) -> int:
        tell, _ = news_to(topic)
        tell(item, 0)
        if item == 1 and not self.mark.exists():
            self.mark.touch()
            time.sleep(1000)
        return item * item


def test_tasks__one_that_hangs_gets_its_worker_restarted(client: Any, tmp_path: Path) -> None:
    before = set(pids(client))
    patience = Patience(silent_task=0.5)
    assert run_tasks(client, HangOnce(tmp_path / "hung"), [0, 1, 2], patience) == {0: 0, 1: 1, 2: 4}
    assert set(pids(client)) != before


# -- resume -----------------------------------------------------------------------------------------------


def summed(corpus: Corpus, executor: Executor, folder: Path | None = None, share: float = 0.0) -> Any:
    """The sums of every pass, and what became of the run directory; `share` of the time for totals."""
    works = [given.work for given in every_pass(corpus.n_terms, corpus.n_labels, sizes=True).values()]
    if folder is None:
        return Runner(executor).read(works, corpus), None
    with RunDirectory.at(folder, {}, share) as files:
        return Runner(executor, files=files).read(works, corpus), files


def assert_same_sums(sums: Any, corpus: Corpus) -> None:
    for one, other in zip(sums, summed(corpus, Threads(2))[0], strict=True):
        assert_identical(one, other)


def test_sums__of_every_pass_are_those_of_threads(corpus: Corpus, client: Any) -> None:
    for view in (corpus, corpus.head(int(corpus.block_rows[0]) - 1)):
        assert_same_sums(summed(view, Cluster(client))[0], view)


def test_resume__from_what_workers_left(corpus: Corpus, client: Any, tmp_path: Path) -> None:
    """No total is kept, only what workers have put there; and some of that is damaged."""
    _, whole = summed(corpus, Cluster(client), tmp_path / "run")
    left = sorted((tmp_path / "run").rglob("segment-*"))
    assert len(left) == whole.computed > 5
    left[1].write_bytes(left[1].read_bytes()[:-10])
    left[2].unlink()
    sums, again = summed(corpus, Cluster(client), tmp_path / "run")
    assert_same_sums(sums, corpus)
    assert again.computed == 2
    assert again.reused == len(left) - 2


def test_resume__with_threads_what_workers_began(corpus: Corpus, client: Any, tmp_path: Path) -> None:
    summed(corpus, Cluster(client), tmp_path / "run", share=1e9)
    sums, again = summed(corpus, Threads(2), tmp_path / "run", share=1e9)
    assert again.computed == 0
    assert_same_sums(sums, corpus)


def test_run_log__tells_where_segments_were_worked_on(corpus: Corpus, client: Any, tmp_path: Path) -> None:
    labeler(head="sharp").fit_to(corpus, tmp_path / "m.zarr", client=client, run_log=tmp_path / "run.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    assert {line["pass"] for line in lines} == {*PASSES, "look-alikes", "contrast"}
    assert {line["where"] for line in lines} <= set(client.nthreads())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.zarr", "run.jsonl"]


# -- where things are -------------------------------------------------------------------------------------


def test_corpus__by_url(root: Path, undisturbed: MomentLabeler, client: Any) -> None:
    assert_same(labeler().fit(Corpus.open(f"file://{root}"), client=client), undisturbed)


def test_corpus__in_memory_with_workers_that_are_threads(root: Path, undisturbed: MomentLabeler) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(root), "/corpora/c.zarr", recursive=True)
    with in_threads(1) as client:
        assert_same(labeler().fit(Corpus.open("memory://corpora/c.zarr"), client=client), undisturbed)


def test_corpus__damaged_is_told_by_a_worker(root: Path, client: Any, tmp_path: Path) -> None:
    shutil.copytree(root, tmp_path / "broken.zarr")
    (chunk,) = (tmp_path / "broken.zarr" / "X" / "00004" / "indices").rglob("0")
    chunk.write_bytes(chunk.read_bytes()[:-20])
    with pytest.raises(StoreError, match="X/00004"):
        labeler(whitening="exact").fit(Corpus.open(tmp_path / "broken.zarr"), client=client)


def test_cluster__listens_on_loopback_and_knows_who_asks(client: Any) -> None:
    addresses = [client.scheduler.address, *client.nthreads()]
    assert all(address.startswith("tls://127.0.0.1:") for address in addresses)
    assert client.dashboard_link.startswith("http://127.0.0.1:")
    # without the certificates of the occasion; elsewhere, for a client that fails is never quite gone
    code = f"from distributed import Client; Client({client.scheduler.address!r}, timeout='3s')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "Error" in run.stderr


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        (cluster.Workers(2, scheduler="tcp://127.0.0.1:1"), "Give one of them"),
        (cluster.Workers(1, tls=(Path("ca"), None, None)), "Found no --scheduler"),
        (cluster.Workers(1, memory="plenty"), "not a size. Found 'plenty'"),
    ],
    ids=["both", "tls", "memory"],
)
def test_cluster__what_cannot_be(workers: cluster.Workers, message: str) -> None:
    with pytest.raises(ThreepassError, match=message), cluster.connected(workers):
        pass


def test_cluster__nobody_answers(root: Path, corpus: Corpus, tmp_path: Path) -> None:
    code = "from threepass.cli.app import main; main()"
    fit = ["fit", str(root), str(tmp_path / "m.zarr"), "--scheduler", "tcp://127.0.0.1:1"]
    dask_settings = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "1s"}
    run = subprocess.run(
        [sys.executable, "-c", code, *fit],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | dask_settings,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("threepass: No scheduler answers at tcp://127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


def test_cluster__a_report_needs_workers(tmp_path: Path) -> None:
    with (
        pytest.raises(InputError, match="neither --workers nor"),
        cluster.connected(cluster.Workers(), tmp_path / "report.html"),
    ):
        pass


def test_cluster__joins_one_that_runs_by_its_certificates(
    corpus: Corpus, undisturbed: MomentLabeler, client: Any, tmp_path: Path
) -> None:
    security = client.security
    for name in ("tls_ca_file", "tls_client_cert", "tls_client_key"):
        (tmp_path / name).write_text(getattr(security, name))
    tls = (tmp_path / "tls_ca_file", tmp_path / "tls_client_cert", tmp_path / "tls_client_key")
    where = cluster.Workers(scheduler=client.scheduler.address, tls=tls)
    with cluster.connected(where, tmp_path / "report.html") as joined:
        assert_same(labeler().fit(corpus, client=joined), undisturbed)
    assert "<html" in (tmp_path / "report.html").read_text().lower()
