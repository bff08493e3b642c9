"""Workers for the command line: its own, on this machine, or those of a running cluster.

Its own workers listen on the loopback interface only, and authenticate by temporary certificates, so that no
other user of the machine can submit tasks. They write into a directory that only this user can read.
"""

from __future__ import annotations

import logging
import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import dask
from dask.utils import parse_bytes

from ...errors import InputError, ThreepassError
from ...storage.destination import temporary_folder
from .tasks import Patience

LOOPBACK = "127.0.0.1"
DASHBOARD = f"{LOOPBACK}:8787"


@dataclass(frozen=True, slots=True)
class Workers:
    """The workers to use; none where neither a number nor a scheduler is given."""

    number: int = 0
    threads: int = 1
    """Threads of each worker."""
    memory: str = "auto"
    """Memory of each worker, which is restarted when it takes more; `auto` is its share of the machine's."""
    scheduler: str | None = None
    """Address of a running cluster, as in tcp://host:8786."""
    tls: tuple[Path | None, Path | None, Path | None] = (None, None, None)
    """Certificate of the authority, own certificate, and own key, as Dask takes them."""
    dashboard: str = DASHBOARD
    patience: Patience = field(default=Patience(), repr=False)

    @property
    def any(self) -> bool:
        """Whether there are workers at all."""
        return self.number > 0 or self.scheduler is not None

    def check(self) -> None:
        """Raise `InputError` where options contradict each other or cannot be read."""
        if self.number and self.scheduler:
            raise InputError(
                f"Workers are either started here or run already. Found --workers {self.number} and "
                f"--scheduler {self.scheduler}. Give one of them."
            )
        if any(self.tls) and not self.scheduler:
            raise InputError(
                "Certificates are for a running cluster. Found no --scheduler. Give its address."
            )
        try:
            parse_bytes(self.memory if self.memory != "auto" else "1")
        except ValueError as error:
            raise InputError(
                f"--worker-memory is not a size. Found '{self.memory}'. Write it as in 4GB."
            ) from error


@contextmanager
def connected(workers: Workers, report: Path | None = None) -> Iterator[Any]:
    """Yield a `distributed.Client` of these workers; None where there are none.

    Parameters
    ----------
    report
        File for Dask's performance report, an HTML page that needs no network.
    """
    workers.check()
    if not workers.any:
        if report is not None:
            raise InputError(
                "A performance report is about workers. Found neither --workers nor --scheduler. Give one."
            )
        yield None
        return
    from distributed import performance_report

    with ExitStack() as stack:
        client = _joined(stack, workers) if workers.scheduler else _started(stack, workers)
        stack.enter_context(
            nullcontext() if report is None else performance_report(filename=str(report), mode="inline")
        )
        yield client


def _started(stack: ExitStack, workers: Workers) -> Any:
    from distributed import Client, LocalCluster

    folder = stack.enter_context(temporary_folder("threepass-workers-"))
    # `tasks` reports a lost worker if it matters; every component of Dask would report it too
    for name in ("nanny", "scheduler", "core", "worker", "client"):
        logging.getLogger(f"distributed.{name}").setLevel(logging.ERROR)
    logging.getLogger("tornado.application").setLevel(logging.CRITICAL)  # a browser that goes away
    stack.enter_context(
        dask.config.set(
            {
                "distributed.scheduler.worker-ttl": workers.patience.silent_worker,
                "temporary-directory": str(folder),
            }
        )
    )
    try:
        with warnings.catch_warnings(), _shielded_from_ctrl_c():
            warnings.filterwarnings("ignore", message="Port .* is already in use")
            cluster = LocalCluster(
                n_workers=workers.number,
                threads_per_worker=workers.threads,
                memory_limit=workers.memory,
                host=LOOPBACK,
                dashboard_address=workers.dashboard,
                local_directory=str(folder),
                security=True,
                silence_logs=logging.CRITICAL,  # in the workers: errors of tasks are raised here
            )
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ThreepassError(f"The workers could not be started: {error}. Try fewer of them.") from error
    stack.enter_context(cluster)
    return stack.enter_context(Client(cluster))


@contextmanager
def _shielded_from_ctrl_c() -> Iterator[None]:
    """Start threads and processes that Ctrl-C does not reach; the process that starts them ends them.

    Threads and processes inherit the signals that their parent blocks, and so do workers that are restarted.
    The resource tracker starts without its warnings, which would list everything that killed workers left.
    """
    if "PYTHONWARNINGS" not in os.environ:
        os.environ["PYTHONWARNINGS"] = "ignore:resource_tracker"
        resource_tracker.ensure_running()
        del os.environ["PYTHONWARNINGS"]
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _joined(stack: ExitStack, workers: Workers) -> Any:
    from distributed import Client
    from distributed.security import Security

    ca_file, cert, key = (None if path is None else str(path) for path in workers.tls)
    security = (
        Security(tls_ca_file=ca_file, tls_client_cert=cert, tls_client_key=key, require_encryption=True)
        if any(workers.tls)
        else None
    )
    try:
        client = Client(workers.scheduler, security=security)
    except (OSError, TimeoutError, ValueError) as error:
        raise ThreepassError(
            f"No scheduler answers at {workers.scheduler}: {error}. Check the address, and the certificates."
        ) from error
    return stack.enter_context(client)
