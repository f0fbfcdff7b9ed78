"""vLLM's native KV offloading on its CPU platform, for tests: the engine refuses only the worker that copies between GPU and host
memory. Here is one that copies with memcpy; all else (connector, primary tier, secondary tiers) is the engine's own.

    "spec_name": "CpuTieringSpec", "spec_module_path": "tiering_spec"        with this folder on PYTHONPATH
"""

import time

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.shared_offload_region import SharedOffloadRegion
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec


class CopyingWorker(OffloadingWorker):
    """Copies at once, in the caller's thread; a chunk of the primary tier holds `blocks_per_chunk` blocks of each tensor."""

    def __init__(self, caches, blocks_per_chunk, region):
        self._blocks_per_chunk, self._region, self._finished = blocks_per_chunk, region, []
        self._groups = caches.group_data_refs
        self._blocks = [it.tensor.view(torch.int8).view(-1, it.page_size_bytes) for it in caches.tensors]
        self._chunks = [region.create_next_worker_view(it.page_size_bytes * blocks_per_chunk) for it in caches.tensors]

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

    def _copy(self, job, blocks, chunks, loading):
        begun, copied = time.monotonic(), 0
        for group, block, chunk, place in self._pairs(blocks, chunks):
            for ref in self._groups[group]:
                page = self._blocks[ref.tensor_idx][block]
                kept = self._chunks[ref.tensor_idx][chunk, place * len(page) : (place + 1) * len(page)]
                page.copy_(kept) if loading else kept.copy_(page)
                copied += len(page)
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
