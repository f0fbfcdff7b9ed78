"""ArtesianHiCache under SGLang's own classes: its factory of storage backends, its host pools, its controller's page functions.

Run by the python that has SGLang. There is no server here: SGLang's kernels are for GPUs. ARTESIAN_TEST_FOLDER, or the current folder.
"""

import inspect
import os
import pathlib
import shutil
import sys
import tempfile
import time
import types
import unittest
from unittest import mock

import transformers.image_utils  # noqa: F401  before the stand-in, which it would take for the real one

# There is no torchvision for this torch; SGLang imports it for models with pictures.
sys.modules |= {name: mock.MagicMock() for name in ("torchvision", "torchvision.io", "torchvision.transforms", "torchvision.transforms.functional")}

import torch  # noqa: E402
from sglang.srt.managers.cache_controller import HiCacheController  # noqa: E402
from sglang.srt.mem_cache.device_pool_info import KVBufferLayout, KVBuffers, MHABufferInfo  # noqa: E402
from sglang.srt.mem_cache.hicache_storage import (  # noqa: E402
    HiCacheStorage, HiCacheStorageConfig, HiCacheStorageExtraInfo, PoolHitPolicy, PoolName, PoolTransfer)
from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost  # noqa: E402
from sglang.srt.mem_cache.storage.backend_factory import StorageBackendFactory  # noqa: E402

PAGE, LAYERS, HEADS, WIDTH, PAGES = 64, 30, 3, 64, 12  # SmolLM2-135M: 2 pieces of 737,280 bytes


def host_pool(layout: str = "page_first", dtype: torch.dtype = torch.bfloat16, page: int = PAGE) -> MHATokenToKVPoolHost:
    device = [torch.zeros((page, HEADS, WIDTH), dtype=dtype) for _ in range(LAYERS)]
    pointers = torch.tensor([layer.data_ptr() for layer in device], dtype=torch.uint64)
    info = MHABufferInfo(
        buffers=KVBuffers(k=tuple(device), v=tuple(device), k_data_ptrs=pointers, v_data_ptrs=pointers, layout=KVBufferLayout.NHD),
        page_size=page, head_num=HEADS, head_dim=WIDTH, v_head_dim=WIDTH, dtype=dtype, device=torch.device("cpu"))
    return MHATokenToKVPoolHost(
        info, 1.0, 0, page, layout, pin_memory=False, device_capacity_tokens=page, start_layer=0, end_layer=LAYERS,
        host_token_capacity=PAGES * page)


def names(count: int, start: int = 0) -> list[str]:
    return [f"{number:064x}" for number in range(start, start + count)]


def places(pages: list[int], page: int = PAGE) -> torch.Tensor:
    return torch.cat([torch.arange(number * page, (number + 1) * page) for number in pages])


