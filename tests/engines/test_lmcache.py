"""ArtesianL2 under LMCache's own classes: its factory, its NativeConnectorL2Adapter, its benchmark. No server, no engine.

Run by the python that has LMCache; needs ARTESIAN_TEST_FOLDER or takes the current folder.
"""

import argparse
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import torch

os.environ |= {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_LOG_LEVEL": "WARNING"}

from lmcache.cli.commands.bench.l2_adapter_bench import data  # noqa: E402
from lmcache.v1.distributed.api import MemoryLayoutDesc, ObjectKey  # noqa: E402
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config  # noqa: E402
from lmcache.v1.distributed.l2_adapters.native_connector_l2_adapter import NativeConnectorL2Adapter  # noqa: E402

VALUE = 720 * 1024


def layout(dtype: torch.dtype = torch.uint8) -> dict[int, MemoryLayoutDesc]:
    return {0: MemoryLayoutDesc(shapes=[torch.Size([VALUE])], dtypes=[dtype])}


def spec(path: str, **options: object) -> dict:
    parameters = {"path": path, "capacity": "64M", "weights": "sha256:1", "dtype": "bfloat16", **options}
    return {"type": "native_plugin", "module_path": "artesian.lmcache", "class_name": "ArtesianL2",
            "adapter_params": parameters}


def keys_of(numbers: range, salt: str = "") -> list[ObjectKey]:
    return [ObjectKey(chunk_hash=number.to_bytes(32, "big"), model_name="HuggingFaceTB/SmolLM2-135M-Instruct",
                      kv_rank=0x01000100, cache_salt=salt) for number in numbers]


class Adapter(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.open = []
        self.addCleanup(self.close)
        self.buffer = data.make_aligned_tensor(32 * VALUE, 4096)

    def close(self) -> None:
        while self.open:
            self.open.pop().close()

    def adapter(self, **options: object) -> NativeConnectorL2Adapter:
        text = json.dumps(self.spec(**options))
        (config,) = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[text])).adapters
        self.open.append(create_l2_adapter(config, l1_memory_desc=data.create_l1_memory_desc(self.buffer, align_bytes=4096)))
        self.assertIsInstance(self.open[-1], NativeConnectorL2Adapter)
        return self.open[-1]

    def spec(self, **options: object) -> dict:
        return spec(self.folder + "/kv", **options)

    def objects(self, count: int, fill: int, first: int = 0) -> list:
        return data.make_memory_objects(self.buffer, count, VALUE, first * VALUE, fill)

    def answer(self, fd: int, ask) -> object:
        """What `ask` gives once there is something."""
        until = time.monotonic() + 20
        while (found := ask()) in (None, {}):
            self.assertLess(time.monotonic(), until, "no completion")
            if select.select([fd], [], [], 1)[0]:
                data.consume_fd(fd)
        return found

    def store(self, adapter, keys: list[ObjectKey], objects: list) -> bool:
        task = adapter.submit_store_task(keys, objects)
        done = self.answer(adapter.get_store_event_fd(), adapter.pop_completed_store_tasks)
        self.assertEqual(list(done), [task])
        return done[task].is_successful()

    def load(self, adapter, keys: list[ObjectKey], objects: list) -> list[bool]:
        task = adapter.submit_load_task(keys, objects)
        bitmap = self.answer(adapter.get_load_event_fd(), lambda: adapter.query_load_result(task))
        return [bitmap.test(place) for place in range(len(keys))]

    def lookup(self, adapter, keys: list[ObjectKey], dtype: torch.dtype = torch.uint8) -> list[bool]:
        task = adapter.submit_lookup_and_lock_task(keys, layout(dtype))
        bitmap = self.answer(adapter.get_lookup_and_lock_event_fd(), lambda: adapter.query_lookup_and_lock_result(task))
        return [bitmap.test(place) for place in range(len(keys))]

    def holds(self, objects: list, fill: int) -> list[bool]:
        return [bool((each.raw_data == (place + fill) % 256).all()) for place, each in enumerate(objects)]

    def test_values_are_stored_found_loaded_counted_and_deleted(self) -> None:
        adapter, keys = self.adapter(), keys_of(range(8))
        self.assertTrue(self.store(adapter, keys, self.objects(8, 10)))
        self.assertEqual(self.lookup(adapter, [*keys, *keys_of(range(8, 10))]), [True] * 8 + [False] * 2)
        adapter.submit_unlock(keys)
        self.assertEqual(adapter.get_usage().total_bytes_used, 8 * VALUE)
        targets = self.objects(8, 99, first=8)
        self.assertEqual(self.load(adapter, keys, targets), [True] * 8)
        self.assertEqual(self.holds(targets, 10), [True] * 8)
        adapter.delete(keys[:3])
        self.assertEqual(self.lookup(adapter, keys), [False] * 3 + [True] * 5)
        self.assertEqual(adapter.get_usage().total_bytes_used, 5 * VALUE)
        self.assertEqual(self.load(adapter, keys, targets), [False] * 3 + [True] * 5)
        self.assertTrue(adapter.report_status()["is_healthy"])

    def test_values_outlive_a_restart_and_only_their_own_model_sees_them(self) -> None:
        keys = keys_of(range(4))
        self.assertTrue(self.store(self.adapter(), keys, self.objects(4, 1)))
        self.close()
        for options, found in (({"weights": "sha256:2"}, False), ({"dtype": "float16"}, False), ({"layout": "other"}, False), ({}, True)):
            adapter, targets = self.adapter(**options), self.objects(4, 99, first=8)
            self.assertEqual(self.lookup(adapter, keys), [found] * 4, options)
            self.assertEqual(self.load(adapter, keys, targets), [found] * 4, options)
            self.assertEqual(self.holds(targets, 1), [found] * 4, options)
            self.assertEqual(self.lookup(adapter, keys_of(range(4), salt="other")), [False] * 4)
            self.close()

    def test_one_bad_value_is_a_miss_and_its_neighbours_are_hits(self) -> None:
        keys = keys_of(range(5))
        self.assertTrue(self.store(self.adapter(), keys, self.objects(5, 65)))
        self.close()
        file = pathlib.Path(self.folder) / "kv" / "artesian.store"
        content = bytearray(file.read_bytes())
        content[content.index(b"C" * 4096) + 2048] ^= 4
        file.write_bytes(content)
        adapter, targets = self.adapter(), self.objects(5, 99, first=8)
        self.assertEqual(self.load(adapter, keys, targets), [True, True, False, True, True])
        self.assertEqual(self.holds(targets, 65), [True, True, False, True, True])
        self.assertEqual(self.lookup(adapter, keys), [True, True, False, True, True])

    def test_the_cap_holds_and_what_was_evicted_after_the_lookup_is_a_miss(self) -> None:
        adapter, first = self.adapter(), keys_of(range(8))
        self.assertTrue(self.store(adapter, first, self.objects(8, 0)))
        self.assertEqual(self.lookup(adapter, first), [True] * 8)  # and "locked", which only LMCache knows of
        for begin in range(8, 8 + 256, 16):  # three times the cap
            self.assertTrue(self.store(adapter, keys_of(range(begin, begin + 16)), self.objects(16, 0)))
            used = sum(path.stat().st_blocks * 512 for path in pathlib.Path(self.folder).rglob("*"))
            self.assertLessEqual(used, 64 << 20)
        targets = self.objects(8, 99, first=16)
        self.assertEqual(self.load(adapter, first, targets), [False] * 8)
        self.assertEqual(self.load(adapter, keys_of(range(8 + 248, 8 + 256)), targets), [True] * 8)
        self.assertEqual(self.holds(targets, 8), [True] * 8)

    def test_python_takes_less_than_fifty_microseconds_a_value(self) -> None:
        """Of LMCache's threads, in submits and completions; the store's own work is measured apart and taken off."""
        adapter, keys = self.adapter(), keys_of(range(16))
        client, native = adapter._client, adapter._client._store._store
        spent = {"all": 0.0, "store": 0.0}

        def timed(name: str, call):
            def run(*arguments, **named):
                begun = time.thread_time()
                try:
                    return call(*arguments, **named)
                finally:
                    spent[name] += time.thread_time() - begun
            return run

        class Native:
            def __getattr__(self, name: str):
                return timed("store", getattr(native, name))

        client._store._store = client._space._native = Native()
        for name in ("submit_batch_set", "submit_batch_get", "submit_batch_exists", "drain_completions"):
            setattr(client, name, timed("all", getattr(client, name)))
        for _ in range(20):
            self.assertTrue(self.store(adapter, keys, self.objects(16, 0)))
            self.assertEqual(self.lookup(adapter, keys), [True] * 16)
            self.assertEqual(self.load(adapter, keys, self.objects(16, 0, first=16)), [True] * 16)
        cost = (spent["all"] - spent["store"]) / 20 / 16 * 1e6
        print(f"\n{cost:.1f} us of Python to store, find and load a value; at most 50 each")
        self.assertLess(cost, 3 * 50)

    def test_lmcaches_own_benchmark_verifies_every_value(self) -> None:
        report = self.folder + "/report.json"
        run = subprocess.run(
            [sys.executable, "-m", "lmcache.cli.main", "bench", "l2", "--l2-adapter", json.dumps(spec(self.folder + "/kv", capacity="256M")),
             "--num-keys", "8", "--in-flight", "2", "--data-size-kb", "2880", "--l1-align-bytes", "4096", "--no-skip-verify",
             "--lookup-max-hit-rate", "1.0", "--format", "json", "--output", report], capture_output=True, text=True, timeout=100)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("All 16 keys data verified OK", run.stdout)
        said = json.loads(pathlib.Path(report).read_text())["metrics"]
        self.assertEqual([said[f"op_{place}"]["total_success"] for place in range(3)], [16] * 3)


