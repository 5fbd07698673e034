"""A real cluster for tests: a scheduler and workers, each a process of its own, on loopback only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Client


class LoopbackCluster:
    """``dask scheduler`` and ``dask worker`` processes that end with the ``with`` block, whatever happens."""

    def __init__(self, folder: Path, workers: int = 2, options: tuple[str, ...] = ()) -> None:
        self.folder, self.options = folder, options
        self.scheduler_file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        try:
            # Both kinds of process end by themselves if the test run is killed.
            here = ("--scheduler-file", str(self.scheduler_file), "--idle-timeout", "100 s")
            self._start("scheduler", "--port", "0", "--no-jupyter", *here)
            self._await(lambda: self._read_address() is not None)
            self.address = self._read_address()
            self.add_workers(workers)
            self.client = Client(self.address, set_as_default=False, timeout=30)
            self.client.wait_for_workers(workers, timeout=30)
        except BaseException:
            self.close()
            raise

    def _start(self, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", kind, *arguments, "--host", "127.0.0.1", "--no-dashboard"]
        log = open(self.folder / f"{kind}-{len(self.processes)}.log", "wb")  # noqa: SIM115
        with log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)
        return process

    def _read_address(self) -> str | None:
        """Where the scheduler listens, once it has written all of its file."""
        try:
            return json.loads(self.scheduler_file.read_text())["address"]
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def _await(self, condition, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "the cluster does not start"
            time.sleep(0.05)

    def add_workers(self, count: int) -> None:
        """Start workers of one thread each, without a nanny that would bring them back."""
        here = (
            "--local-directory",
            str(self.folder),
            "--memory-limit",
            "1GB",
            "--nthreads",
            "1",
            "--death-timeout",
            "20",
        )
        for _ in range(count):
            self.workers.append(self._start("worker", self.address, "--no-nanny", *here, *self.options))

    def kill(self, worker: int = 0) -> int:
        """kill -9 of one worker; returns its process id."""
        process = self.workers.pop(worker)
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
        return process.pid

    @property
    def pids(self) -> set[int]:
        """Process ids of the living workers."""
        return {process.pid for process in self.workers}

    def close(self) -> None:
        """End the client, then every process, by its id."""
        if hasattr(self, "client"):
            with contextlib.suppress(Exception):
                self.client.close(timeout=2)
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait(10)

    def __enter__(self) -> LoopbackCluster:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
        assert all(process.poll() is not None for process in self.processes), "a process was left behind"
