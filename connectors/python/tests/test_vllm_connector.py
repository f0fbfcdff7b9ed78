"""ArtesianConnector: under vLLM's own abstract class where it is installed, else under its recorded signatures (0.32.0).

A scheduler's and a worker's connector in one process, stepped by hand as the engine does; "computing" writes bytes into the cache.
"""

import ctypes
import enum
import importlib
import importlib.util
import inspect
import json
import logging
import os
import subprocess
import sys
import tempfile
import types
import unittest
from abc import ABC, abstractmethod
from dataclasses import dataclass, make_dataclass

REAL = importlib.util.find_spec("vllm") is not None
LAYERS, BLOCKS, TOKENS, HEADS, SIZE = 4, 12, 16, 2, 32  # 2-byte numbers: 4 KiB a layer's block


def record() -> None:
    """What ArtesianConnector needs of vLLM 0.32.0, as recorded there."""

    class KVConnectorMetadata(ABC):
        pass

    class SupportsHMA(ABC):
        request_finished_all_groups = abstractmethod(lambda self, request, block_ids: None)

    class KVConnectorBase_V1(ABC):
        def __init__(self, vllm_config, role, kv_cache_config):
            self._metadata = None

        def bind_connector_metadata(self, connector_metadata):
            self._metadata = connector_metadata

        def clear_connector_metadata(self):
            self._metadata = None

        def _get_connector_metadata(self):
            return self._metadata

        start_load_kv = abstractmethod(lambda self, forward_context, **kwargs: None)
        wait_for_layer_load = abstractmethod(lambda self, layer_name: None)
        save_kv_layer = abstractmethod(lambda self, layer_name, kv_layer, attn_metadata, **kwargs: None)
        wait_for_save = abstractmethod(lambda self: None)
        get_num_new_matched_tokens = abstractmethod(lambda self, request, num_computed_tokens: None)
        update_state_after_alloc = abstractmethod(lambda self, request, blocks, num_external_tokens: None)
        build_connector_meta = abstractmethod(lambda self, scheduler_output: None)

    class FullAttentionSpec:
        def __init__(self, page_size_bytes):
            self.page_size_bytes = page_size_bytes

    base = types.ModuleType("vllm.distributed.kv_transfer.kv_connector.v1.base")
    base.KVConnectorMetadata, base.SupportsHMA, base.KVConnectorBase_V1 = KVConnectorMetadata, SupportsHMA, KVConnectorBase_V1
    base.KVConnectorRole = enum.Enum("KVConnectorRole", ["SCHEDULER", "WORKER"])
    interface = types.ModuleType("vllm.v1.kv_cache_interface")
    interface.FullAttentionSpec, interface.iter_layer_specs = FullAttentionSpec, lambda spec: (spec,)
    sources = types.ModuleType("vllm.v1.metrics.cache_hit_source")
    sources.CacheHitSource = enum.Enum("CacheHitSource", {"DISK": "disk"})
    logger = types.ModuleType("vllm.logger")
    logger.init_logger = logging.getLogger
    metrics, utils = types.ModuleType("vllm.distributed.kv_transfer.kv_connector.v1.metrics"), types.ModuleType("vllm.v1.metrics.utils")
    metrics.KVConnectorStats = make_dataclass("KVConnectorStats", [("data", dict)])
    metrics.KVConnectorPromMetrics, utils.create_metric_per_engine = object, None
    modules = [base, interface, sources, logger, metrics, utils]
    for module in modules:
        parts = module.__name__.split(".")
        for count in range(1, len(parts)):
            sys.modules.setdefault(".".join(parts[:count]), types.ModuleType(".".join(parts[:count])))
        sys.modules[module.__name__] = module


if not REAL:
    record()

from hub import hub  # noqa: E402
import artesian.vllm_connector as subject  # noqa: E402
from artesian.fingerprint import fingerprint  # noqa: E402
from artesian import Outcome  # noqa: E402
from artesian.vllm_connector import ArtesianConnector, layer_of  # noqa: E402
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorRole  # noqa: E402
from vllm.v1.kv_cache_interface import FullAttentionSpec  # noqa: E402

PAGE = TOKENS * HEADS * 2 * SIZE * 2
subject._RECORD_BYTES_MIN = 2 * PAGE  # so that a block of these small ones is two records
NAMES = [f"model.layers.{number}.attn" for number in range(LAYERS)]


