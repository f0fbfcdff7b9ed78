"""Artesian as L2 tier of the real LMCache server, under the real vLLM (LMCacheMPConnector), both on the CPU.

usage: lmcache_cases.py server texts | flipped_bit | first_token

Servers and engines are started anew between a store and a load. How many tokens were not computed is asserted, and token ids are compared
with those of the same engine by itself when as many tokens are in its own prefix cache: another number of computed tokens rounds differently.
"""

import json
import os
import pathlib
import statistics
import sys
import tempfile

from engine import Server, check, free_port, skip
from vllm_cases import BLOCK, HIT, QUESTION, Vllm, bytes_of_records, spoil

PROMPTS = 8


def plugin(path, model):
    return {"type": "plugin", "module_path": "artesian.lmcache_adapter", "class_name": "ArtesianL2Adapter",
            "adapter_params": {"path": str(path), "capacity": "1G", "model": str(model)}}


class Lmcache(Server):
    """`lmcache server` with one L2 adapter."""

    READY = ("/status", lambda status: status["is_healthy"])
    HTTP = "--http-"

    def __init__(self, spec, log):
        self.engines = free_port()
        command = [
            os.environ["ARTESIAN_LMCACHE_PYTHON"], "-m", "lmcache.cli.main", "server", "--port", self.engines, "--chunk-size", BLOCK,
            "--l1-size-gb", 1, "--l1-init-size-gb", 1, "--no-l1-use-lazy", "--eviction-policy", "LRU", "--max-workers", 1,
            "--supported-transfer-mode", "auto", "--l2-adapter", json.dumps(spec)]
        super().__init__(command, [], log, os.environ | {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"})

    def stored(self, count):
        """Until that many chunks are in L1 and none of them is on its way to L2."""
        def holds(status):
            stores = status["storage_manager"]["store_controllers"].values()
            idle = all(each["pending_keys_count"] == 0 and each["in_flight_task_count"] == 0 for each in stores)
            seen.append(idle and status["storage_manager"]["l1_managers"]["_default"]["total_object_count"] >= count)
            return seen[-20:] == [True] * 20
        seen = []
        self.wait_for("/status", holds)

    @property
    def transfer(self):
        return {"kv_connector": "LMCacheMPConnector", "kv_role": "kv_both",
                "kv_connector_extra_config": {"lmcache.mp.host": "tcp://localhost", "lmcache.mp.port": self.engines}}


class Pair:
    """Server and engine, anew for each question."""

    def __init__(self, vllm):
        self.vllm, self.log = vllm, vllm.folder / "server.log"
        self.model = vllm.folder / "model"  # one name, whatever lies there

    def swap(self, folder):
        self.model.unlink(missing_ok=True)
        self.model.symlink_to(folder)

    def plain(self, questions, **more):
        return self.vllm.ask(None, questions, model=self.model, disable_hybrid_kv_cache_manager=True, **more)

    def ask(self, spec, questions, stores=0, **more):
        drop_page_cache()
        with Lmcache(spec, self.log) as server:
            answers = self.vllm.ask(server.transfer, questions, model=self.model, disable_hybrid_kv_cache_manager=True, **more)
            if stores:
                server.stored(stores)
        return answers


def drop_page_cache():
    os.sync()
    pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")


def same(what, answer, cached, ids):
    print(what, answer)
    check(answer["cached"] == cached, f"{what}: {answer['cached']} tokens were not computed, not {cached}")
    check(answer["ids"] == ids, f"{what}: the text is another one: {answer['ids']}, not {ids}")


def case_texts(pair):
    """After a restart, with another data type, with other weights of the same name: always the right text."""
    right, wrong = pair.vllm.model, pair.vllm.converted("--noise", "0.15", name="SmolLM2-135M-Instruct-bf16-noise")
    store = pair.vllm.folder / "kv"
    pair.swap(right)
    spec = plugin(store, pair.model)
    cold, warm = pair.plain([QUESTION, QUESTION])
    check((cold["cached"], warm["cached"]) == (0, HIT), f"the engine by itself: {cold}, {warm}")
    same("store", *pair.ask(spec, [QUESTION], stores=HIT // BLOCK), 0, cold["ids"])
    same("restart", *pair.ask(spec, [QUESTION]), HIT, warm["ids"])
    (half,) = pair.plain([QUESTION], dtype="float16")
    same("float16", *pair.ask(spec, [QUESTION], stores=HIT // BLOCK, dtype="float16"), 0, half["ids"])
    pair.swap(wrong)
    (other,) = pair.plain([QUESTION])
    check(other["ids"] != cold["ids"], "the other weights say the same: nothing is to be seen of them")
    same("other weights", *pair.ask(spec, [QUESTION], stores=HIT // BLOCK), 0, other["ids"])
    pair.swap(right)
    same("all again", *pair.ask(spec, [QUESTION]), HIT, warm["ids"])


def case_flipped_bit(pair):
    """What lies before a value with a flipped bit is used, the rest is computed."""
    pair.swap(pair.vllm.model)
    store = pair.vllm.folder / "kv"
    spec = plugin(store, pair.model)
    (cold,) = pair.ask(spec, [QUESTION], stores=HIT // BLOCK)
    check(cold["cached"] == 0, f"nothing was there: {cold}")
    places = bytes_of_records(store)
    spoil(store, [places[len(places) // 2] + 4321])
    (flipped,) = pair.ask(spec, [QUESTION])
    check(0 < flipped["cached"] < HIT and flipped["cached"] % BLOCK == 0, f"a flipped bit: {flipped}")
    _, partly = pair.plain([QUESTION | {"count": flipped["cached"] + 1, "answer": 1}, QUESTION])
    check(partly["cached"] == flipped["cached"], f"the engine by itself: {partly}")
    same("a flipped bit", flipped, partly["cached"], partly["ids"])


def case_first_token(pair):
    """Seconds to the first token of prompts that only L2 has, beside LMCache's own `fs`; all is started anew and the page cache dropped."""
    pair.swap(pair.vllm.model)
    questions = [QUESTION | {"start": 100 * number, "answer": 1} for number in range(PROMPTS)]
    specs = {"artesian": plugin(pair.vllm.folder / "kv", pair.model), "fs": {"type": "fs", "base_path": str(pair.vllm.folder / "fs")}}
    seconds = {}
    computed = {name: pair.ask(spec, questions, stores=PROMPTS * (HIT // BLOCK)) for name, spec in specs.items()}
    for name in (*specs, *reversed(specs)):
        answers = pair.ask(specs[name], questions)
        for number, answer in enumerate(answers):
            check(answer["cached"] == HIT, f"{name}, prompt {number}: {answer['cached']} tokens were not computed, not {HIT}")
        seconds.setdefault(name, []).extend(answer["seconds"] for answer in answers)
    middle = {name: statistics.median(each) for name, each in seconds.items()}
    for name, each in seconds.items():
        cold = statistics.median(answer["seconds"] for answer in computed[name])
        print(f"{name}: first token after {middle[name]:.3f} s ({min(each):.3f} to {max(each):.3f}, {len(each)} prompts); computed {cold:.2f} s")
    ratio = middle["artesian"] / middle["fs"]
    print(f"ratio {ratio:.2f}, goal 1.00")
    check(ratio < 1.1, "slower than fs")


if __name__ == "__main__":
    if "ARTESIAN_LMCACHE_PYTHON" not in os.environ:
        skip("ARTESIAN_LMCACHE_PYTHON is not set: LMCache, with a second engine, is installed by ./test --engines")
    os.environ["ARTESIAN_VLLM_PYTHON"] = os.environ["ARTESIAN_LMCACHE_PYTHON"]  # it has both
    with tempfile.TemporaryDirectory(prefix="artesian-engines-") as opened:
        with Vllm(opened) as running:
            globals()[f"case_{sys.argv[2]}"](Pair(running))
