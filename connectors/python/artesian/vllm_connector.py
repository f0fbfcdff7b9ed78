"""Artesian as a KV connector of vLLM (tested with 0.32.0), where the KV cache lies in host memory: vLLM for CPU.

    vllm serve MODEL --kv-transfer-config "$(python -m artesian.vllm config --connector --path /nvme/kv --capacity 200G)"

A block of the engine is stored in a few records, each of some layers that follow one another: the first layers compute while the
others are read, and are written while the others compute. Records are read into the engine's cache and written from it, without a
copy by Python. A block is known by vLLM's own chained hash (tokens, adapter's name, salt, images), by the content of the adapter, and
by the namespace: fingerprint of the weights, type, layout, block size, rank and world size.

A block that is bad, missing or late is reported, and vLLM computes it again (kv_load_failure_policy must be "recompute"); its
neighbours are used. What was computed in a step in which a block failed is not stored. A store that fails means a slower engine: no
call here raises into it. Loads and stores of a step end with the step: a request that is aborted or preempted leaves nothing behind.

Threads: as vLLM calls it, one in the scheduler's process and one in each worker's; there two more read and write records.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import math
import os
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import artesian
from artesian import Hints, Namespace, Outcome, Store, StoreError
from artesian.absent import share
from artesian.fingerprint import fingerprint, fingerprint_of
from artesian.vllm_stats import ArtesianMetrics, ArtesianStats

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)
from vllm.logger import init_logger
from vllm.v1.kv_cache_interface import FullAttentionSpec, iter_layer_specs
from vllm.v1.metrics.cache_hit_source import CacheHitSource

if TYPE_CHECKING:
    import torch
    from vllm.config import VllmConfig
    from vllm.forward_context import ForwardContext
    from vllm.v1.core.kv_cache_manager import KVCacheBlocks
    from vllm.v1.core.sched.output import SchedulerOutput
    from vllm.v1.kv_cache_interface import KVCacheConfig
    from vllm.v1.outputs import KVConnectorOutput
    from vllm.v1.request import Request

_LOG = init_logger("vllm.artesian")
_RECORD_BYTES_MIN = 512 << 10  # smaller reads do not fill a drive
_RECORDS_MAX = 8  # of a block
_QUIET_SECONDS = 60  # between two complaints about the store

Result = TypeVar("Result")


@dataclass
class Load:
    """Blocks of one request that come from the store."""

    keys: list[bytes]
    blocks: list[int]  # where they are wanted in the engine's cache


@dataclass
class Save:
    """A block that goes to the store."""

    key: bytes
    block: int  # where it is in the engine's cache
    number: int  # which block of its request it is
    parent: bytes | None  # key of the block before it


@dataclass
class ArtesianMetadata(KVConnectorMetadata):  # type: ignore[misc]
    """What the workers do in this step."""

    generation: str = ""
    loads: list[Load] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)


class Settings:
    """What both sides know of the model, its cache and the store, checked once."""

    def __init__(self, config: VllmConfig, cache: KVCacheConfig) -> None:
        extra = dict(config.kv_transfer_config.kv_connector_extra_config)
        self.path = str(extra.pop("path", ""))
        self.capacity = extra.pop("capacity", None)
        self.memory = artesian.size(extra.pop("memory", 0))
        self.key_file = str(extra.pop("key_file", ""))
        self.codec = str(extra.pop("codec", ""))
        self.salt = str(extra.pop("salt", ""))
        self.deadline = float(extra.pop("deadline", 5))
        weights = extra.pop("weights", None)
        if not self.path or extra:
            raise ValueError(f"artesian: kv_connector_extra_config: {f'{next(iter(extra))}: no such option' if extra else 'has no path'}")
        self._check(config, cache)
        self.parallel = config.parallel_config
        self.block_tokens = int(config.cache_config.block_size)
        self.hashes_per_block = self.block_tokens // int(cache.hash_block_size or self.block_tokens)
        layers = self._layers(cache)
        names, bytes_of_all = list(layers), sum(layers.values())
        share = math.ceil(len(names) / max(1, min(_RECORDS_MAX, len(names), bytes_of_all // _RECORD_BYTES_MIN)))
        self.record_of = {name: number // share for number, name in enumerate(names)}
        self.records = self.record_of[names[-1]] + 1
        self.model = str(config.model_config.model)
        self.weights = str(weights) if weights else fingerprint_of(
            self.model, self.path, config.model_config.revision, cache=config.load_config.download_dir
        )
        kept = config.cache_config.cache_dtype
        self.dtype = str(config.model_config.dtype if kept == "auto" else kept).removeprefix("torch.")
        self.layout = self._layout(config, cache, layers)

    @staticmethod
    def _layers(cache: KVCacheConfig) -> dict[str, int]:
        """Bytes of a block in each layer."""
        (group,) = cache.kv_cache_groups
        specs = getattr(group.kv_cache_spec, "kv_cache_specs", None)
        return {name: (specs[name] if specs else group.kv_cache_spec).page_size_bytes for name in group.layer_names}

    @staticmethod
    def _check(config: VllmConfig, cache: KVCacheConfig) -> None:
        """Refused at start, with one sentence: what this connector would not do right."""
        groups, parallel = cache.kv_cache_groups, config.parallel_config
        plain = len(groups) == 1 and all(isinstance(spec, FullAttentionSpec) for spec in iter_layer_specs(groups[0].kv_cache_spec))
        if not plain:
            raise ValueError("artesian: not all layers are of full attention; with --disable-hybrid-kv-cache-manager they may become so")
        if max(parallel.pipeline_parallel_size, parallel.decode_context_parallel_size, parallel.prefill_context_parallel_size) > 1:
            raise ValueError("artesian: pipeline and context parallelism are not supported by ArtesianConnector")
        if config.cache_config.block_size % (cache.hash_block_size or config.cache_config.block_size):
            raise ValueError("artesian: the block size is no multiple of what vLLM hashes")
        if config.scheduler_config.async_scheduling:
            raise ValueError("artesian: with asynchronous scheduling a failed block is known too late; start with --no-async-scheduling")
        if not config.cache_config.enable_prefix_caching:
            raise ValueError("artesian: prefix caching is off, and with it the hashes by which blocks are known")
        if config.kv_transfer_config.kv_load_failure_policy != "recompute":
            _LOG.warning('artesian: kv_load_failure_policy is not "recompute": a block that cannot be loaded fails its request')

    def _layout(self, config: VllmConfig, cache: KVCacheConfig, layers: dict[str, int]) -> str:
        settings = config.model_config.hf_config.to_dict()
        settings.pop("_name_or_path", None)
        facts = {
            "model": settings,
            "quantization": str(config.model_config.quantization),
            "layers": list(layers.items()),
            "order": str(cache.kv_cache_layout),
            "records": self.records,
            "hash": [str(config.cache_config.prefix_caching_hash_algo), cache.hash_block_size],
            "tensor_parallel": self.parallel.tensor_parallel_size,
        }
        return "sha256:" + hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()

    def space(self, store: Store, rank: int, generation: str) -> Namespace:
        """`generation`: of weights that were changed while the engine ran; empty for those of the files."""
        return store.namespace(
            weights=self.weights + generation,
            model=self.model,
            dtype=self.dtype,
            layout=self.layout,
            codec=self.codec,
            salt=self.salt,
            block_tokens=self.block_tokens,
            rank=rank,
            world_size=self.parallel.world_size,
        )


def _record(key: bytes, record: int) -> bytes:
    return key + bytes([record])


_shared: dict[str, tuple[Store, int]] = {}  # of this process, with how many use it


def _open(settings: Settings) -> Store:
    store, users = _shared.get(settings.path, (None, 0))
    if store is None:
        os.makedirs(settings.path, exist_ok=True)
        store = share(_LOG, settings.path, settings.capacity, memory=settings.memory, key_file=settings.key_file)
    _shared[settings.path] = (store, users + 1)
    return store


def _close(settings: Settings) -> None:
    store, users = _shared.pop(settings.path)
    if users > 1:
        _shared[settings.path] = (store, users - 1)
    else:
        store.close()


class Side:
    """What scheduler's and worker's side share: the store, and how its failures are taken."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.store = _open(settings)
        self.generation = ""
        self._complained = -math.inf

    def spared(self, call: Callable[[], Result], instead: Result) -> Result:
        """What the call gives, or `instead` when the store fails: the engine goes on without it."""
        try:
            return call()
        except (StoreError, OSError) as error:
            now = time.monotonic()
            if now - self._complained > _QUIET_SECONDS:
                self._complained = now
                _LOG.warning("artesian: %s: going on without the store: %s", self.settings.path, error)
            return instead

    def shutdown(self) -> None:
        self.spared(lambda: _close(self.settings), None)


