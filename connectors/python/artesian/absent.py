"""How an engine's adapter comes to its store: one that is broken when the engine starts is no reason for it not to."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from typing import Any, cast

import artesian
from artesian import Outcome, Store, StoreError


class _Nothing:
    """In the place of what a Store calls: nothing is there, and nothing is kept. Threads: any."""

    def __init__(self) -> None:
        self._pipe = list(os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC))  # readable while there is something to drain
        self._lock = threading.Lock()  # guards what follows
        self._tag = 0
        self._done: list[tuple[int, list[int], list[int] | None]] = []

    def close(self) -> None:
        while self._pipe:
            os.close(self._pipe.pop())

    def open_namespace(self, *_: Any) -> int:
        return 0

    def erase_namespace(self, ns: int) -> None:
        """There is nothing to erase."""

    def put(self, ns: int, keys: Sequence[Any], *_: Any) -> list[int]:
        return [int(Outcome.REJECTED)] * len(keys)

    def get(self, ns: int, keys: Sequence[Any], *_: Any) -> tuple[list[int], list[int]]:
        return self.exists(ns, keys), [0] * len(keys)

    def exists(self, ns: int, keys: Sequence[Any]) -> list[int]:
        return [int(Outcome.MISS)] * len(keys)

    erase = exists

    def longest_prefix(self, ns: int, keys: Sequence[Any]) -> int:
        return 0

    def submit_put(self, ns: int, keys: Sequence[Any], *_: Any) -> int:
        return self._answered(self.put(ns, keys), None)

    def submit_get(self, ns: int, keys: Sequence[Any], *_: Any) -> int:
        return self._answered(*self.get(ns, keys))

    def submit_exists(self, ns: int, keys: Sequence[Any], *_: Any) -> int:
        return self._answered(self.exists(ns, keys), None)

    submit_erase = submit_stage = submit_exists

    def _answered(self, outcomes: list[int], sizes: list[int] | None) -> int:
        with self._lock:
            self._tag += 1
            self._done.append((self._tag, outcomes, sizes))
            if len(self._done) == 1:
                os.write(self._pipe[1], b"1")
            return self._tag

    def event_fd(self) -> int:
        return self._pipe[0]

    def settle(self) -> None:
        """Nothing is ever under way."""

    def drain(self) -> list[tuple[int, list[int], list[int] | None]]:
        with self._lock:
            done, self._done = self._done, []
            if done:
                os.read(self._pipe[0], 1)
            return done

    def flush(self) -> None:
        """There is nothing to flush."""

    def stats(self) -> dict[str, int]:
        return {"blocks": 0}


def share(log: logging.Logger, path: str, capacity: int | str | None, **options: Any) -> Store:
    """artesian.share(); where the store is broken, one in which nothing is there and nothing is kept, so that the engine
    goes on without it. A setting that is wrong is refused."""
    try:
        return artesian.share(path, capacity, **options)
    except StoreError as error:
        if error.code not in ("corrupt", "device_failed"):
            raise
        log.error("artesian: the engine goes on without its store on flash: %s", error)
        return Store._of(cast(Any, _Nothing()))
