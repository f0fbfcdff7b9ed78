"""Artesian as a flash tier of vLLM's native KV offloading (tested with 0.32.0): a SecondaryTierManager, loaded by module_path.

    vllm serve MODEL --kv-transfer-config "$(python -m artesian.vllm config --path /nvme/kv --capacity 2T)"

The weights' fingerprint is taken from the model's files where vLLM was given a folder (or a model that lies in the
Hugging Face cache), and demanded (`weights`) where it was not. Model, data type, layout, block size and parallelism are in
the namespace, too.

Threads: all calls come from the scheduler's thread and never block; data moves in C++, between the primary tier's memory
and the drive, without a copy. A block that is bad, missing or late is recomputed by vLLM; its neighbours are used.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # before vLLM is imported, which takes long
    from artesian.vllm_config import main

    sys.exit(main(sys.argv[1:]))

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from artesian import Outcome
from artesian.absent import share
from artesian.fingerprint import fingerprint_of

from vllm.logger import init_logger
from vllm.v1.kv_offload.base import Locality, LookupResult, Medium, RequestOffloadingContext
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager, TransferJob

if TYPE_CHECKING:
    from vllm.v1.kv_offload.base import OffloadingSpec, OffloadKey, ReqContext
    from vllm.v1.kv_offload.tiering.backpressure import BackpressureDetector

_LOG = init_logger("vllm.artesian")


class ArtesianTier(SecondaryTierManager):  # type: ignore[misc]
    """Blocks of the primary (CPU) tier, kept on flash by Artesian's store."""

    medium: ClassVar[Medium] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: OffloadingSpec,
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: BackpressureDetector | None = None,
        *,
        path: str,
        capacity: int | str | None = None,
        weights: str | None = None,
        codec: str = "",
        salt: str = "",
        key_file: str = "",
        deadline: float = 5.0,
        locality: str | None = None,
    ) -> None:
        """`path`: a folder of a store, which other engines of this machine may share. `capacity`: its cap on flash. `key_file`: it is
        encrypted. `deadline`: seconds after which a load or a store that has not begun is given up."""
        super().__init__(offloading_spec, primary_kv_view, tier_type, backpressure_detector)
        self.locality = Locality(locality) if locality is not None else None
        config = offloading_spec.config
        if weights is None:
            weights = fingerprint_of(config.model.name, path, sure=False)  # a tier is not told which revision
        self._deadline = deadline
        self._chunks = primary_kv_view.cast("B")
        block_bytes = self.block_size_bytes
        self._store = share(_LOG, path, capacity, block_max=block_bytes, key_file=key_file)
        self._space = self._store.namespace(
            weights=weights,
            model=config.model.name,
            dtype=str(config.model.dtype),
            layout=self._layout(offloading_spec, block_bytes),
            codec=codec,
            salt=salt,
            block_tokens=config.cache.tokens_per_hash * config.cache.blocks_per_chunk,
            rank=config.parallel.rank,
            world_size=config.parallel.world_size,
        )
        self._loads: dict[int, TransferJob] = {}  # by tag
        self._stores: dict[int, TransferJob] = {}
        self._failed: dict[str, set[bytes]] = {}  # of requests that go on: not to be asked for again
        stats = self._store.stats()
        _LOG.info("artesian: %s: %d blocks of %d bytes on flash", path, stats["blocks"], block_bytes)

    @staticmethod
    def _layout(spec: OffloadingSpec, block_bytes: int) -> str:
        config, parallel = spec.config, spec.config.parallel
        facts = {
            "groups": [[group.tokens_per_block, list(group.layer_names)] for group in config.groups],
            "bytes": block_bytes,
            "kv": config.kv_cache_layout,
            "canonical": config.canonical_layout,
            "replicated": config.replicated_layout,
            "parallel": [parallel.tp_size, parallel.pp_size, parallel.pcp_size, parallel.dcp_size],
        }
        text = json.dumps(facts, sort_keys=True)
        if len(text) <= 1024:
            return text
        # The names of many layers are long.
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    def _chunk(self, chunk: int) -> memoryview:
        start = int(chunk) * self.block_size_bytes
        return self._chunks[start : start + self.block_size_bytes]

    def on_new_request(self, req_context: ReqContext) -> RequestOffloadingContext:
        return RequestOffloadingContext()

    def lookup(self, key: OffloadKey, req_context: ReqContext) -> LookupResult:
        if key in self._failed.get(req_context.req_id, ()):
            return LookupResult.MISS
        return LookupResult.HIT if self._space.exists([key])[0] else LookupResult.MISS

    def submit_store(self, job_metadata: TransferJob) -> None:
        keys = list(job_metadata.keys)
        # What comes before it in the same job is its parent: that is how vLLM chains its hashes.
        parents: list[Any] = [None, *keys[:-1]]
        chunks = [self._chunk(chunk) for chunk in job_metadata.chunk_ids]
        tag = self._space.submit_put(keys, chunks, parents=parents, deadline=self._deadline)
        self._stores[tag] = job_metadata

    def submit_load(self, job_metadata: TransferJob) -> None:
        buffers = [self._chunk(chunk) for chunk in job_metadata.chunk_ids]
        tag = self._space.submit_get(list(job_metadata.keys), buffers, deadline=self._deadline)
        self._loads[tag] = job_metadata

    def get_finished_jobs(self) -> Iterable[JobResult]:
        results = []
        for tag, outcomes, sizes in self._store.drain():
            store = self._stores.pop(tag, None)
            if store is not None:
                kept = sum(outcome in (Outcome.STORED, Outcome.PRESENT) for outcome in outcomes)
                if Outcome.INVALID in outcomes:
                    _LOG.error("artesian: blocks of %d bytes are larger than the store was made for, and are not kept", self.block_size_bytes)
                results.append(JobResult(store.job_id, kept == len(outcomes), transfer_bytes=kept * self.block_size_bytes))
                continue
            load = self._loads.pop(tag)
            keys = list(load.keys)
            good = [
                key
                for key, outcome, size in zip(keys, outcomes, sizes or [])
                if outcome == Outcome.HIT and size == self.block_size_bytes
            ]
            if len(good) < len(keys):
                lost = set(keys) - set(good)
                self._failed.setdefault(load.req_context.req_id, set()).update(lost)
                _LOG.warning("artesian: %d of %d blocks could not be loaded and are computed again", len(lost), len(keys))
            results.append(
                JobResult(
                    load.job_id,
                    len(good) == len(keys),
                    successful_keys=tuple(good) if 0 < len(good) < len(keys) else None,
                    transfer_bytes=len(good) * self.block_size_bytes,
                )
            )
        return results

    def has_pending_work(self) -> bool:
        return bool(self._loads or self._stores)

    def touch(self, keys: Collection[OffloadKey], req_context: ReqContext) -> None:
        """The store learns of use by the gets themselves."""

    def on_request_finished(self, req_context: ReqContext) -> None:
        self._failed.pop(req_context.req_id, None)

    def drain_jobs(self) -> None:
        """Waits until nothing touches the primary tier's memory any more. The results stay for get_finished_jobs()."""
        self._store.settle()

    def shutdown(self) -> None:
        self._store.close()
        self._chunks.release()