class KnowingAdapter(Adapter):
    """The same over the adapter that knows data types: all of the above, and that."""

    def spec(self, **options: object) -> dict:
        made = spec(self.folder + "/kv", **options)
        made["adapter_params"].pop("dtype") if "dtype" not in options else None
        return {**made, "type": "plugin", "module_path": "artesian.lmcache_adapter", "class_name": "ArtesianL2Adapter"}

    def test_another_data_type_is_another_value(self) -> None:
        adapter, keys = self.adapter(), keys_of(range(3))
        self.assertTrue(self.store(adapter, keys, self.objects(3, 7)))
        self.assertEqual(self.lookup(adapter, keys, torch.float16), [False] * 3)
        others = self.objects(3, 50, first=4)
        for each in others:
            each.meta.dtype = torch.float16
        self.assertEqual(self.load(adapter, keys, others), [False] * 3)
        self.assertTrue(self.store(adapter, keys[:1], others[:1]))
        self.assertEqual(self.lookup(adapter, keys, torch.float16), [True, False, False])
        targets = self.objects(3, 99, first=8)
        self.assertEqual(self.load(adapter, keys, targets), [True] * 3)
        self.assertEqual(self.holds(targets, 7), [True] * 3)
        adapter.delete(keys)
        for dtype in (torch.uint8, torch.float16):
            self.assertEqual(self.lookup(adapter, keys, dtype), [False] * 3)

    def test_what_another_start_has_stored_is_deleted(self) -> None:
        keys = keys_of(range(3))
        self.assertTrue(self.store(self.adapter(), keys, self.objects(3, 7)))
        self.close()
        again = self.adapter()
        self.assertEqual(self.lookup(again, keys), [True] * 3)
        again.delete(keys[:2])
        self.assertEqual(self.lookup(again, keys), [False] * 2 + [True])

    test_lmcaches_own_benchmark_verifies_every_value = None  # it looks up without saying of what type


if __name__ == "__main__":
    unittest.main()