class Cache:
    """A layer's cache as torch shows it."""

    def __init__(self, shape=(BLOCKS, HEADS, TOKENS, 2 * SIZE), stride=(PAGE // 2, PAGE // 4, 2 * SIZE, 1), device="cpu"):
        self.shape, self._stride, self.device = shape, stride, types.SimpleNamespace(type=device)
        self.memory = (ctypes.c_char * (BLOCKS * PAGE))()

    def stride(self):
        return self._stride

    def element_size(self):
        return 2

    def data_ptr(self):
        return ctypes.addressof(self.memory)

    def block(self, number):
        return self.memory[number * PAGE : (number + 1) * PAGE]

    def fill(self, number, byte):
        self.memory[number * PAGE : (number + 1) * PAGE] = bytes([byte]) * PAGE


@dataclass
class Request:
    request_id: str
    block_hashes: list
    num_tokens: int
    lora_request: object = None
    skip_reading_prefix_cache: bool = False


def request(name, tokens, start=0, **more):
    return Request(name, [b"%032d" % (start + number) for number in range(tokens // TOKENS)], tokens, **more)


def spec():
    if not REAL:
        return FullAttentionSpec(PAGE)
    import torch

    return FullAttentionSpec(block_size=TOKENS, num_kv_heads=HEADS, head_size=SIZE, dtype=torch.bfloat16)


def configs(path, **more):
    extra = {"path": path, "capacity": "64M", "weights": "sha256:1", **more.pop("extra", {})}
    parallel = dict.fromkeys(
        ("pipeline_parallel_size", "decode_context_parallel_size", "prefill_context_parallel_size", "tensor_parallel_size"), 1)
    config = types.SimpleNamespace(
        kv_transfer_config=types.SimpleNamespace(
            kv_connector_extra_config=extra, kv_load_failure_policy="recompute", is_kv_producer=True),
        parallel_config=types.SimpleNamespace(rank=0, world_size=1, **parallel),
        scheduler_config=types.SimpleNamespace(async_scheduling=False),
        load_config=types.SimpleNamespace(download_dir=None),
        cache_config=types.SimpleNamespace(
            block_size=TOKENS, cache_dtype="auto", enable_prefix_caching=True, prefix_caching_hash_algo="sha256"),
        model_config=types.SimpleNamespace(
            model="m", revision=None, dtype=more.pop("dtype", "torch.bfloat16"), quantization=None,
            hf_config=types.SimpleNamespace(to_dict=lambda: {"rope_theta": 1})),
    )
    cache = types.SimpleNamespace(
        num_blocks=BLOCKS, hash_block_size=TOKENS, kv_cache_layout="LBHNC",
        kv_cache_groups=[types.SimpleNamespace(kv_cache_spec=spec(), layer_names=NAMES)])
    for name, value in more.items():
        owner = config.cache_config if hasattr(config.cache_config, name) else config.scheduler_config
        setattr(owner, name, value)
    return config, cache


class Engine:
    """A scheduler's and a worker's connector, and the engine's steps around them."""

    def __init__(self, path, **more):
        config, cache = configs(path, **more)
        self.caches = {name: Cache() for name in NAMES}
        self.scheduler = ArtesianConnector(config, KVConnectorRole.SCHEDULER, cache)
        self.worker = ArtesianConnector(config, KVConnectorRole.WORKER, cache)
        self.worker.register_kv_caches(self.caches)
        self.failed = set()

    def close(self):
        self.scheduler.shutdown()
        self.worker.shutdown()

    def step(self, of, blocks, byte=None, computed=0, tokens=None):
        """Schedules the request with `computed` tokens of its own, runs a forward; the tokens that came from the store."""
        self.scheduler.on_new_request(of)
        found, later = self.scheduler.get_num_new_matched_tokens(of, computed)
        assert not later
        self.scheduler.update_state_after_alloc(of, types.SimpleNamespace(get_block_ids=lambda: (blocks,)), found)
        have = computed + found
        new = types.SimpleNamespace(req_id=of.request_id, num_computed_tokens=have)
        self.forward([new], {of.request_id: (tokens or of.num_tokens) - have}, blocks, have // TOKENS, byte)
        return found

    def forward(self, new, scheduled, blocks, first, byte):
        cached = types.SimpleNamespace(req_ids=[], num_computed_tokens=[])
        state = types.SimpleNamespace(get_block_ids=lambda name: (blocks,))
        meta = self.scheduler.build_connector_meta(types.SimpleNamespace(
            scheduled_new_reqs=new, scheduled_cached_reqs=cached, num_scheduled_tokens=scheduled, kv_connector_block_state=state))
        self.worker.bind_connector_metadata(meta)
        if meta.loads:  # else vLLM begins loads when the layers are computed
            self.worker.start_load_kv(None)
        for name, cache in self.caches.items():
            self.worker.wait_for_layer_load(name)
            for number in range(first, len(blocks)):
                cache.fill(blocks[number], byte if byte is not None else 64 + number)
            self.worker.save_kv_layer(name, cache, None)
        if not meta.loads:
            self.worker.start_load_kv(None)
        self.worker.wait_for_save()
        self.failed = self.worker.get_block_ids_with_load_errors()
        self.worker.clear_connector_metadata()
        self.scheduler.update_connector_output(types.SimpleNamespace(invalid_block_ids=self.failed))

    def finish(self, of):
        return self.scheduler.request_finished_all_groups(of, ([],))


class ConnectorCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        self.engines = []
        self.addCleanup(lambda: [engine.close() for engine in self.engines])

    def engine(self, **more):
        for engine in self.engines:
            engine.close()
        self.engines = [Engine(self.folder + "/kv", **more)]
        return self.engines[0]

    def filled(self, tokens=5 * TOKENS + 3):
        engine = self.engine()
        self.assertEqual(engine.step(request("a", tokens), list(range(tokens // TOKENS + 1))), 0)
        engine.finish(request("a", tokens))
        return engine

    def erase(self, engine, number, record=0):
        space = engine.worker.worker._space
        self.assertEqual(space.erase([b"%032d" % number + bytes([record])]), [Outcome.HIT])

    def test_every_abstract_method_is_there_and_takes_what_vllm_gives(self):
        from vllm.distributed.kv_transfer.kv_connector.v1 import base

        self.assertFalse(ArtesianConnector.__abstractmethods__)
        for kind in (base.KVConnectorBase_V1, base.SupportsHMA):
            for name in kind.__abstractmethods__:
                theirs = list(inspect.signature(getattr(kind, name)).parameters)
                self.assertEqual(list(inspect.signature(getattr(ArtesianConnector, name)).parameters), theirs, name)

    def test_whole_blocks_come_back_after_a_restart_and_a_token_is_left(self):
        self.filled()
        for tokens, hits in ((1, 0), (TOKENS, 0), (TOKENS + 1, 1), (4 * TOKENS, 3), (5 * TOKENS + 3, 5), (9 * TOKENS, 5)):
            engine = self.engine()
            blocks = list(range(BLOCKS - 1, BLOCKS - 2 - tokens // TOKENS, -1))
            self.assertEqual(engine.step(request("b", tokens), blocks), hits * TOKENS, tokens)
            for number in range(hits):
                for cache in engine.caches.values():
                    self.assertEqual(cache.block(blocks[number]), bytes([64 + number]) * PAGE)
            self.assertEqual(engine.failed, set())

    def test_what_the_engine_has_itself_is_not_asked_for(self):
        self.filled()
        engine = self.engine()
        self.assertEqual(engine.step(request("b", 5 * TOKENS + 3), list(range(6)), computed=3 * TOKENS), 2 * TOKENS)
        self.assertEqual(engine.caches[NAMES[0]].block(0), bytes(PAGE))
        self.assertEqual(engine.caches[NAMES[0]].block(4), b"D" * PAGE)
        self.assertEqual(engine.scheduler.get_num_new_matched_tokens(request("b", 5 * TOKENS + 3), 5 * TOKENS), (0, False))

    def test_a_block_that_is_gone_fails_alone_and_nothing_of_its_step_is_stored(self):
        for record in (0, 1):
            with self.subTest(record=record):
                self.gone(record)
                subprocess.run(["rm", "-rf", self.folder + "/kv"], check=True)

    def gone(self, record):
        engine = self.filled()
        of = request("b", 7 * TOKENS)
        self.scheduled_then_gone(engine, of, record)
        self.assertEqual(engine.failed, {8})
        self.assertEqual(engine.caches[NAMES[0]].block(9), b"B" * PAGE)
        self.assertEqual(engine.scheduler.get_num_new_matched_tokens(request("c", 7 * TOKENS), 0), (TOKENS, False))
        # Computed again from there on, it is stored.
        again = types.SimpleNamespace(req_id="b", num_computed_tokens=TOKENS)
        engine.forward([again], {"b": 6 * TOKENS}, [7, 8, 9, 10, 11, 0, 1], 1, None)
        self.assertEqual(engine.scheduler.get_num_new_matched_tokens(request("c", 8 * TOKENS), 0), (7 * TOKENS, False))

    def scheduled_then_gone(self, engine, of, record):
        """The block vanishes between the look-up and the load."""
        scheduler = engine.scheduler
        found, _ = scheduler.get_num_new_matched_tokens(of, 0)
        self.assertEqual(found, 5 * TOKENS)
        blocks = [7, 8, 9, 10, 11, 0, 1]
        scheduler.update_state_after_alloc(of, types.SimpleNamespace(get_block_ids=lambda: (blocks,)), found)
        self.erase(engine, 1, record)
        new = types.SimpleNamespace(req_id="b", num_computed_tokens=found)
        engine.forward([new], {"b": 2 * TOKENS}, blocks, 5, 1)

    def test_a_block_of_another_size_is_not_taken(self):
        engine = self.filled()
        self.erase(engine, 2)
        engine.worker.worker._space.put([b"%032d" % 2 + b"\0"], [b"short" * 100])
        engine.step(request("b", 5 * TOKENS + 3), [6, 7, 8, 9, 10, 11])
        self.assertEqual(engine.failed, {8})

    def test_chunks_of_a_prompt_are_stored_as_they_are_whole(self):
        engine = self.engine()
        of = request("a", 4 * TOKENS)
        engine.step(of, [0, 1], tokens=TOKENS + 5)
        self.assertEqual(engine.scheduler.get_num_new_matched_tokens(request("b", 9 * TOKENS), 0), (TOKENS, False))
        more = types.SimpleNamespace(req_id="a", num_computed_tokens=TOKENS + 5)
        engine.forward([more], {"a": 2 * TOKENS}, [0, 1, 2, 3], 1, None)
        self.assertEqual(engine.scheduler.get_num_new_matched_tokens(request("b", 9 * TOKENS, 0), 0), (3 * TOKENS, False))

    def test_nothing_of_others_is_seen(self):
        self.filled()
        for more in ({"extra": {"weights": "sha256:2"}}, {"extra": {"salt": "s"}}, {"dtype": "torch.float16"}, {"prefix_caching_hash_algo": "sha256_cbor"}):
            self.assertEqual(self.engine(**more).scheduler.get_num_new_matched_tokens(request("b", 90), 0), (0, False), more)
        self.assertEqual(self.engine().scheduler.get_num_new_matched_tokens(request("b", 90), 0), (5 * TOKENS, False))

    def test_the_weights_are_those_of_the_revision(self):
        with hub(self.folder + "/hub", "of/m", ["a", "b"]) as snapshots:
            for revision, folder in ((None, "b"), ("a", "a"), ("b", "b")):
                config, cache = configs(self.folder + "/kv", extra={"weights": None})
                config.model_config.model, config.model_config.revision = "of/m", revision
                self.assertEqual(subject.Settings(config, cache).weights, fingerprint(snapshots / folder), revision)
            config.model_config.revision = "absent"
            with self.assertRaisesRegex(ValueError, "weights"):
                subject.Settings(config, cache)

    def test_what_is_read_and_what_the_compute_waits_for_is_counted(self):
        engine = self.filled()
        self.assertEqual(engine.worker.get_kv_connector_stats().data["bytes_stored"], 5 * LAYERS * PAGE)
        self.assertIsNone(engine.worker.get_kv_connector_stats())
        engine.step(request("b", 5 * TOKENS + 3), [6, 7, 8, 9, 10, 11])
        stats = engine.worker.get_kv_connector_stats()
        self.assertEqual((stats.data["bytes_loaded"], stats.data["blocks_failed"]), (5 * LAYERS * PAGE, 0))
        self.assertGreater(stats.data["seconds_reading"], 0)
        self.assertLessEqual(stats.data["seconds_blocked"], stats.data["seconds_reading"])
        again = ArtesianConnector.build_kv_connector_stats(dict(stats.data)).aggregate(stats)
        self.assertEqual(again.reduce()["MB from flash"], round(2 * 5 * LAYERS * PAGE / 1e6, 1))

    def test_an_adapter_is_known_by_its_content(self):
        engine, found = self.engine(), []
        for number, content in enumerate((b"1" * 100, b"1" * 100, b"2" * 100)):
            path = f"{self.folder}/adapter{number}"
            os.mkdir(path)
            with open(path + "/adapter_model.safetensors", "wb") as file:
                file.write(content)
            lora = types.SimpleNamespace(lora_int_id=number, lora_path=path)
            found.append(engine.step(request(f"r{number}", 40, lora_request=lora), [0, 1, 2]))
        self.assertEqual(found, [0, 2 * TOKENS, 0])
        absent = types.SimpleNamespace(lora_int_id=9, lora_path=self.folder + "/absent")
        self.assertEqual(engine.step(request("x", 40, lora_request=absent), [0, 1, 2]), 0)
        self.assertEqual(engine.step(request("y", 40, lora_request=absent), [0, 1, 2]), 0)

    def test_after_a_reset_nothing_is_found_by_this_engine_or_the_next(self):
        engine = self.filled()
        self.assertTrue(engine.scheduler.reset_cache())
        self.assertEqual(engine.step(request("b", 40), [0, 1, 2]), 0)
        self.assertEqual(engine.step(request("c", 40), [3, 4, 5]), 2 * TOKENS)
        self.assertEqual(self.engine().scheduler.get_num_new_matched_tokens(request("d", 90), 0), (0, False))

    def test_a_store_that_is_gone_is_a_miss_and_raises_nothing(self):
        engine = self.filled()
        of = request("b", 5 * TOKENS + 3)
        found, _ = engine.scheduler.get_num_new_matched_tokens(of, 0)
        blocks = [6, 7, 8, 9, 10, 11]
        engine.scheduler.update_state_after_alloc(of, types.SimpleNamespace(get_block_ids=lambda: (blocks,)), found)
        engine.worker.worker.store.close()
        engine.forward([types.SimpleNamespace(req_id="b", num_computed_tokens=found)], {"b": 3}, blocks, 5, None)
        self.assertEqual(engine.failed, {6, 7, 8, 9, 10})
        self.assertEqual(engine.step(request("c", 40), [0, 1, 2]), 0)
        self.assertEqual(engine.finish(of), (False, None))

    def test_a_deadline_is_that_of_the_step_whatever_waits_for_a_thread(self):
        engine = self.filled()
        given, space = [], engine.worker.worker._space
        real = space.get_sizes

        def slow(keys, buffers, deadline):
            given.append(deadline)
            engine.worker.worker._begun -= 3  # as if that had taken so long
            return real(keys, buffers, deadline=deadline)

        space.get_sizes = slow
        engine.step(request("b", 5 * TOKENS + 3), [6, 7, 8, 9, 10, 11])
        self.assertEqual(len(given), 2)
        self.assertLess(max(given), 5.01)
        self.assertLess(min(given), 2.01)
        self.assertGreater(min(given), 0)

    def test_an_engine_starts_without_a_store_that_is_broken(self):
        self.filled().close()
        self.engines = []
        os.truncate(self.folder + "/kv/artesian.store", 3 << 20)
        engine = self.engine()
        for name in ("b", "c"):
            self.assertEqual(engine.step(request(name, 40), [0, 1, 2]), 0)
        self.assertEqual(engine.failed, set())
        stats = engine.worker.get_kv_connector_stats()
        self.assertEqual(0 if stats is None else stats.data["bytes_stored"], 0)

    def test_settings_are_printed_for_either(self):
        for options, kind in ((["--connector"], "ArtesianConnector"), ([], "OffloadingConnector")):
            command = [sys.executable, "-m", "artesian.vllm", "config", "--path", "/kv", "--capacity", "2T", *options]
            printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
            self.assertEqual((printed["kv_connector"], printed["kv_load_failure_policy"]), (kind, "recompute"))
            module = printed.get("kv_connector_module_path", "artesian.vllm_connector")
            self.assertTrue(hasattr(importlib.import_module(module), "ArtesianConnector"))
        bad = subprocess.run([*command[:-1], "much"], capture_output=True, text=True)
        self.assertEqual((bad.returncode, bad.stdout, "much" in bad.stderr), (2, "", True))

    def test_what_it_would_not_do_right_is_refused(self):
        for more, word in (({"extra": {"path": ""}}, "path"), ({"extra": {"pth": "x"}}, "pth"), ({"enable_prefix_caching": False}, "prefix"),
                           ({"async_scheduling": True}, "asynchronous")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, word):
                Engine(self.folder + "/kv", **more)
        with self.assertRaisesRegex(ValueError, "host memory"):
            layer_of("l", Cache(device="cuda"), BLOCKS)
        with self.assertRaisesRegex(ValueError, "one range"):
            layer_of("l", Cache(stride=(PAGE // 4, BLOCKS * PAGE // 4, 2 * SIZE, 1)), BLOCKS)
        tokens_first = layer_of("l", Cache(stride=(PAGE // 2, 2 * SIZE, HEADS * 2 * SIZE, 1)), BLOCKS)
        self.assertEqual((tokens_first.stride, tokens_first.bytes), (PAGE, PAGE))
        self.assertEqual(layer_of("l", Cache(), BLOCKS // 2).bytes, 2 * PAGE)


if __name__ == "__main__":
    unittest.main()
