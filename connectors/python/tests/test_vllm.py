"""ArtesianTier: under vLLM's own abstract class where it is installed, else under its recorded signatures (0.32.0)."""

import dataclasses
import enum
import importlib.util
import inspect
import logging
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest
from abc import ABC, abstractmethod

REAL = importlib.util.find_spec("vllm") is not None


def record() -> None:
    """What ArtesianTier needs of vLLM 0.32.0, as recorded there."""

    class SecondaryTierManager(ABC):
        def __init__(self, offloading_spec, primary_kv_view, tier_type, backpressure_detector=None):
            self._block_size_bytes, self.tier_type, self.locality = primary_kv_view.strides[0], tier_type, None

        @property
        def block_size_bytes(self):
            return self._block_size_bytes

        lookup = abstractmethod(lambda self, key, req_context: None)
        submit_store = abstractmethod(lambda self, job_metadata: None)
        submit_load = abstractmethod(lambda self, job_metadata: None)
        get_finished_jobs = abstractmethod(lambda self: None)
        on_new_request = abstractmethod(lambda self, req_context: None)
        drain_jobs = abstractmethod(lambda self: None)

    @dataclasses.dataclass
    class TransferJob:
        job_id: int
        keys: object
        chunk_ids: object
        is_promotion: bool
        req_context: object
        submit_time: float = 0

    @dataclasses.dataclass
    class JobResult:
        job_id: int
        success: bool
        successful_keys: object = None
        transfer_time: object = None
        transfer_bytes: object = None

    base = types.ModuleType("vllm.v1.kv_offload.base")
    base.Locality = enum.Enum("Locality", {"LOCAL": "LOCAL", "REMOTE": "REMOTE"})
    base.LookupResult = enum.Enum("LookupResult", ["MISS", "HIT", "HIT_PENDING", "RETRY"])
    base.Medium = enum.Enum("Medium", {"CPU": "CPU", "STORAGE": "STORAGE"})
    base.RequestOffloadingContext = types.SimpleNamespace
    tiering = types.ModuleType("vllm.v1.kv_offload.tiering.base")
    tiering.SecondaryTierManager, tiering.TransferJob, tiering.JobResult = SecondaryTierManager, TransferJob, JobResult
    logger = types.ModuleType("vllm.logger")
    logger.init_logger = logging.getLogger
    for name in ("vllm", "vllm.v1", "vllm.v1.kv_offload", "vllm.v1.kv_offload.tiering"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules |= {module.__name__: module for module in (base, tiering, logger)}


if not REAL:
    record()

from hub import hub  # noqa: E402
from artesian import StoreError  # noqa: E402
from artesian.vllm import ArtesianTier  # noqa: E402
from vllm.v1.kv_offload.base import LookupResult  # noqa: E402
from vllm.v1.kv_offload.tiering.base import TransferJob  # noqa: E402

BLOCK = 8192


def spec(name: str = "m", dtype: str = "bfloat16", tokens: int = 128, layers: tuple[str, ...] = ("l0", "l1")) -> types.SimpleNamespace:
    parallel = types.SimpleNamespace(rank=0, world_size=1, tp_size=1, pp_size=1, pcp_size=1, dcp_size=1, data_parallel_size=1)
    config = types.SimpleNamespace(
        model=types.SimpleNamespace(name=name, dtype=dtype),
        groups=[types.SimpleNamespace(tokens_per_block=tokens, layer_names=layers)],
        cache=types.SimpleNamespace(tokens_per_hash=tokens, blocks_per_chunk=1),
        parallel=parallel,
        kv_cache_layout="NHD",
        canonical_layout=False,
        replicated_layout=False,
    )
    return types.SimpleNamespace(config=config)


def keys(count: int, start: int = 0) -> list[bytes]:
    return [b"%032d" % number + b"\0\0\0\0" for number in range(start, start + count)]


class TierCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        self.memory = bytearray(16 * BLOCK)
        self.tiers: list[ArtesianTier] = []
        self.addCleanup(lambda: [tier.shutdown() for tier in self.tiers])
        self.request = types.SimpleNamespace(req_id="r1")
        self.jobs = 0

    def tier(self, of: types.SimpleNamespace | None = None, **options: object) -> ArtesianTier:
        for tier in self.tiers:
            tier.shutdown()
        view = memoryview(self.memory).cast("B", (16, BLOCK))
        options = {"path": self.folder + "/kv", "capacity": "64M", "weights": "sha256:1", **options}
        self.tiers = [ArtesianTier(offloading_spec=of or spec(), primary_kv_view=view, tier_type="artesian", **options)]
        return self.tiers[0]

    def job(self, some: list[bytes], chunks: list[int], load: bool) -> TransferJob:
        self.jobs += 1
        return TransferJob(job_id=self.jobs, keys=some, chunk_ids=chunks, is_promotion=load, req_context=self.request)

    def done(self, tier: ArtesianTier) -> dict[int, object]:
        results: dict[int, object] = {}
        end = time.monotonic() + 10
        while tier.has_pending_work():
            self.assertLess(time.monotonic(), end)
            results |= {result.job_id: result for result in tier.get_finished_jobs()}
        return results

    def fill(self) -> list[bytes]:
        blocks = [bytes([65 + number]) * BLOCK for number in range(16)]
        self.memory[:] = b"".join(blocks)
        return blocks

    def stored(self) -> ArtesianTier:
        tier = self.tier()
        self.fill()
        tier.submit_store(self.job(keys(8), list(range(8)), False))
        self.assertTrue(all(result.success for result in self.done(tier).values()))
        return tier

    def test_every_abstract_method_is_there_and_takes_what_vllm_gives(self) -> None:
        from vllm.v1.kv_offload.tiering.base import SecondaryTierManager

        self.assertFalse(getattr(ArtesianTier, "__abstractmethods__"))
        for name in SecondaryTierManager.__abstractmethods__:
            theirs = list(inspect.signature(getattr(SecondaryTierManager, name)).parameters)
            self.assertEqual(list(inspect.signature(getattr(ArtesianTier, name)).parameters), theirs, name)

    def test_blocks_come_back_into_other_chunks_after_a_restart(self) -> None:
        self.stored()
        again = self.tier()
        self.memory[:] = bytes(16 * BLOCK)
        self.assertEqual([again.lookup(key, self.request) for key in keys(9)], [LookupResult.HIT] * 8 + [LookupResult.MISS])
        again.submit_load(self.job(keys(4), [15, 3, 9, 0], True))
        (result,) = self.done(again).values()
        self.assertEqual((result.success, result.transfer_bytes), (True, 4 * BLOCK))
        for number, chunk in enumerate([15, 3, 9, 0]):
            self.assertEqual(self.memory[chunk * BLOCK : (chunk + 1) * BLOCK], bytes([65 + number]) * BLOCK)

    def test_a_block_that_is_gone_fails_alone_and_is_not_asked_for_again(self) -> None:
        tier = self.stored()
        tier._space.erase(keys(1, 2))
        tier.submit_load(self.job(keys(4), [8, 9, 10, 11], True))
        (result,) = self.done(tier).values()
        self.assertFalse(result.success)
        self.assertEqual(list(result.successful_keys), [key for number, key in enumerate(keys(4)) if number != 2])
        self.assertEqual(tier.lookup(keys(1, 2)[0], self.request), LookupResult.MISS)
        tier.on_request_finished(self.request)
        tier.submit_load(self.job(keys(2, 100), [8, 9], True))
        (result,) = self.done(tier).values()
        self.assertEqual((result.success, result.successful_keys), (False, None))

    def test_nothing_of_other_weights_types_or_layouts_is_seen(self) -> None:
        self.stored()
        others = [
            (spec(), {"weights": "sha256:2"}),
            (spec(dtype="float16"), {}),
            (spec(tokens=64), {}),
            (spec(layers=("l0", "l2")), {}),
            (spec(name="n"), {}),
            (spec(), {"salt": "s"}),
        ]
        for of, options in others:
            self.assertEqual(self.tier(of, **options).lookup(keys(1)[0], self.request), LookupResult.MISS)
        self.assertEqual(self.tier().lookup(keys(1)[0], self.request), LookupResult.HIT)

    def test_the_fingerprint_is_found_or_demanded(self) -> None:
        with self.assertRaisesRegex(ValueError, "fingerprint"):
            self.tier(spec(name="nobody/absent-model"), weights=None)
        model = self.folder + "/model"
        os.mkdir(model)
        for content, found in ((b"1" * 100, LookupResult.MISS), (b"1" * 100, LookupResult.HIT), (b"2" * 100, LookupResult.MISS)):
            with open(model + "/model.safetensors", "wb") as file:
                file.write(content)
            tier = self.tier(spec(name=model), weights=None)
            self.assertEqual(tier.lookup(keys(1)[0], self.request), found)
            tier.submit_store(self.job(keys(1), [0], False))
            self.done(tier)

    def test_draining_waits_for_all_and_keeps_the_results(self) -> None:
        tier = self.tier()
        self.fill()
        for number in range(8):
            tier.submit_store(self.job(keys(2, 2 * number), [2 * number, 2 * number + 1], False))
        tier.drain_jobs()
        self.assertEqual(sorted(result.job_id for result in tier.get_finished_jobs()), list(range(1, 9)))
        self.assertFalse(tier.has_pending_work())

    def test_a_second_engine_shares_the_store(self) -> None:
        self.stored()
        memory = bytearray(16 * BLOCK)
        view = memoryview(memory).cast("B", (16, BLOCK))
        other = ArtesianTier(offloading_spec=spec(), primary_kv_view=view, tier_type="a", path=self.folder + "/kv", weights="sha256:1")
        other.submit_load(self.job(keys(2), [3, 4], True))
        (result,) = self.done(other).values()
        self.assertTrue(result.success)
        self.assertEqual(memory[3 * BLOCK : 5 * BLOCK], b"A" * BLOCK + b"B" * BLOCK)
        other.shutdown()

    def test_an_engine_starts_without_a_store_that_is_broken(self) -> None:
        self.stored().shutdown()
        self.tiers = []
        os.truncate(self.folder + "/kv/artesian.store", 3 << 20)
        tier = self.tier()
        self.assertEqual(tier.lookup(keys(1)[0], self.request), LookupResult.MISS)
        tier.submit_store(self.job(keys(2), [0, 1], False))
        tier.submit_load(self.job(keys(2), [2, 3], True))
        self.assertEqual([(result.success, result.successful_keys) for result in self.done(tier).values()], [(False, None)] * 2)
        tier.drain_jobs()

    def test_an_encrypted_store_and_a_wrong_key(self) -> None:
        for name, digits in (("key", "1f"), ("other", "2e")):
            with open(f"{self.folder}/{name}", "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
                file.write(digits * 32)
        tier = self.tier(key_file=self.folder + "/key")
        self.fill()
        tier.submit_store(self.job(keys(8), list(range(8)), False))
        self.done(tier)
        self.assertEqual(self.tier(key_file=self.folder + "/key").lookup(keys(1)[0], self.request), LookupResult.HIT)
        with self.assertRaises(StoreError):
            self.tier(key_file=self.folder + "/other")
        self.tiers = []

    def test_of_several_revisions_none_is_guessed(self) -> None:
        """vLLM does not tell a tier which revision of a model it loads."""
        with hub(self.folder + "/hub", "of/m", ["a"]):
            self.tier(spec(name="of/m"), weights=None)
        with hub(self.folder + "/hub", "of/m", ["b"]), self.assertRaisesRegex(ValueError, "weights"):
            self.tier(spec(name="of/m"), weights=None)


if __name__ == "__main__":
    unittest.main()
