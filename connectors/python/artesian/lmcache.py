"""Artesian as an L2 tier of LMCache (tested with 0.5.6): an adapter of type native_plugin.

    lmcache server ... --l2-adapter '{"type": "native_plugin", "module_path": "artesian.lmcache", "class_name": "ArtesianL2",
      "adapter_params": {"path": "/nvme/kv", "capacity": "200G", "model": "/models/smollm2", "dtype": "bfloat16"}}'

LMCache's keys name neither weights nor data type: `model` (a folder or file, whose fingerprint is taken) or `weights` (a
fingerprint) is demanded, and so is `dtype`, which must be the engine's; artesian.lmcache_adapter finds it by itself. Data moves in
C++; Python sees keys and answers.

Threads: as LMCache calls it: submits from any thread, which never block, and one thread that drains.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from typing import Any

import artesian
from artesian import Outcome
from artesian.absent import share
from artesian.fingerprint import fingerprint

_LOG = logging.getLogger("lmcache.artesian")


class ArtesianL2:
    """The callables that LMCache's NativeConnectorL2Adapter asks for."""

    def __init__(
        self,
        path: str,
        capacity: int | str | None = None,
        *,
        model: str | None = None,
        weights: str | None = None,
        dtype: str | None = None,
        layout: str = "",
        codec: str = "",
        memory: int | str = 0,
        block_max: int | str = 0,
        queue_depth: int = 16,
        key_file: str = "",
        deadline: float = 5.0,
    ) -> None:
        """`path`: a folder of a store, which other servers of this machine may share. `key_file`: it is encrypted. `deadline`: seconds after which a get that has not begun is a miss. `memory`: LMCache has a tier of its own. `block_max`: of a
        value, where a store is made. `queue_depth`: values on their way at once; they are large, and more of them finish all together, so
        that they are checked when the drive has nothing left to do."""
        if weights is None and model is None:
            raise ValueError("artesian: adapter_params name neither 'model' (where the weights are) nor 'weights' (their fingerprint)")
        if dtype is None:
            raise ValueError("artesian: adapter_params name no 'dtype' (of the engine's KV), which LMCache's keys do not name either")
        self._store = share(
            _LOG, path, capacity, memory=memory, block_max=block_max, queue_depth=queue_depth, key_file=key_file
        )
        found = weights if weights is not None else fingerprint(str(model), path)
        self._space = self._store.namespace(weights=found, dtype=dtype, layout=layout, codec=codec)
        self._deadline = deadline
        self._gets: dict[int, list[int]] = {}  # sizes that were asked for
        self._sets: set[int] = set()
        self._local = threading.local()  # kinds of the values that this thread submits
        _LOG.info("artesian: %s: %s", path, self._store.stats())

    def event_fd(self) -> int:
        return self._store.event_fd()

    @contextlib.contextmanager
    def of_kinds(self, kinds: list[str]) -> Iterator[None]:
        """What this thread submits within are values of these kinds; values of another kind are others."""
        self._local.kinds = kinds
        try:
            yield
        finally:
            self._local.kinds = None

    def _keys(self, keys: list[str]) -> list[bytes]:
        kinds = getattr(self._local, "kinds", None)
        if kinds is None:
            return artesian.keys_of(keys)
        return artesian.keys_of([f"{key}#{kind}" for key, kind in zip(keys, kinds, strict=True)])

    def submit_batch_get(self, keys: list[str], buffers: list[memoryview]) -> int:
        sizes = [memoryview(buffer).nbytes for buffer in buffers]
        tag = self._space.submit_get(self._keys(keys), buffers, deadline=self._deadline)
        self._gets[tag] = sizes
        return tag

    def submit_batch_set(self, keys: list[str], buffers: list[memoryview]) -> int:
        tag = self._space.submit_put(self._keys(keys), buffers)
        self._sets.add(tag)
        return tag

    def submit_batch_exists(self, keys: list[str]) -> int:
        return self._space.submit_exists(self._keys(keys))

    def submit_batch_delete(self, keys: list[str]) -> int:
        return self._space.submit_erase(self._keys(keys))

    def drain_completions(self) -> list[tuple[int, bool, str, list[bool] | None]]:
        """[(future, ok, error, an answer for each key)]. One bad block never fails its neighbours; a set is whole or not."""
        done: list[tuple[int, bool, str, list[bool] | None]] = []
        for tag, outcomes, sizes in self._store.drain():
            if tag in self._sets:
                self._sets.discard(tag)
                kept = all(outcome in (Outcome.STORED, Outcome.PRESENT) for outcome in outcomes)
                done.append((tag, kept, "" if kept else self._why(outcomes), None))
                continue
            wanted = self._gets.pop(tag, None)
            if wanted is None or sizes is None:
                done.append((tag, True, "", [outcome == Outcome.HIT for outcome in outcomes]))
            else:
                hits = [outcome == Outcome.HIT and size == asked for outcome, size, asked in zip(outcomes, sizes, wanted)]
                done.append((tag, True, "", hits))
        return done

    @staticmethod
    def _why(outcomes: list[int]) -> str:
        counts: dict[str, int] = {}
        for outcome in outcomes:
            name = Outcome(outcome).name.lower()
            counts[name] = counts.get(name, 0) + 1
        return "artesian: " + ", ".join(f"{count} {name}" for name, count in counts.items())

    def flush(self) -> None:
        """What was stored before is durable when this returns. LMCache does not ask for it."""
        self._store.flush()

    def stats(self) -> dict[str, Any]:
        return dict(self._store.stats())

    def close(self) -> None:
        self._store.close()
