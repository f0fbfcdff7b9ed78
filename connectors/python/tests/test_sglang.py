"""ArtesianHiCache under SGLang's recorded signatures (0.5.23), with stand-ins for its host pool and for torch. Under SGLang's own classes
it is tested by tests/engines."""

import abc
import array
import dataclasses
import enum
import inspect
import os
import shutil
import sys
import tempfile
import types
import unittest

# Recorded from sglang 0.5.23, HiCacheStorage: name -> parameters.
CONTRACT = {
    "register_mem_pool_host": ["mem_pool_host"],
    "register_mem_host_pool_v2": ["host_pool", "host_pool_name"],
    "batch_exists_v2": ["keys", "pool_transfers", "extra_info"],
    "batch_get_v2": ["transfers", "extra_info"],
    "batch_set_v2": ["transfers", "extra_info"],
    "batch_get_v1": ["keys", "host_indices", "extra_info"],
    "batch_set_v1": ["keys", "host_indices", "extra_info"],
    "get": ["key", "target_location", "target_sizes"],
    "batch_get": ["keys", "target_locations", "target_sizes"],
    "set": ["key", "value", "target_location", "target_sizes"],
    "batch_set": ["keys", "values", "target_locations", "target_sizes"],
    "exists": ["key"],
    "batch_exists": ["keys", "extra_info"],
    "clear": [],
    "get_stats": [],
}


class Tensor:
    """Of torch: numbers in memory."""

    def __init__(self, numbers: array.array) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def tolist(self) -> list[int]:
        return self.numbers.tolist()

    def numel(self) -> int:
        return len(self.numbers)

    def element_size(self) -> int:
        return self.numbers.itemsize

    def data_ptr(self) -> int:
        return self.numbers.buffer_info()[0]

    def contiguous(self) -> "Tensor":
        return self


