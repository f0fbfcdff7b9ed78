"""The package as a program uses it, on a real file."""

import asyncio
import gc
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import artesian
from artesian import Hints, Outcome

ROOT = pathlib.Path(__file__).resolve().parents[3]


class StoreCase(unittest.TestCase):
    def setUp(self) -> None:
        # Not in /tmp: a memory file system may refuse direct reads.
        self.folder = tempfile.mkdtemp(dir=os.environ.get("ARTESIAN_TEST_FOLDER", "."))
        self.addCleanup(lambda: subprocess.run(["rm", "-rf", self.folder], check=True))
        artesian.create(self.folder, "64M", segment="2M", block_max="1M")
        self.store = artesian.Store(self.folder, memory="8M")
        self.addCleanup(self.store.close)
        self.space = self.store.namespace(weights="sha256:1", dtype="bf16")

    def test_blocks_come_back_from_one_buffer_or_pieces(self) -> None:
        block = os.urandom(100_000)
        self.assertEqual(self.space.put([b"a", b"b"], [block, [block[:10], memoryview(block)[10:]]]), [Outcome.STORED] * 2)
        one, two = bytearray(100_000), bytearray(90_000)
        pieces = [one, [memoryview(two)[:4096], memoryview(two)[4096:], bytearray(10_000)]]
        outcomes, sizes = self.space.get_sizes([b"a", b"b"], pieces)
        self.assertEqual((outcomes, sizes), ([Outcome.HIT] * 2, [100_000] * 2))
        self.assertEqual(one, block)
        self.assertEqual(two, block[:90_000])

    def test_each_block_has_an_answer(self) -> None:
        self.space.put([b"a"], [b"1" * 5000])
        small = bytearray(100)
        self.assertEqual(
            self.space.get([b"a", b"absent", b""], [small, bytearray(9), bytearray(9)]),
            [Outcome.INVALID, Outcome.MISS, Outcome.INVALID],
        )
        self.assertEqual(self.space.put([b"a"], [b"2"]), [Outcome.PRESENT])
        self.assertEqual(self.space.exists([b"a", b"absent"]), [True, False])
        self.assertEqual(self.space.erase([b"a", b"absent"]), [Outcome.HIT, Outcome.MISS])
        self.assertEqual(self.space.get([b"a"], [bytearray(5000)]), [Outcome.MISS])

    def test_lineage_and_hints_are_kept(self) -> None:
        hints = Hints(session=7, position=1, tokens=16, next_use_ms=5, lifetime=1)
        self.space.put([b"root", b"leaf"], [b"r", b"l"], parents=[None, b"root"], attributes=[None, b"mine"], hints=[None, hints])
        blocks = {block.key: block for block in self.space}
        self.assertEqual(blocks[b"leaf"], artesian.Block(b"leaf", b"root", b"mine", 1, hints))
        self.assertEqual(blocks[b"root"].hints, Hints())
        self.assertEqual(self.space.longest_prefix([b"root", b"leaf", b"none"]), 2)

    def test_awaited_calls(self) -> None:
        async def work() -> None:
            await self.space.aput([b"k%d" % i for i in range(50)], [b"%d" % i * 5000 for i in range(50)])
            buffers = [bytearray(10_000) for _ in range(50)]
            calls = [self.space.aget([b"k%d" % i], [buffers[i]]) for i in range(50)]
            self.assertEqual(await asyncio.gather(*calls), [[Outcome.HIT]] * 50)
            for i in range(50):
                self.assertTrue(buffers[i].startswith(b"%d" % i))

        asyncio.run(work())
        asyncio.run(work())  # in another loop

    def test_staged_blocks_are_in_memory(self) -> None:
        self.store.close()
        self.store = artesian.Store(self.folder, memory="8M")
        self.addCleanup(self.store.close)
        space = self.store.namespace(weights="sha256:1", dtype="bf16")
        space.put([b"a"], [b"1" * 100_000])
        self.store.close()
        with artesian.Store(self.folder, memory="8M") as store:
            space = store.namespace(weights="sha256:1", dtype="bf16")
            self.assertEqual(asyncio.run(space.astage([b"a", b"absent"])), [Outcome.HIT, Outcome.MISS])
            space.get([b"a"], [bytearray(100_000)])
            self.assertEqual(store.stats()["memory_hits"], 1)

    def test_submitted_batches_are_drained_by_tag(self) -> None:
        import select

        tags = {self.space.submit_put([b"t%d" % i], [b"x" * 9000]): i for i in range(20)}
        seen = {}
        while len(seen) < 20:
            self.assertTrue(select.select([self.store.event_fd()], [], [], 10)[0])
            for tag, outcomes, sizes in self.store.drain():
                seen[tags[tag]] = outcomes
                self.assertIsNone(sizes)
        self.assertEqual(set(map(tuple, seen.values())), {(Outcome.STORED,)})

    def test_the_interpreter_goes_on_while_the_store_works(self) -> None:
        turns, stop = 0, threading.Event()

        def count() -> None:
            nonlocal turns
            while not stop.is_set():
                turns += 1

        thread = threading.Thread(target=count)
        thread.start()
        before = turns
        for i in range(30):
            self.space.put([b"b%d" % i], [os.urandom(1 << 20)])
        during = turns - before
        stop.set()
        thread.join()
        self.assertGreater(during, 0)

    def test_buffers_are_held_while_they_are_needed_and_no_longer(self) -> None:
        buffer = bytearray(5000)
        self.space.put([b"a"], [b"1" * 5000])
        tag = self.space.submit_get([b"a"], [buffer])
        with self.assertRaises(BufferError):
            buffer.extend(b"x")  # somebody reads into it
        while not (drained := self.store.drain()):
            pass
        self.assertEqual(drained, [(tag, [Outcome.HIT], [5000])])
        buffer.extend(b"x")
        with self.assertRaises(BufferError):
            self.space.get([b"a"], [b"read only"])
        with self.assertRaises(ValueError):
            self.space.get([b"a", b"b"], [buffer])
        gc.collect()

    def test_pins_end_with_their_owner(self) -> None:
        self.space.put([b"a"], [b"1"])
        with self.space.pin([b"a", b"absent"]) as pins:
            self.assertEqual(pins.outcomes, [Outcome.HIT, Outcome.MISS])
            self.assertEqual(self.store.stats()["pinned"], 1)
        self.assertEqual(self.store.stats()["pinned"], 0)

    def test_named_pins_stay_until_they_are_removed(self) -> None:
        self.space.put([b"a", b"b"], [b"1", b"2" * 5000])
        self.assertEqual(self.space.pin_named("prompt", [b"a", b"absent"]), [Outcome.HIT, Outcome.MISS])
        self.assertEqual(self.space.pin_named("prompt", [b"b"]), [Outcome.HIT])
        self.store.close()
        self.store = artesian.Store(self.folder)
        self.addCleanup(self.store.close)
        self.space = self.store.namespace(weights="sha256:1", dtype="bf16")
        self.assertEqual(self.space.named_pins(), {"prompt": (2, 5 * 4096)})
        self.assertTrue(self.space.unpin_named("prompt"))
        self.assertFalse(self.space.unpin_named("prompt"))

    def test_a_namespace_names_its_policy(self) -> None:
        shared = self.store.namespace(weights="sha256:1", dtype="bf16", salt="shared", policy="second-sighting+clock")
        self.assertEqual(shared.put([b"a"], [b"1"]), [Outcome.REJECTED])
        self.assertEqual(shared.put([b"a"], [b"1"]), [Outcome.STORED])
        with self.assertRaisesRegex(artesian.StoreError, "unheard of"):
            self.store.namespace(weights="sha256:1", policy="unheard of")

    def test_an_encrypted_store_needs_its_key(self) -> None:
        key = os.path.join(self.folder, "key")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(32))
        name = os.path.join(self.folder, "sealed")
        artesian.create(name, "32M", segment="1M", block_max="256K", key_file=key)
        with artesian.Store(name, key_file=key) as store:
            store.namespace(weights="sha256:1").put([b"a key of a block"], [b"transcript" * 1000])
        with open(name, "rb") as file:
            content = file.read()
        self.assertNotIn(b"transcript", content)
        self.assertNotIn(b"a key of a block", content)
        with self.assertRaises(artesian.StoreError) as caught:
            artesian.Store(name)
        self.assertIn("encrypted", str(caught.exception))
        with artesian.Store(name, key_file=key) as store:
            buffer = bytearray(10_000)
            self.assertEqual(store.namespace(weights="sha256:1").get([b"a key of a block"], [buffer]), [Outcome.HIT])
            self.assertEqual(buffer, b"transcript" * 1000)

    def test_errors_are_a_sentence_and_a_code(self) -> None:
        with self.assertRaises(artesian.StoreError) as caught:
            self.store.namespace(weights="")
        self.assertEqual(caught.exception.code, "invalid")
        with self.assertRaises(artesian.StoreError) as caught:
            artesian.Store(self.folder + "/absent")
        self.assertIn("absent", str(caught.exception))
        self.store.close()
        with self.assertRaises(artesian.StoreError) as caught:
            self.space.exists([b"a"])
        self.assertEqual(str(caught.exception), "the store is closed")

    def test_blocks_of_another_namespace_are_not_seen(self) -> None:
        self.space.put([b"a"], [b"1"])
        for fields in ({"weights": "sha256:2", "dtype": "bf16"}, {"weights": "sha256:1", "dtype": "fp16"},
                       {"weights": "sha256:1", "dtype": "bf16", "salt": "s"}, {"weights": "sha256:1", "dtype": "bf16", "rank": 1}):
            other = self.store.namespace(**fields)
            self.assertEqual(other.get([b"a"], [bytearray(1)]), [Outcome.MISS])

    def test_figures_are_served_for_prometheus(self) -> None:
        import urllib.request

        self.store.close()
        with artesian.Store(self.folder, metrics="0") as store:
            space = store.namespace(weights="sha256:1")
            space.get([b"absent"], [bytearray(1)])
            with urllib.request.urlopen(f"http://127.0.0.1:{store.metrics_port()}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            self.assertIn("artesian_store_misses_total 1", text)

    def test_another_process_shares_the_store(self) -> None:
        self.store.close()
        block = os.urandom(50_000)
        code = (
            "import artesian, sys\n"
            "with artesian.share(sys.argv[1], None, buffers='2M') as store:\n"
            "    space = store.namespace(weights='sha256:1')\n"
            "    room = bytearray(50_000)\n"
            "    print(space.longest_prefix([b'a', b'b']), space.get([b'a'], [room])[0].name, space.put([b'b'], [b'2'])[0].name)\n"
            "    sys.stdout.write(room.hex())\n"
        )
        with artesian.share(self.folder, None) as owner:
            space = owner.namespace(weights="sha256:1")
            space.put([b"a"], [block])
            ran = subprocess.run([sys.executable, "-c", code, self.folder], capture_output=True, text=True, check=True)
            said, data = ran.stdout.split("\n")
            self.assertEqual(said, "1 HIT STORED")
            self.assertEqual(bytes.fromhex(data), block)
            self.assertEqual(space.get([b"b"], [bytearray(1)]), [Outcome.HIT])
        with self.assertRaises(artesian.StoreError) as caught:
            artesian.attach(self.folder)
        self.assertEqual(caught.exception.code, "not_found")

    def test_of_many_that_come_at_once_one_owns_the_store(self) -> None:
        self.store.close()
        stores: list[artesian.Store] = []
        threads = [
            threading.Thread(target=lambda: stores.append(artesian.share(self.folder + "/new", "64M", block_max="1M")))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(stores), 6)
        spaces = [store.namespace(weights="sha256:1") for store in stores]
        spaces[0].put([b"a"], [b"1" * 9000])
        for space in spaces:
            room = bytearray(9000)
            self.assertEqual(space.get([b"a"], [room]), [Outcome.HIT])
            self.assertEqual(room, b"1" * 9000)
        for store in stores:
            store.close()

    def test_the_example(self) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            ran = subprocess.run([sys.executable, ROOT / "examples/store.py", folder], capture_output=True, text=True, check=True)
        self.assertIn("2 blocks of the prefix are there", ran.stdout)
        self.assertIn("['HIT', 'HIT'] ['keys and values of 16 tokens', 'and of 16 more']\n['MISS']", ran.stdout)


if __name__ == "__main__":
    unittest.main()