class Backend(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.open: list = []
        self.addCleanup(self.close)
        self.pool = host_pool()
        self.random = torch.Generator().manual_seed(7)

    def close(self) -> None:
        while self.open:
            self.open.pop().close()

    def backend(self, pool: MHATokenToKVPoolHost | None = None, config: dict | None = None, **options: object):
        extra = {"backend_name": "artesian", "module_path": "artesian.sglang", "class_name": "ArtesianHiCache", "interface_v1": 1,
                 "path": self.folder + "/kv", "capacity": "96M", "weights": "sha256:1", **options}
        facts = {"tp_rank": 0, "tp_size": 1, "pp_rank": 0, "pp_size": 1, "attn_cp_rank": 0, "attn_cp_size": 1, "is_mla_model": False,
                 "enable_storage_metrics": True, "is_page_first_layout": True, "model_name": "m", "extra_config": extra, **(config or {})}
        made = StorageBackendFactory.create_backend("dynamic", HiCacheStorageConfig(**facts), pool or self.pool)
        self.open.append(made)
        made.register_mem_pool_host(pool or self.pool)
        return made

    def fill(self, pool: MHATokenToKVPoolHost, pages: list[int]) -> list[torch.Tensor]:
        """What is in those pages from now on."""
        kept = []
        for number in pages:
            shape = pool.get_dummy_flat_data_page().shape
            page = torch.randint(0, 30000, shape, dtype=torch.int16, generator=self.random).view(pool.dtype)
            pool.set_from_flat_data_page(number * pool.page_size, page)
            kept.append(page.view(torch.int16))
        return kept

    def page(self, pool: MHATokenToKVPoolHost, number: int) -> torch.Tensor:
        return pool.get_data_page(number * pool.page_size).view(torch.int16)

    def test_it_takes_what_sglang_gives(self) -> None:
        from artesian.sglang import ArtesianHiCache

        self.assertTrue(issubclass(ArtesianHiCache, HiCacheStorage))
        self.assertFalse(getattr(ArtesianHiCache, "__abstractmethods__"))
        for name, theirs in inspect.getmembers(HiCacheStorage, inspect.isfunction):
            ours = getattr(ArtesianHiCache, name)
            self.assertEqual(list(inspect.signature(ours).parameters), list(inspect.signature(theirs).parameters), name)
            if name != "on_host_pools_registered":  # nothing is left to do then
                self.assertIsNot(ours, theirs, name)

    def test_pages_come_back_elsewhere_after_a_restart_by_v1(self) -> None:
        for layout in ("page_first", "page_first_direct", "layer_first"):
            with self.subTest(layout):
                pool = host_pool(layout)
                kept = self.fill(pool, list(range(4)))
                first = self.backend(pool)
                self.assertEqual(first.batch_exists(names(4)), 0)
                self.assertEqual(first.batch_set_v1(names(4), places([0, 1, 2, 3]), HiCacheStorageExtraInfo(prefix_keys=names(1, 99))), [True] * 4)
                self.assertEqual(first.batch_set_v1(names(2), places([0, 1])), [True] * 2)  # it is there already
                self.close()
                again = self.backend(pool)
                self.assertEqual((again.batch_exists(names(6)), again.exists(names(1)[0]), again.exists(names(1, 7)[0])), (4, True, False))
                self.assertEqual(again.batch_get_v1([*names(4), *names(1, 50)], places([9, 7, 8, 6, 5])), [True] * 4 + [False])
                for number, place in enumerate([9, 7, 8, 6]):
                    self.assertTrue(torch.equal(self.page(pool, place), kept[number]), number)
                self.assertEqual(again.get_stats().prefetch_pgs, [4])
                self.assertEqual(again.get_stats().prefetch_pgs, [])
                self.close()
                shutil.rmtree(self.folder + "/kv")

    def test_the_controllers_own_page_functions(self) -> None:
        """With interface_v1 and without: what was stored by one is loaded by the other."""
        backend, kept = self.backend(), self.fill(self.pool, [0, 1, 2])
        controller = types.SimpleNamespace(storage_backend=backend, storage_host_pool=self.pool, page_size=PAGE)
        operation = types.SimpleNamespace(request_id="r", is_terminated=lambda: False)
        self.assertTrue(HiCacheController._page_set_zero_copy(controller, names(2), places([0, 1])))
        self.assertTrue(HiCacheController._generic_page_set(controller, names(1, 2), places([2])))
        for get in (HiCacheController._page_get_zero_copy, HiCacheController._generic_page_get):
            self.pool.kv_buffer.zero_()
            self.assertEqual(get(controller, operation, names(4), places([4, 5, 6, 7])), 3)  # the fourth is not there
            for number in range(3):
                self.assertTrue(torch.equal(self.page(self.pool, 4 + number), kept[number]), number)

    def test_other_pools_and_what_each_must_have(self) -> None:
        backend, side = self.backend(), host_pool("page_first", page=16)
        backend.register_mem_host_pool_v2(self.pool, PoolName.KV)
        backend.register_mem_host_pool_v2(side, PoolName.SWA)
        kept = self.fill(side, list(range(5)))
        self.fill(self.pool, list(range(6)))
        stored = backend.batch_set_v2([
            PoolTransfer(PoolName.KV, host_indices=places(list(range(6))), keys=names(6)),
            PoolTransfer(PoolName.SWA, host_indices=places([0, 1, 2, 3, 4], 16), keys=[names(6)[at] for at in (0, 1, 2, 4, 5)]),
            PoolTransfer(PoolName.MAMBA, host_indices=places([0]), keys=names(1))])
        self.assertEqual(stored, {PoolName.KV: [True] * 6, PoolName.SWA: [True] * 5, PoolName.MAMBA: [False]})

        def found(*transfers: PoolTransfer):
            result = backend.batch_exists_v2(names(8), list(transfers))
            return result.kv_hit_pages, result.extra_pool_hit_pages, result.restorable_prefix_pages

        whole = PoolTransfer(PoolName.SWA)
        two = PoolTransfer(PoolName.SWA, keys=names(2), hit_policy=PoolHitPolicy.TRAILING_PAGES)
        self.assertEqual(found(), (6, {"kv": 6}, [1, 2, 3, 4, 5, 6]))
        self.assertEqual(found(whole), (3, {"kv": 6, "swa": 3}, [1, 2, 3]))
        self.assertEqual(found(two), (6, {"kv": 6, "swa": 6}, [1, 2, 3, 6]))
        self.assertEqual(found(whole, two), (3, {"kv": 6, "swa": 6}, [1, 2, 3]))
        self.assertEqual(found(PoolTransfer(PoolName.MAMBA)), (0, {"kv": 6}, []))
        self.assertEqual(backend.batch_get_v2([PoolTransfer(PoolName.SWA, host_indices=places([9, 8], 16), keys=[names(6)[5], names(6)[3]])]),
                         {PoolName.SWA: [True, False]})
        self.assertTrue(torch.equal(self.page(side, 9), kept[4]))
        self.assertEqual(backend.batch_get_v2([PoolTransfer(PoolName.SWA, host_indices=places([9], 16), keys=names(2))]),
                         {PoolName.SWA: [False, False]})
        self.assertTrue(backend.clear())
        self.assertEqual(found(whole), (0, {}, []))

    def test_nothing_of_other_weights_types_shapes_or_tenants_is_found(self) -> None:
        self.fill(self.pool, [0])
        self.assertEqual(self.backend().batch_set_v1(names(1), places([0])), [True])
        self.close()
        others = [({"weights": "sha256:2"}, None, None), ({"salt": "s"}, None, None), ({}, host_pool(dtype=torch.float16), None),
                  ({}, host_pool("page_first_direct"), None), ({}, host_pool(page=32), None), ({}, None, {"model_name": "n"})]
        for options, pool, config in others:
            self.assertEqual(self.backend(pool, config, **options).batch_exists(names(1)), 0, options)
            self.close()
        self.assertEqual(self.backend().batch_exists(names(1)), 1)

    def test_a_flipped_bit_is_a_miss_and_its_neighbours_are_hits(self) -> None:
        kept = self.fill(self.pool, [0, 1, 2, 3])
        self.assertEqual(self.backend().batch_set_v1(names(4), places([0, 1, 2, 3])), [True] * 4)
        self.close()
        file = pathlib.Path(self.folder) / "kv" / "artesian.store"
        content = bytearray(file.read_bytes())
        piece = self.pool.kv_buffer[0, 2 * PAGE : 3 * PAGE].contiguous().view(torch.uint8).numpy().tobytes()
        content[content.index(piece) + 300_000] ^= 16
        file.write_bytes(content)
        backend = self.backend()
        self.pool.kv_buffer.zero_()
        self.assertEqual(backend.batch_get_v1(names(4), places([4, 5, 6, 7])), [True, True, False, True])
        for number in (0, 1, 3):
            self.assertTrue(torch.equal(self.page(self.pool, 4 + number), kept[number]))
        self.assertFalse(self.page(self.pool, 6).any())
        self.assertEqual(backend.batch_exists(names(4)), 2)

    def test_the_cap_holds(self) -> None:
        backend = self.backend()
        self.fill(self.pool, list(range(PAGES)))
        for begin in range(0, 20 * PAGES, PAGES):  # 350 MB
            self.assertTrue(all(backend.batch_set_v1(names(PAGES, begin), places(list(range(PAGES))))))
            self.assertLessEqual(sum(path.stat().st_blocks * 512 for path in pathlib.Path(self.folder).rglob("*")), 96 << 20)
        self.assertEqual(backend.batch_exists(names(1)), 0)
        self.assertEqual(backend.batch_exists(names(PAGES, 19 * PAGES)), PAGES)

    def test_a_start_that_cannot_be_right_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "fingerprint"):
            StorageBackendFactory.create_backend("dynamic", HiCacheStorageConfig(
                0, 1, 0, 1, 0, 1, False, False, True, "nobody/absent", extra_config={
                    "backend_name": "a", "module_path": "artesian.sglang", "class_name": "ArtesianHiCache", "path": self.folder}), None)

    def test_ranks_and_replicas_share_a_store(self) -> None:
        """All are there at once. A rank has pages of its own, unless all hold the same KV (MLA); a replica finds those of another."""
        kept = self.fill(self.pool, [0])
        one, two = [self.backend(config={"tp_rank": rank, "tp_size": 2}) for rank in range(2)]
        self.assertEqual(one.batch_set_v1(names(1), places([0])), [True])
        self.assertEqual((one.batch_exists(names(1)), two.batch_exists(names(1))), (1, 0))
        replica = self.backend(config={"tp_rank": 0, "tp_size": 2})
        self.assertEqual(replica.batch_get_v1(names(1), places([5])), [True])
        self.assertTrue(torch.equal(self.page(self.pool, 5), kept[0]))
        first, second = [self.backend(config={"tp_rank": rank, "tp_size": 2, "is_mla_model": True}) for rank in range(2)]
        self.assertEqual(first.batch_set_v1(names(1), places([0])), [True])
        self.assertEqual(second.batch_get_v1(names(1), places([6])), [True])
        self.assertTrue(torch.equal(self.page(self.pool, 6), kept[0]))

    def test_a_closed_store_answers_and_raises_nothing(self) -> None:
        backend = self.backend()
        backend.close()
        with self.assertLogs("sglang.artesian", "ERROR"):
            self.assertEqual(backend.batch_exists(names(2)), 0)
            self.assertEqual(backend.batch_get_v1(names(2), places([0, 1])), [False, False])
            self.assertEqual(backend.batch_set_v1(names(2), places([0, 1])), [False, False])

    def test_python_takes_less_than_fifty_microseconds_a_page(self) -> None:
        """Besides the store's own work, which is measured apart and taken off."""
        pool = host_pool(page=2)
        backend, keys, where = self.backend(pool, capacity="32M"), names(PAGES), places(list(range(PAGES)), 2)
        backend.batch_set_v1(keys, where)
        spent = {"all": 0.0, "store": 0.0}
        native = backend._pools["kv"].space._native

        class Timed:
            def get(self, *arguments):
                begun = time.thread_time()
                try:
                    return native.get(*arguments)
                finally:
                    spent["store"] += time.thread_time() - begun

        backend._pools["kv"].space._native = Timed()
        for _ in range(50):
            begun = time.thread_time()
            self.assertTrue(all(backend.batch_get_v1(keys, where)))
            spent["all"] += time.thread_time() - begun
        cost = (spent["all"] - spent["store"]) / 50 / PAGES * 1e6
        print(f"\n{cost:.1f} us of Python a page in 2 pieces; at most 50")
        self.assertLess(cost, 50)


if __name__ == "__main__":
    unittest.main()