@dataclass
class Known:
    """A request that the scheduler has named."""

    request: Request
    adapter: bytes | None  # of its content; empty: no adapter; None: one whose content is not known, so nothing is stored
    found: int = 0  # the first block that the store was asked for
    saved: int = 0  # blocks that are stored, or on the way there


class SchedulerSide(Side):
    """Looks up what a request finds in the store, and decides what each step loads and saves. Blocks, not tokens."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._spaces = self.spared(self._opened, list[Namespace]())
        self._known: dict[str, Known] = {}
        self._adapters: dict[int, bytes | None] = {}
        self._meta = ArtesianMetadata()

    def _opened(self) -> list[Namespace]:
        ranks = range(self.settings.parallel.world_size)
        return [self.settings.space(self.store, rank, self.generation) for rank in ranks]

    def know(self, request: Request) -> Known:
        known = self._known.get(request.request_id)
        if known is None:
            known = self._known[request.request_id] = Known(request, self._adapter(request.lora_request))
        return known

    def _adapter(self, lora: Any) -> bytes | None:
        """vLLM's hashes hold an adapter's name and path. Here is its content, as it was when it was first asked for."""
        if lora is None:
            return b""
        if lora.lora_int_id not in self._adapters or getattr(lora, "load_inplace", False):
            found = self.spared(lambda: fingerprint(lora.lora_path, self.settings.path), "")
            self._adapters[lora.lora_int_id] = hashlib.sha256(found.encode()).digest() if found else None
        return self._adapters[lora.lora_int_id]

    def keys(self, known: Known, first: int, end: int) -> list[bytes]:
        """Of the request's blocks from `first` to before `end`, as many as are known by all their tokens."""
        hashes, scale = known.request.block_hashes, self.settings.hashes_per_block
        if known.adapter is None:
            return []
        end = min(end, len(hashes) // scale)
        return [bytes(hashes[(number + 1) * scale - 1]) + known.adapter for number in range(first, end)]

    def _records(self, keys: Sequence[bytes]) -> list[bytes]:
        return [_record(key, record) for key in keys for record in range(self.settings.records)]

    def stage(self, request: Request) -> None:
        """While others run: the store brings to memory what the request will want."""
        others = bool(self._known)
        known = self.know(request)
        if others and self.settings.memory:
            keys = self._records(self.keys(known, 0, request.num_tokens // self.settings.block_tokens))
            for space in self._spaces:
                self.spared(lambda space=space: space.submit_stage(keys), 0)  # type: ignore[misc]

    def found(self, request: Request, computed: int) -> int:
        """How many blocks follow the `computed` ones in the store of every rank; a token is left to compute."""
        known = self.know(request)
        known.found = computed
        if request.skip_reading_prefix_cache:
            return 0
        keys = self.keys(known, computed, (request.num_tokens - 1) // self.settings.block_tokens)
        if not keys:
            return 0
        records = self._records(keys)
        there: int = self.spared(lambda: min((space.longest_prefix(records) for space in self._spaces), default=0), 0)
        return there // int(self.settings.records)

    def allocated(self, request: Request, blocks: list[int], loaded: int) -> None:
        known = self.know(request)
        if loaded == 0:
            return
        first, end = known.found, known.found + loaded
        self._meta.loads.append(Load(self.keys(known, first, end), blocks[first:end]))

    def step(self, scheduled: SchedulerOutput) -> ArtesianMetadata:
        cached = scheduled.scheduled_cached_reqs
        computed = {new.req_id: new.num_computed_tokens for new in scheduled.scheduled_new_reqs}
        computed |= dict(zip(cached.req_ids, cached.num_computed_tokens))
        if self._meta.loads and len(self._spaces) > 1:
            computed = {}  # a block that fails in one rank would spoil what the others store; it is offered in the next step
        for name, before in computed.items():
            known = self._known.get(name)
            state = scheduled.kv_connector_block_state
            blocks = state.get_block_ids(name) if state is not None else None
            if known is not None and blocks is not None:
                self._save(known, blocks[0], before + scheduled.num_scheduled_tokens[name])
        meta, self._meta = self._meta, ArtesianMetadata()
        meta.generation = self.generation
        self.spared(lambda: bool(self.store.drain()), False)  # what was staged
        return meta

    def _save(self, known: Known, blocks: list[int], tokens: int) -> None:
        """Blocks that are whole after this step and not in the store."""
        first = known.saved
        keys = self.keys(known, first, tokens // self.settings.block_tokens)
        if not keys:
            return
        known.saved = first + len(keys)
        missing = self._missing(keys)
        parents: list[bytes | None] = [None, *keys] if first == 0 else [*self.keys(known, first - 1, first), *keys]
        for number, (key, parent) in enumerate(zip(keys, parents), first):
            if key in missing:
                self._meta.saves.append(Save(key, blocks[number], number, parent))

    def _missing(self, keys: list[bytes]) -> set[bytes]:
        """Those of which some rank's store lacks a record."""
        records = self._records(keys)
        count = self.settings.records
        lacking: set[bytes] = set()
        for space in self._spaces:
            there = self.spared(lambda: space.exists(records), [True] * len(records))  # noqa: B023
            lacking |= {key for number, key in enumerate(keys) if not all(there[number * count : (number + 1) * count])}
        return lacking

    def failed(self) -> None:
        """Blocks of the last step failed: what it computed was not stored, and is offered again when it is right."""
        for known in self._known.values():
            known.saved = 0

    def forget(self, request: Request) -> None:
        self._known.pop(request.request_id, None)

    def reset(self) -> bool:
        """The engine's weights may have changed: nothing stored before is found again, nothing stored from now on by another start."""

        def erase() -> bool:
            for space in self._spaces:
                space.erase_all()
            self.generation = " changed " + uuid.uuid4().hex
            self._spaces = self._opened()
            return True

        self.failed()
        return self.spared(erase, False)


@dataclass
class Layer:
    """A layer's cache: `bytes` of a block at each multiple of `stride`."""

    memory: memoryview
    stride: int
    bytes: int
    owner: torch.Tensor  # whose memory it is

    def block(self, number: int) -> memoryview:
        return self.memory[number * self.stride : number * self.stride + self.bytes]


def layer_of(name: str, cache: torch.Tensor, blocks: int) -> Layer:
    """The memory of a layer's cache, in which each of `blocks` is one range."""
    if cache.device.type != "cpu":
        raise ValueError(f"artesian: the KV cache is on {cache.device}; ArtesianConnector takes one in host memory, ArtesianTier any")
    shape, stride, each = tuple(cache.shape), tuple(cache.stride()), cache.element_size()
    parts, rest = divmod(shape[0], blocks)  # a block may be several of the kernel's
    size = math.prod(shape[1:])
    dense = sum((count - 1) * step for count, step in zip(shape[1:], stride[1:])) == size - 1
    if rest or not dense or stride[0] < size or (parts > 1 and stride[0] != size):
        raise ValueError(f"artesian: {name}: a block of its cache is not one range of memory: {shape}, {stride}")
    reach = ((shape[0] - 1) * stride[0] + size) * each
    memory = memoryview((ctypes.c_char * reach).from_address(cache.data_ptr())).cast("B")
    return Layer(memory, stride[0] * each * parts, size * each * parts, cache)


class Read(NamedTuple):
    """A record of some blocks that is being read."""

    record: int
    blocks: list[int]
    answer: Future[list[int]]  # those of which it did not come


class WorkerSide(Side):
    """Reads and writes records of the engine's cache, in two threads of its own: a first read touches fresh memory and pins it, which the
    compute does not wait for, and while one record is checked the next one is on its way. All that a step begins ends with it."""

    def __init__(self, settings: Settings, blocks: int) -> None:
        super().__init__(settings)
        self._blocks = blocks
        self._rank = int(settings.parallel.rank)
        self._space = self.spared(lambda: settings.space(self.store, self._rank, ""), cast(Namespace, self.store))
        self._threads = ThreadPoolExecutor(2, "artesian")
        self._layers: list[list[Layer]] = []  # by record
        self._bytes: list[int] = []
        self._reads: deque[Read] = deque()
        self._begun = self._ended = 0.0  # reading
        self._writes: list[Future[Any]] = []
        self._computed: list[int] = []  # layers of each record that this step has computed
        self._failed: set[int] = set()
        self._stats = ArtesianStats()

    def register(self, caches: dict[str, torch.Tensor]) -> None:
        self._layers = [[] for _ in range(self.settings.records)]
        for name, record in self.settings.record_of.items():
            self._layers[record].append(layer_of(name, caches[name], self._blocks))
        self._bytes = [sum(layer.bytes for layer in layers) for layers in self._layers]
        self._computed = [0] * self.settings.records
        stats: dict[str, int] = self.spared(lambda: self.store.stats(), dict[str, int]())
        _LOG.info(
            "artesian: %s: %s blocks on flash; a block of %d bytes is stored in %d records",
            self.settings.path, stats.get("blocks", "no"), sum(self._bytes), self.settings.records,
        )  # fmt: skip

    def _pieces(self, record: int, block: int) -> list[memoryview]:
        return [layer.block(block) for layer in self._layers[record]]

    def _follow(self, generation: str) -> None:
        """What this step loads and saves is of that generation."""
        if generation != self.generation:
            self.generation = generation
            self._space = self.spared(lambda: self.settings.space(self.store, self._rank, generation), self._space)

    def begin(self, meta: ArtesianMetadata) -> None:
        """Everything is asked for at once, the first layers first."""
        self._follow(meta.generation)
        keys = [key for load in meta.loads for key in load.keys]
        blocks = [block for load in meta.loads for block in load.blocks]
        self._begun = time.monotonic()
        for record in range(self.settings.records if keys else 0):
            self._reads.append(Read(record, blocks, self._threads.submit(self._read, record, keys, blocks)))

    def _left(self, begun: float) -> float:
        """Of the time that is given to what was asked for then, however long it waited for a thread; not 0, which is for ever."""
        return max(begun + self.settings.deadline - time.monotonic(), 1e-3) if self.settings.deadline > 0 else 0

    def _read(self, record: int, keys: list[bytes], blocks: list[int]) -> list[int]:
        """The blocks of which this record did not come."""
        names, buffers = [_record(key, record) for key in keys], [self._pieces(record, block) for block in blocks]
        outcomes, sizes = self._space.get_sizes(names, buffers, deadline=self._left(self._begun))
        self._ended = time.monotonic()
        whole = self._bytes[record]
        return [block for block, outcome, size in zip(blocks, outcomes, sizes) if outcome is not Outcome.HIT or size != whole]

    def _await_reads(self, last: int) -> None:
        """Of the records up to this one."""
        begun = time.monotonic()
        while self._reads and self._reads[0].record <= last:
            read = self._reads.popleft()
            failed = self.spared(read.answer.result, read.blocks)
            self._failed.update(failed)
            self._stats.count("bytes_loaded", (len(read.blocks) - len(failed)) * self._bytes[read.record])
            if not self._reads:
                self._stats.count("seconds_reading", self._ended - self._begun)
        # At most until the last one had ended: what the thread takes to wake up is not waiting for the drive.
        until = time.monotonic()
        if all(read.answer.done() for read in self._reads):
            until = max(begun, min(until, self._ended))
        self._stats.count("seconds_blocked", until - begun)

    def wait_for_layer(self, layer: str) -> None:
        if self._reads:
            self._await_reads(self.settings.record_of.get(layer, 0))

    def computed(self, layer: str, meta: ArtesianMetadata) -> None:
        """A layer's part of this step is in the cache; with the last layer of a record the record is written."""
        record = self.settings.record_of.get(layer)
        if record is None or not meta.saves:
            return
        self._computed[record] += 1
        # What a failed block has spoiled is not told apart from what it has not.
        if self._computed[record] == len(self._layers[record]) and not self._failed:
            self._follow(meta.generation)  # a step without loads begins its loads after the layers
            self._writes.append(self._threads.submit(self._write, record, meta.saves, time.monotonic()))

    def _write(self, record: int, saves: list[Save], begun: float) -> int:
        """How many bytes the store has of them now."""
        parents = [None if save.parent is None else _record(save.parent, record) for save in saves]
        names = [_record(save.key, record) for save in saves]
        data = [self._pieces(record, save.block) for save in saves]
        hints = [Hints(position=save.number, tokens=self.settings.block_tokens) for save in saves]
        outcomes = self._space.put(names, data, parents=parents, hints=hints, deadline=self._left(begun))
        return sum(outcome in (Outcome.STORED, Outcome.PRESENT) for outcome in outcomes) * self._bytes[record]

    def end(self) -> None:
        """Nothing reads or writes the engine's cache any more."""
        if self._reads:
            self._await_reads(self.settings.records)
        begun = time.monotonic()
        for answer in self._writes:
            self._stats.count("bytes_stored", self.spared(answer.result, 0))
        if self._writes:
            self._stats.count("seconds_storing", time.monotonic() - begun)
        self._writes.clear()
        self._computed = [0] * self.settings.records

    def failures(self) -> set[int]:
        failed, self._failed = self._failed, set()
        if failed:
            self._stats.count("blocks_failed", len(failed))
            _LOG.warning("artesian: %d blocks could not be loaded and are computed again", len(failed))
        return failed

    def stats(self) -> ArtesianStats:
        """Since last asked."""
        stats, self._stats = self._stats, ArtesianStats()
        return stats

    def shutdown(self) -> None:
        self._threads.shutdown()
        super().shutdown()


class ArtesianConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc]
    """vLLM's own names for what the two sides do."""

    _cache_hit_source = CacheHitSource.DISK

    def __init__(self, vllm_config: VllmConfig, role: KVConnectorRole, kv_cache_config: KVCacheConfig) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        settings = Settings(vllm_config, kv_cache_config)
        self._tokens = settings.block_tokens
        self.scheduler: SchedulerSide | None = None
        self.worker: WorkerSide | None = None
        if role == KVConnectorRole.SCHEDULER:
            self.scheduler = SchedulerSide(settings)
        else:
            self.worker = WorkerSide(settings, kv_cache_config.num_blocks)

    @property
    def requires_kv_delivery(self) -> bool:
        return False  # what is not stored is computed again

    @classmethod
    def requires_piecewise_for_cudagraph(cls, extra_config: dict[str, Any]) -> bool:
        return True  # layers are waited for

    # In the scheduler's process.

    def on_new_request(self, request: Request) -> None:
        if self.scheduler is not None:
            self.scheduler.stage(request)

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int | None, bool]:
        assert self.scheduler is not None
        return self.scheduler.found(request, num_computed_tokens // self._tokens) * self._tokens, False

    def update_state_after_alloc(self, request: Request, blocks: KVCacheBlocks, num_external_tokens: int) -> None:
        assert self.scheduler is not None
        self.scheduler.allocated(request, blocks.get_block_ids()[0], num_external_tokens // self._tokens)

    def build_connector_meta(self, scheduler_output: SchedulerOutput) -> KVConnectorMetadata:
        assert self.scheduler is not None
        return self.scheduler.step(scheduler_output)

    def update_connector_output(self, connector_output: KVConnectorOutput) -> None:
        if self.scheduler is not None and connector_output.invalid_block_ids:
            self.scheduler.failed()

    def request_finished(self, request: Request, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        if self.scheduler is not None:
            self.scheduler.forget(request)
        return False, None

    def request_finished_all_groups(
        self, request: Request, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, block_ids[0])

    def reset_cache(self) -> bool | None:
        return self.scheduler.reset() if self.scheduler is not None else None

    # In a worker's process.

    def register_kv_caches(self, kv_caches: dict[str, torch.Tensor]) -> None:
        assert self.worker is not None
        self.worker.register(kv_caches)

    def start_load_kv(self, forward_context: ForwardContext, **kwargs: Any) -> None:
        assert self.worker is not None
        self.worker.begin(self._get_connector_metadata())

    def wait_for_layer_load(self, layer_name: str) -> None:
        assert self.worker is not None
        self.worker.wait_for_layer(layer_name)

    def save_kv_layer(self, layer_name: str, kv_layer: torch.Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        assert self.worker is not None
        self.worker.computed(layer_name, self._get_connector_metadata())

    def wait_for_save(self) -> None:
        assert self.worker is not None
        self.worker.end()

    def get_block_ids_with_load_errors(self) -> set[int]:
        assert self.worker is not None
        return self.worker.failures()

    def get_kv_connector_stats(self) -> ArtesianStats | None:
        stats = self.worker.stats() if self.worker is not None else ArtesianStats()
        return None if stats.is_empty() else stats

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> ArtesianStats | None:
        return ArtesianStats(data)

    @classmethod
    def build_prom_metrics(
        cls, vllm_config: VllmConfig, metric_types: Any, labelnames: list[str], per_engine_labelvalues: dict[int, list[object]]
    ) -> ArtesianMetrics | None:
        return ArtesianMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    # In either.

    def shutdown(self) -> None:
        for side in (self.scheduler, self.worker):
            if side is not None:
                side.shutdown()
        self.scheduler = self.worker = None
