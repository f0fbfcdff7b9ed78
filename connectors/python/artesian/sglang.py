"""Artesian as the storage tier (L3) of SGLang's HiCache (tested with 0.5.23): a backend of type dynamic, v1 and v2 interfaces.

    python -m sglang.launch_server ... --enable-hierarchical-cache --hicache-mem-layout page_first --hicache-storage-backend dynamic
      --hicache-storage-backend-extra-config '{"backend_name": "artesian", "module_path": "artesian.sglang", "class_name":
      "ArtesianHiCache", "interface_v1": 1, "path": "/nvme/kv", "capacity": "200G"}'

SGLang's page hashes name tokens, adapter and salt, but neither weights nor data type: the fingerprint is taken from the model's
files where SGLang was given a folder (or a model that lies in the Hugging Face cache), else `model` or `weights` is demanded.

Threads: as SGLang calls it: prefetch, backup and scheduler threads, at once; calls wait for the store without the GIL. Data moves
between the host pool's pages and the drive, in C++. A page that is bad, missing or late is recomputed; nothing raises.
"""

from __future__ import annotations

import ctypes
import functools
import json
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import artesian
from artesian import Outcome
from artesian.absent import share
from artesian.fingerprint import fingerprint, fingerprint_of

from sglang.srt.mem_cache.hicache_storage import (
    HiCacheStorage,
    HiCacheStorageConfig,
    HiCacheStorageExtraInfo,
    PoolHitPolicy,
    PoolName,
    PoolTransfer,
    PoolTransferResult,
)

_LOG = logging.getLogger("sglang.artesian")
_KV, _MAMBA = str(PoolName.KV), str(PoolName.MAMBA)
_SHAPE = ("head_num", "head_dim", "v_head_dim", "kv_lora_rank", "qk_rope_head_dim", "layer_num", "start_layer", "end_layer")
_ENGINE = ("quantization", "kv_cache_dtype", "json_model_override_args")


def _engine() -> Any:
    """The settings of the server around us; None where there is none."""
    try:
        from sglang.srt.runtime_context import get_server_args

        return get_server_args()
    except (ImportError, ValueError, RuntimeError):
        return None


@functools.cache
def _bytes_type(count: int) -> Any:
    return ctypes.c_ubyte * count


def _view(tensor: torch.Tensor) -> Any:
    """The memory of a contiguous CPU tensor."""
    return _bytes_type(tensor.numel() * tensor.element_size()).from_address(tensor.data_ptr())


@dataclass
class _Pool:
    """A host pool, and what keeps its pages apart."""

    host: Any
    space: artesian.Namespace
    page_bytes: int

    def pages(self, indices: torch.Tensor, count: int) -> list[list[Any]]:
        """The pieces of each page, where they are."""
        addresses, sizes = self.host.get_page_buffer_meta(indices)
        views = [_bytes_type(size).from_address(address) for address, size in zip(addresses, sizes)]
        each = len(views) // count
        return [views[start : start + each] for start in range(0, len(views), each)]


