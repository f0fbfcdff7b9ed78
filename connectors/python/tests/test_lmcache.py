"""The LMCache adapter: against what LMCache 0.5.6 asks of a native plugin, and under its own class where it is installed."""

import inspect
import os
import pathlib
import select
import subprocess
import tempfile
import unittest

import artesian
from artesian.fingerprint import fingerprint
from artesian.lmcache import ArtesianL2

# Recorded from lmcache 0.5.6, NativeConnectorL2Adapter: name -> parameters.
CONTRACT = {
    "event_fd": [],
    "submit_batch_get": ["keys", "buffers"],
    "submit_batch_set": ["keys", "buffers"],
    "submit_batch_exists": ["keys"],
    "submit_batch_delete": ["keys"],
    "drain_completions": [],
    "close": [],
}
KEY = "HuggingFaceTB/SmolLM2-135M@01000100@0@%064x"


class LmcacheCase(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        self.plugins: list[ArtesianL2] = []
        self.addCleanup(lambda: [plugin.close() for plugin in self.plugins])

    def plugin(self, **options: object) -> ArtesianL2:
        options = {"capacity": "64M", "weights": "sha256:1", "dtype": "bfloat16", **options}
        made = ArtesianL2(self.folder + "/kv", **options)  # type: ignore[arg-type]
        self.plugins.append(made)
        return made

    def wait(self, plugin: ArtesianL2, future: int) -> tuple[bool, str, list[bool] | None]:
        while True:
            self.assertTrue(select.select([plugin.event_fd()], [], [], 10)[0], "no completion")
            for tag, ok, error, per_key in plugin.drain_completions():
                if tag == future:
                    return ok, error, per_key

    def test_it_has_what_lmcache_asks_for(self) -> None:
        for name, parameters in CONTRACT.items():
            self.assertEqual(list(inspect.signature(getattr(ArtesianL2, name)).parameters)[1:], parameters, name)

    def test_values_are_stored_found_loaded_and_deleted(self) -> None:
        plugin = self.plugin()
        keys = [KEY % i for i in range(4)]
        values = [bytearray(os.urandom(500_000)) for _ in keys]
        self.assertEqual(self.wait(plugin, plugin.submit_batch_set(keys, [memoryview(v) for v in values])), (True, "", None))
        self.assertEqual(self.wait(plugin, plugin.submit_batch_exists([*keys, KEY % 9]))[2], [True] * 4 + [False])
        buffers = [bytearray(500_000) for _ in range(5)]
        ok, _, hits = self.wait(plugin, plugin.submit_batch_get([*keys, KEY % 9], [memoryview(b) for b in buffers]))
        self.assertEqual((ok, hits), (True, [True] * 4 + [False]))
        self.assertEqual(buffers[:4], values)
        self.wait(plugin, plugin.submit_batch_delete(keys[:1]))
        self.assertEqual(self.wait(plugin, plugin.submit_batch_exists(keys))[2], [False, True, True, True])

    def test_a_value_of_another_size_is_no_hit(self) -> None:
        plugin = self.plugin()
        self.wait(plugin, plugin.submit_batch_set([KEY % 1], [memoryview(bytearray(1000))]))
        _, _, hits = self.wait(plugin, plugin.submit_batch_get([KEY % 1], [memoryview(bytearray(2000))]))
        self.assertEqual(hits, [False])

    def test_values_outlive_the_process_and_other_weights_do_not_see_them(self) -> None:
        plugin = self.plugin()
        self.wait(plugin, plugin.submit_batch_set([KEY % 1], [memoryview(bytearray(b"x" * 9000))]))
        plugin.close()
        for options, found in (({}, True), ({"weights": "sha256:2"}, False), ({"dtype": "float16"}, False), ({"layout": "other"}, False)):
            again = self.plugin(**options)
            self.assertEqual(self.wait(again, again.submit_batch_exists([KEY % 1]))[2], [found], options)
            again.close()

    def test_the_weights_are_demanded_and_found_in_the_models_folder(self) -> None:
        with self.assertRaisesRegex(ValueError, "weights"):
            ArtesianL2(self.folder + "/kv", "64M", dtype="bfloat16")
        with self.assertRaisesRegex(ValueError, "dtype"):
            ArtesianL2(self.folder + "/kv", "64M", weights="sha256:1")
        model = pathlib.Path(self.folder) / "model"
        model.mkdir()
        (model / "config.json").write_text("{}")
        with self.assertRaisesRegex(FileNotFoundError, "holds no weights"):
            fingerprint(model)
        (model / "model.safetensors").write_bytes(b"1" * 1000)
        one = fingerprint(model, self.folder)
        self.assertEqual(fingerprint(model, self.folder), one)
        (model / "model.safetensors").write_bytes(b"2" * 1000)  # the same name and size
        two = fingerprint(model, self.folder)
        self.assertNotEqual(one, two)
        self.assertEqual(two, fingerprint(model))
        (pathlib.Path(self.folder) / "fingerprints.json").write_text("broken")
        self.assertEqual(two, fingerprint(model, self.folder))

    def test_a_flipped_bit_is_a_miss_and_its_neighbours_are_hits(self) -> None:
        plugin = self.plugin()
        keys = [KEY % i for i in range(5)]
        values = [bytearray(bytes([65 + i]) * 100_000) for i in range(5)]
        self.wait(plugin, plugin.submit_batch_set(keys, [memoryview(v) for v in values]))
        plugin.close()
        file = pathlib.Path(self.folder) / "kv" / "artesian.store"
        content = bytearray(file.read_bytes())
        at = content.index(b"C" * 50_000) + 25_000
        content[at] ^= 4
        file.write_bytes(content)
        again = self.plugin()
        buffers = [bytearray(100_000) for _ in keys]
        _, _, hits = self.wait(again, again.submit_batch_get(keys, [memoryview(b) for b in buffers]))
        self.assertEqual(hits, [True, True, False, True, True])
        self.assertEqual(buffers[2], bytes(100_000))  # nothing of it is to be seen
        stats = again.stats()  # it is found when the store is opened, or when it is read
        self.assertEqual(stats["corrupt"] + stats["records_skipped"], 1)

    def test_a_server_starts_without_a_store_that_is_broken(self) -> None:
        self.plugin().close()
        os.truncate(self.folder + "/kv/artesian.store", 3 << 20)
        plugin, value = self.plugin(), bytearray(1000)
        keys = [KEY % i for i in range(2)]
        ok, why, _ = self.wait(plugin, plugin.submit_batch_set(keys, [memoryview(value)] * 2))
        self.assertEqual((ok, why), (False, "artesian: 2 rejected"))
        self.assertEqual(self.wait(plugin, plugin.submit_batch_exists(keys)), (True, "", [False, False]))
        self.assertEqual(self.wait(plugin, plugin.submit_batch_get(keys, [memoryview(value)] * 2)), (True, "", [False, False]))
        self.wait(plugin, plugin.submit_batch_delete(keys))
        plugin.flush()
        self.assertFalse(select.select([plugin.event_fd()], [], [], 0)[0])

    def test_keys_of_any_length(self) -> None:
        plugin = self.plugin()
        long = ["k" * 300, "k" * 301]
        self.wait(plugin, plugin.submit_batch_set(long[:1], [memoryview(bytearray(10))]))
        self.assertEqual(self.wait(plugin, plugin.submit_batch_exists(long))[2], [True, False])


if __name__ == "__main__":
    unittest.main()
