"""vLLM's native KV offloading on its CPU platform, for tests: the engine refuses only the worker that copies between GPU and host
memory. Here is one that copies with memcpy; all else (connector, primary tier, secondary tiers) is the engine's own.

    "spec_name": "CpuTieringSpec", "spec_module_path": "tiering_spec"        with this folder on PYTHONPATH
"""

import concurrent.futures
import itertools
import os
import time

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


class CopyingWorker(OffloadingWorker):
    """Copies at once, with a thread for each processor; a chunk of the primary tier holds `blocks_per_chunk` blocks of each tensor."""

    def __init__(self, caches, blocks_per_chunk, region):
        self._blocks_per_chunk, self._region, self._finished = blocks_per_chunk, region, []
        self._groups = caches.group_data_refs
        self._blocks = [it.tensor.view(torch.int8).view(-1, it.page_size_bytes) for it in caches.tensors]
        self._chunks = [region.create_next_worker_view(it.page_size_bytes * blocks_per_chunk) for it in caches.tensors]
        self._threads = concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0)))

    def _pairs(self, blocks, chunks):
        """(group, block, chunk, place in the chunk) of each block of a job."""
        at_block = at_chunk = 0
        for group, (count, first) in enumerate(zip(blocks.group_sizes, blocks.block_indices)):
            skipped = first % self._blocks_per_chunk
            for number in range(count):
                chunk, place = divmod(skipped + number, self._blocks_per_chunk)
                yield group, int(blocks.block_ids[at_block + number]), int(chunks[at_chunk + chunk]), place
            at_block += count
            at_chunk += -(-(skipped + count) // self._blocks_per_chunk) if count else 0

    def _runs(self, pairs):
        """(group, first block, first chunk, place, count): what follows one another in both memories."""
        def same_in_a_run(step):
            number, (group, block, chunk, place) = step
            return group, block - number, chunk - number, place

        for _, run in itertools.groupby(enumerate(pairs), same_in_a_run):
            members = [pair for _, pair in run]
            yield *members[0], len(members)

    def _copy(self, job, blocks, chunks, loading):
        begun, parts = time.monotonic(), []
        for group, block, chunk, place, count in self._runs(self._pairs(blocks, chunks)):
            for ref in self._groups[group]:
                pages = self._blocks[ref.tensor_idx][block : block + count]
                size = pages.shape[1]
                kept = self._chunks[ref.tensor_idx][chunk : chunk + count, place * size : (place + 1) * size]
                parts.append((pages, kept) if loading else (kept, pages))
        list(self._threads.map(lambda part: part[0].copy_(part[1]), parts))  # which raises what a copy raised
        copied = sum(to.numel() for to, _ in parts)
        self._finished.append(TransferResult(job, True, copied, max(time.monotonic() - begun, 1e-9)))
        return True

    def submit_store(self, job_id, src_spec, dst_spec):
        return self._copy(job_id, src_spec, dst_spec.block_ids, loading=False)

    def submit_load(self, job_id, src_spec, dst_spec):
        return self._copy(job_id, dst_spec, src_spec.block_ids, loading=True)

    def get_finished(self):
        finished, self._finished = self._finished, []
        return finished

    def wait(self, job_ids):
        """Nothing is under way."""

    def shutdown(self):
        self._threads.shutdown()
        self._blocks, self._chunks = [], []
        self._region.cleanup()


class CpuTieringSpec(TieringOffloadingSpec):
    def get_worker(self, kv_caches):
        if not self._worker:
            region = SharedOffloadRegion(
                engine_id=self._engine_id, num_chunks=self.num_chunks, rank=self.config.parallel.rank,
                kv_bytes_per_chunk=self.kv_bytes_per_chunk, cpu_page_size=self.cpu_page_size_per_worker)
            self._worker = CopyingWorker(kv_caches, self.blocks_per_chunk, region)
        return self._worker