class ArtesianHiCache(HiCacheStorage):  # type: ignore[misc]
    """Pages of SGLang's host pools, kept on flash by Artesian's store."""

    def __init__(self, storage_config: HiCacheStorageConfig, kwargs: dict[str, Any] | None = None) -> None:
        """Of the extra config: `path` (a folder of a store, which all ranks and engines of this machine may share) and `capacity`,
        `model` or `weights`, `codec`, `salt`, `key_file`, `memory`, `deadline` (5 seconds)."""
        options = storage_config.extra_config or {}
        if "path" not in options:
            raise ValueError("artesian: the storage backend's extra config names no 'path'")
        kinds = ("tp", "pp", "attn_cp", "dcp")
        self._ranks = {kind: [getattr(storage_config, f"{kind}_rank"), getattr(storage_config, f"{kind}_size")] for kind in kinds}
        self._same_in_all = storage_config.is_mla_model  # tensor parallel ranks: the first one stores, all load
        self._path = str(options["path"])
        self._options, self._model = options, storage_config.model_name or ""
        self._weights = self._fingerprint(options)
        self._deadline = float(options.get("deadline", 5.0))
        self._store: artesian.Store | None = None
        self._pools: dict[str, _Pool] = {}
        self._logical = False  # the pages of the main pool hold nothing themselves
        self._measures = storage_config.enable_storage_metrics
        self._lock = threading.Lock()  # guards what follows
        self._moved: dict[str, list[tuple[int, float]]] = {"prefetch": [], "backup": []}  # (pages, GB/s) since last asked

    def _fingerprint(self, options: dict[str, Any]) -> str:
        if "weights" in options:
            return str(options["weights"])
        if "model" in options:
            return fingerprint(options["model"], self._path)
        engine = _engine()
        if engine is None:
            raise ValueError(
                "artesian: where the model's files lie is not known here; give 'model' (their folder) or 'weights' "
                "(python -m artesian.fingerprint FOLDER)"
            )
        return fingerprint_of(engine.model_path, self._path, engine.revision, cache=engine.download_dir)

    # Pools.

    def register_mem_pool_host(self, mem_pool_host: Any) -> None:
        super().register_mem_pool_host(mem_pool_host)
        self._logical = getattr(mem_pool_host, "kv_buffer", self) is None
        if not self._logical:
            self._register(_KV, mem_pool_host)

    def register_mem_host_pool_v2(self, host_pool: Any, host_pool_name: str) -> None:
        super().register_mem_host_pool_v2(host_pool, host_pool_name)
        if not (self._logical and host_pool is self.mem_pool_host):
            self._register(host_pool_name, host_pool)

    def _register(self, name: str, host: Any) -> None:
        """Raises where pages of that pool cannot be kept: SGLang says so and does not start."""
        _, sizes = host.get_page_buffer_meta(torch.zeros(host.page_size, dtype=torch.int64))
        page_bytes, engine = sum(sizes), _engine()
        if self._store is None:
            self._store = share(
                _LOG,
                self._path,
                self._options.get("capacity"),
                memory=self._options.get("memory", 0),
                block_max=page_bytes,
                key_file=self._options.get("key_file", ""),
            )
        ranks = dict(self._ranks)
        if self._same_in_all and str(name) != _MAMBA:  # whose state is split even then
            del ranks["tp"]
        rank, world_size = ranks.get("tp", [0, 1])
        layout = {
            "pool": str(name),
            "kind": type(host).__name__,
            "order": host.layout,
            "pieces": len(sizes),
            "bytes": page_bytes,
            "shape": {fact: getattr(host, fact) for fact in _SHAPE if isinstance(getattr(host, fact, None), int)},
            "ranks": ranks,
            "engine": {fact: str(getattr(engine, fact, "")) for fact in _ENGINE} if engine is not None else {},
        }
        space = self._store.namespace(
            weights=self._weights,
            model=self._model,
            dtype=str(host.dtype),
            layout=json.dumps(layout, sort_keys=True),
            codec=self._options.get("codec", ""),
            salt=self._options.get("salt", ""),
            block_tokens=host.page_size,
            rank=rank,
            world_size=world_size,
        )
        self._pools[str(name)] = _Pool(host, space, page_bytes)
        _LOG.info("artesian: %s: pages of pool %s, %d bytes in %d pieces", self._path, name, page_bytes, len(sizes))

    # What moves pages.

    def _run(self, kind: str, pool: _Pool, keys: list[bytes], pages: Sequence[Any], prefix: Sequence[str] | None = None) -> list[bool]:
        begun = time.perf_counter()
        try:
            if kind == "backup":
                parents = [artesian.key_of(prefix[-1]) if prefix else None, *keys[:-1]]
                stored = pool.space.put(keys, pages, parents=parents)
                good = [outcome in (Outcome.STORED, Outcome.PRESENT) for outcome in stored]
                if Outcome.INVALID in stored:
                    _LOG.error("artesian: pages of %d bytes are larger than the store was made for, and are not kept", pool.page_bytes)
            else:
                outcomes, sizes = pool.space.get_sizes(keys, pages, deadline=self._deadline)
                good = [outcome is Outcome.HIT and size == pool.page_bytes for outcome, size in zip(outcomes, sizes)]
        except artesian.StoreError as error:
            _LOG.error("artesian: %s of %d pages: %s", kind, len(keys), error)
            return [False] * len(keys)
        if self._measures and pool is self._pools.get(_KV):
            rate = sum(good) * pool.page_bytes / max(time.perf_counter() - begun, 1e-9) / (1 << 30)
            with self._lock:
                self._moved[kind].append((sum(good), rate))
        return good

    def _move(self, kind: str, name: str, keys: list[str], indices: torch.Tensor | None, extra: HiCacheStorageExtraInfo | None) -> list[bool]:
        if not keys:
            return []
        if self._logical and str(name) == _KV:
            return [True] * len(keys)
        pool = self._pools.get(str(name))
        if pool is None or indices is None or len(indices) != len(keys) * pool.host.page_size:
            _LOG.error("artesian: %s of %d pages of pool %s: it is not registered, or their places are not one page each", kind, len(keys), name)
            return [False] * len(keys)
        prefix = extra.prefix_keys if extra is not None else None
        return self._run(kind, pool, artesian.keys_of(keys), pool.pages(indices, len(keys)), prefix)

    def batch_get_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None) -> list[bool]:
        return self._move("prefetch", _KV, keys, host_indices, extra_info)

    def batch_set_v1(self, keys: list[str], host_indices: torch.Tensor, extra_info: HiCacheStorageExtraInfo | None = None) -> list[bool]:
        return self._move("backup", _KV, keys, host_indices, extra_info)

    def batch_get_v2(self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None) -> dict[str, list[bool]]:
        return {each.name: self._move("prefetch", each.name, each.keys or [], each.host_indices, extra_info) for each in transfers}

    def batch_set_v2(self, transfers: list[PoolTransfer], extra_info: HiCacheStorageExtraInfo | None = None) -> dict[str, list[bool]]:
        return {each.name: self._move("backup", each.name, each.keys or [], each.host_indices, extra_info) for each in transfers}

    # The same with pages in tensors of the caller's, as SGLang does it without interface_v1.

    def batch_get(
        self, keys: list[str], target_locations: Sequence[torch.Tensor] | None = None, target_sizes: Any = None
    ) -> list[torch.Tensor | None]:
        pool = self._pools.get(_KV)
        if pool is None or not keys:
            return [None] * len(keys)
        targets = target_locations or [pool.host.get_dummy_flat_data_page() for _ in keys]
        good = self._run("prefetch", pool, artesian.keys_of(keys), [_view(target) for target in targets])
        return [target if hit else None for target, hit in zip(targets, good)]

    def batch_set(
        self, keys: list[str], values: Sequence[torch.Tensor] | None = None, target_locations: Any = None, target_sizes: Any = None
    ) -> bool:
        pool = self._pools.get(_KV)
        if pool is None or values is None or len(values) != len(keys):
            return False
        pages = [value.contiguous() for value in values]
        return all(self._run("backup", pool, artesian.keys_of(keys), [_view(page) for page in pages]))

    def get(self, key: str, target_location: torch.Tensor | None = None, target_sizes: Any = None) -> torch.Tensor | None:
        return self.batch_get([key], None if target_location is None else [target_location])[0]

    def set(self, key: str, value: torch.Tensor | None = None, target_location: Any = None, target_sizes: Any = None) -> bool:
        return self.batch_set([key], None if value is None else [value])

    # What is there.

    def exists(self, key: str) -> bool:
        return self.batch_exists([key]) == 1

    def batch_exists(self, keys: list[str], extra_info: HiCacheStorageExtraInfo | None = None) -> int:
        if self._logical:
            return len(keys)
        pool = self._pools.get(_KV)
        try:
            return pool.space.longest_prefix(artesian.keys_of(keys)) if pool is not None else 0
        except artesian.StoreError as error:
            _LOG.error("artesian: a look for %d pages: %s", len(keys), error)
            return 0

    def batch_exists_v2(
        self, keys: list[str], pool_transfers: list[PoolTransfer] | None = None, extra_info: HiCacheStorageExtraInfo | None = None
    ) -> PoolTransferResult:
        """Prefixes at which the engine can go on: KV is there from the first page on, and each other pool has what it must have."""
        kv_pages = self.batch_exists(keys, extra_info)
        hits: dict[str, int] = {PoolName.KV: kv_pages} if kv_pages else {}
        restorable = list(range(1, kv_pages + 1))
        for transfer in pool_transfers or []:
            fit = self._prefixes(transfer, keys[:kv_pages])
            if fit:
                hits[transfer.name] = fit[-1]
            restorable = [prefix for prefix in restorable if prefix in fit]
        return PoolTransferResult(restorable[-1] if restorable else 0, hits, restorable)

    def _prefixes(self, transfer: PoolTransfer, keys: list[str]) -> list[int]:
        """Lengths of prefixes that this pool can serve, in order."""
        pool = self._pools.get(str(transfer.name))
        if pool is None or transfer.hit_policy not in (PoolHitPolicy.ALL_PAGES, PoolHitPolicy.TRAILING_PAGES):
            _LOG.error("artesian: pool %s: not registered, or its policy %s is not known", transfer.name, transfer.hit_policy)
            return []
        try:
            there = pool.space.exists(artesian.keys_of(keys))
        except artesian.StoreError as error:
            _LOG.error("artesian: a look for %d pages of pool %s: %s", len(keys), transfer.name, error)
            return []
        every = transfer.hit_policy == PoolHitPolicy.ALL_PAGES
        window = len(keys) if every else max(1, len(transfer.keys or []))
        run, fit = 0, []  # how many are there one after the other, up to this page
        for number, found in enumerate(there, 1):
            run = run + 1 if found else 0
            if run >= min(window, number):
                fit.append(number)
        return fit

    # The rest.

    def clear(self) -> bool:
        try:
            for pool in self._pools.values():
                pool.space.erase_all()
        except artesian.StoreError as error:
            _LOG.error("artesian: clear: %s", error)
            return False
        return True

    def get_stats(self) -> Any:
        """Pages and GB/s of each batch since the last call, for SGLang's metrics; None where it wants none."""
        if not self._measures:
            return None
        from sglang.srt.observability.metrics_collector import StorageMetrics

        with self._lock:
            moved, self._moved = self._moved, {"prefetch": [], "backup": []}
        metrics = StorageMetrics()
        for kind, batches in moved.items():
            getattr(metrics, f"{kind}_pgs").extend(pages for pages, _ in batches)
            getattr(metrics, f"{kind}_bandwidth").extend(rate for _, rate in batches)
        return metrics

    def store_stats(self) -> dict[str, int]:
        return self._store.stats() if self._store is not None else {}

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