def record() -> None:
    """What ArtesianHiCache needs of torch and SGLang."""
    torch = types.ModuleType("torch")
    torch.Tensor, torch.int64 = Tensor, "q"
    torch.zeros = lambda count, dtype: Tensor(array.array(dtype, bytes(8 * count)))
    storage = types.ModuleType("sglang.srt.mem_cache.hicache_storage")

    class HiCacheStorage(abc.ABC):
        def register_mem_pool_host(self, mem_pool_host):
            self.mem_pool_host = mem_pool_host

        def register_mem_host_pool_v2(self, host_pool, host_pool_name):
            self.registered_pools = {**getattr(self, "registered_pools", {}), host_pool_name: host_pool}

    for name in ("get", "batch_get", "set", "batch_set", "exists"):
        setattr(HiCacheStorage, name, abc.abstractmethod(lambda self: None))
    abc.update_abstractmethods(HiCacheStorage)
    storage.HiCacheStorage = HiCacheStorage
    storage.HiCacheStorageConfig = types.SimpleNamespace
    storage.HiCacheStorageExtraInfo = dataclasses.make_dataclass("ExtraInfo", [("prefix_keys", list, None), ("extra_info", dict, None)])
    storage.PoolName = enum.Enum("PoolName", {"KV": "kv", "MAMBA": "mamba"}, type=str)
    storage.PoolName.__str__ = lambda self: self.value
    storage.PoolHitPolicy = enum.Enum("PoolHitPolicy", {"ALL_PAGES": "all_pages", "TRAILING_PAGES": "trailing_pages"}, type=str)
    storage.PoolTransfer = dataclasses.make_dataclass("PoolTransfer", [
        ("name", str), ("host_indices", Tensor, None), ("keys", list, None), ("hit_policy", str, storage.PoolHitPolicy.ALL_PAGES)])
    storage.PoolTransferResult = dataclasses.make_dataclass("PoolTransferResult", [
        ("kv_hit_pages", int), ("extra_pool_hit_pages", dict), ("restorable_prefix_pages", list, None)])
    for name in ("sglang", "sglang.srt", "sglang.srt.mem_cache"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules |= {"torch": torch, storage.__name__: storage}


record()

from artesian.sglang import ArtesianHiCache  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import PoolHitPolicy, PoolName, PoolTransfer  # noqa: E402

TOKENS, PIECE, PAGES = 4, 4096, 8


class Pool:
    """A host pool in the order page_first: K of all pages, then V of all pages."""

    layout, dtype, page_size, layer_num = "page_first", "bfloat16", TOKENS, 2

    def __init__(self) -> None:
        self.kv_buffer = array.array("B", bytes(2 * PAGES * PIECE))

    def pieces(self, page: int) -> tuple[slice, slice]:
        return tuple(slice(half + page * PIECE, half + (page + 1) * PIECE) for half in (0, PAGES * PIECE))

    def get_page_buffer_meta(self, indices: Tensor) -> tuple[list[int], list[int]]:
        base, first = self.kv_buffer.buffer_info()[0], indices.tolist()[::TOKENS]
        return [base + piece.start for index in first for piece in self.pieces(index // TOKENS)], [PIECE] * 2 * len(first)

    def get_dummy_flat_data_page(self) -> Tensor:
        return Tensor(array.array("B", bytes(2 * PIECE)))

    def fill(self, page: int, value: int) -> None:
        for piece in self.pieces(page):
            self.kv_buffer[piece] = array.array("B", bytes([value]) * PIECE)

    def holds(self, page: int) -> set[int]:
        return {value for piece in self.pieces(page) for value in self.kv_buffer[piece]}


def places(pages: list[int]) -> Tensor:
    return Tensor(array.array("q", [page * TOKENS + token for page in pages for token in range(TOKENS)]))


def names(count: int, start: int = 0) -> list[str]:
    return [f"{number:064x}" for number in range(start, start + count)]


class SglangCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.open: list[ArtesianHiCache] = []
        self.addCleanup(self.close)
        self.pool = Pool()
        for page in range(PAGES):
            self.pool.fill(page, page + 1)

    def close(self) -> None:
        while self.open:
            self.open.pop().close()

    def backend(self, pool: Pool | None = None, **facts: object) -> ArtesianHiCache:
        extra = {"path": self.folder + "/kv", "capacity": "64M", "weights": "sha256:1"} | facts.pop("extra", {})  # type: ignore[operator]
        config = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0, "attn_cp_size": 1, "dcp_rank": 0,
                  "dcp_size": 1, "is_mla_model": False, "enable_storage_metrics": False, "model_name": "m", "extra_config": extra, **facts}
        made = ArtesianHiCache(types.SimpleNamespace(**config), {})
        self.open.append(made)
        made.register_mem_pool_host(pool or self.pool)
        return made

    def test_it_has_what_sglang_asks_for(self) -> None:
        self.assertFalse(getattr(ArtesianHiCache, "__abstractmethods__"))
        for name, parameters in CONTRACT.items():
            self.assertEqual(list(inspect.signature(getattr(ArtesianHiCache, name)).parameters)[1:], parameters, name)

    def test_pages_come_back_elsewhere_after_a_restart(self) -> None:
        self.assertEqual(self.backend().batch_set_v1(names(3), places([0, 1, 2])), [True] * 3)
        self.close()
        again = self.backend()
        self.assertEqual((again.batch_exists(names(5)), again.exists(names(1, 2)[0]), again.exists(names(1, 3)[0])), (3, True, False))
        self.assertEqual(again.batch_get_v1(names(4), places([7, 6, 5, 4])), [True, True, True, False])
        self.assertEqual([self.pool.holds(page) for page in (7, 6, 5, 4)], [{1}, {2}, {3}, {5}])  # of what is not there, nothing is written

    def test_pages_in_tensors_of_the_callers(self) -> None:
        backend = self.backend()
        values = [Tensor(array.array("B", bytes([value]) * 2 * PIECE)) for value in (8, 9)]
        self.assertTrue(backend.batch_set(names(2), values))
        self.assertTrue(backend.set(names(1, 2)[0], values[0]))
        found = backend.batch_get(names(4), None)
        self.assertEqual([None if page is None else set(page.numbers) for page in found], [{8}, {9}, {8}, None])
        target = self.pool.get_dummy_flat_data_page()
        self.assertIs(backend.get(names(1)[0], target), target)
        self.assertIsNone(backend.get(names(1, 9)[0]))
        self.assertFalse(backend.set(names(1)[0], None))

    def test_a_second_pool_decides_which_prefixes_can_be_used(self) -> None:
        backend, side = self.backend(), Pool()
        backend.register_mem_host_pool_v2(side, PoolName.MAMBA)
        kept = PoolTransfer(PoolName.MAMBA, places([0, 1, 2]), [names(6)[at] for at in (0, 1, 4)])
        self.assertEqual(backend.batch_set_v2([PoolTransfer(PoolName.KV, places(list(range(5))), names(5)), kept]),
                         {PoolName.KV: [True] * 5, PoolName.MAMBA: [True] * 3})
        for policy, count, restorable in ((PoolHitPolicy.ALL_PAGES, 0, [1, 2]), (PoolHitPolicy.TRAILING_PAGES, 1, [1, 2, 5])):
            asked = PoolTransfer(PoolName.MAMBA, keys=names(count), hit_policy=policy)
            found = backend.batch_exists_v2(names(6), [asked])
            self.assertEqual((found.kv_hit_pages, found.restorable_prefix_pages), (restorable[-1], restorable), policy)
        self.assertTrue(backend.clear())
        self.assertEqual(backend.batch_exists_v2(names(6)).kv_hit_pages, 0)

    def test_other_weights_types_orders_and_ranks_see_nothing(self) -> None:
        self.assertEqual(self.backend().batch_set_v1(names(1), places([0])), [True])
        self.close()
        other_type, other_order = Pool(), Pool()
        other_type.dtype, other_order.layout = "float16", "layer_first"
        cases = ({"extra": {"weights": "sha256:2"}}, {"extra": {"salt": "s"}}, {"pool": other_type}, {"pool": other_order}, {"model_name": "n"},
                 {"tp_rank": 1, "tp_size": 2})
        for facts in cases:
            self.assertEqual(self.backend(**facts).batch_exists(names(1)), 0, facts)
            self.close()
        self.assertEqual(self.backend().batch_exists(names(1)), 1)

    def test_ranks_and_engines_share_a_store(self) -> None:
        """All at once, each with what is its own; ranks that hold the same KV (MLA) with what the first one stored."""
        split = [self.backend(tp_rank=rank, tp_size=2) for rank in range(2)]
        same = [self.backend(tp_rank=rank, tp_size=2, is_mla_model=True) for rank in range(2)]
        another_shard = self.backend(tp_rank=1, tp_size=2, is_mla_model=True, dcp_rank=1, dcp_size=2)
        for backend in (split[0], same[0]):
            backend.register_mem_host_pool_v2(self.pool, PoolName.MAMBA)
            self.assertEqual(backend.batch_set_v1(names(2), places([0, 1])), [True] * 2)
        self.assertEqual([each.batch_exists(names(2)) for each in (*split, *same, another_shard)], [2, 0, 2, 2, 0])
        self.assertEqual(same[1].batch_get_v1(names(2), places([6, 7])), [True] * 2)
        self.assertEqual([self.pool.holds(page) for page in (6, 7)], [{1}, {2}])
        # Mamba's state is split in any case.
        states = [PoolTransfer(PoolName.MAMBA, places([0, 1]), names(2))]
        same[1].register_mem_host_pool_v2(self.pool, PoolName.MAMBA)
        self.assertEqual(same[0].batch_set_v2(states), {PoolName.MAMBA: [True] * 2})
        self.assertEqual(same[1].batch_get_v2(states), {PoolName.MAMBA: [False] * 2})

    def test_an_engine_starts_without_a_store_that_is_broken(self) -> None:
        self.backend()
        self.close()
        os.truncate(self.folder + "/kv/artesian.store", 3 << 20)
        backend = self.backend()
        self.assertEqual(backend.batch_set_v1(names(3), places([0, 1, 2])), [False] * 3)
        self.assertEqual((backend.batch_exists(names(3)), backend.exists(names(1)[0])), (0, False))
        self.assertEqual(backend.batch_get_v1(names(2), places([6, 7])), [False, False])
        self.assertEqual([self.pool.holds(page) for page in (6, 7)], [{7}, {8}])
        self.assertTrue(backend.clear())

    def test_an_encrypted_store(self) -> None:
        key = self.folder + "/key"
        with open(key, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write("1f" * 32)
        self.assertEqual(self.backend(extra={"key_file": key}).batch_set_v1(names(1), places([0])), [True])
        self.close()
        with open(self.folder + "/kv/artesian.store", "rb") as file:
            self.assertNotIn(bytes([1]) * PIECE, file.read())
        self.assertEqual(self.backend(extra={"key_file": key}).batch_get_v1(names(1), places([7])), [True])
        self.assertEqual(self.pool.holds(7), {1})

    def test_pages_that_outgrow_the_store_are_said_so(self) -> None:
        self.backend()
        self.close()
        large = Pool()
        large.get_page_buffer_meta = lambda indices: ([large.kv_buffer.buffer_info()[0]], [2 * PAGES * PIECE])
        with self.assertLogs("sglang.artesian", "ERROR"):
            self.assertEqual(self.backend(large).batch_set_v1(names(1), places([0])), [False])

    def test_what_cannot_be_right_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "fingerprint"):
            ArtesianHiCache(types.SimpleNamespace(**{**vars(self.config()), "extra_config": {"path": self.folder}}))
        backend = self.backend()
        with self.assertLogs("sglang.artesian", "ERROR"):
            self.assertEqual(backend.batch_get_v1(names(2), places([0])), [False, False])
            backend.close()
            self.assertEqual(backend.batch_exists(names(2)), 0)
            self.assertEqual(backend.batch_set_v1(names(1), places([0])), [False])

    def config(self) -> types.SimpleNamespace:
        return types.SimpleNamespace(tp_rank=0, tp_size=1, pp_rank=0, pp_size=1, attn_cp_rank=0, attn_cp_size=1, dcp_rank=0, dcp_size=1,
                                     is_mla_model=False, enable_storage_metrics=False, model_name="m")


if __name__ == "__main__":
    unittest.main()
