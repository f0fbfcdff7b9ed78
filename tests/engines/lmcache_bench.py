"""The store and LMCache's own `fs_native` side by side, through LMCache's adapters and by LMCache's own benchmark (`lmcache bench l2`).

usage: lmcache_bench.py FOLDER [--pairs N] [--workers N] [--check]

Run by the python that has LMCache. A round stores 2 batches of 32 values of 2,880 KB (128 tokens of SmolLM2-135M's KV), makes them
durable (ours: flush; fs_native: fsync of each file and of the folder), drops the page cache, loads them and compares every byte.
The two take turns; ratios are of medians. Exit code 1 with --check when a goal is missed.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import sys
import time

os.environ |= {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_LOG_LEVEL": "WARNING"}

from lmcache.cli.commands.bench.l2_adapter_bench import data, runner  # noqa: E402
from lmcache.v1.distributed.l2_adapters import create_l2_adapter  # noqa: E402
from lmcache.v1.distributed.l2_adapters.config import parse_args_to_l2_adapters_config  # noqa: E402

KEYS, IN_FLIGHT, VALUE = 32, 2, 2880 * 1024
GOAL = 1.0


class Side:
    def __init__(self, folder: pathlib.Path, spec: dict, buffer) -> None:
        self.folder = folder
        (config,) = parse_args_to_l2_adapters_config(argparse.Namespace(l2_adapter=[json.dumps(spec)])).adapters
        self.adapter = create_l2_adapter(config, l1_memory_desc=data.create_l1_memory_desc(buffer, align_bytes=4096))
        half = KEYS * IN_FLIGHT * VALUE
        self.kept, self.loaded = ([data.make_memory_objects(buffer, KEYS, VALUE, at + part * KEYS * VALUE, fill)
                                   for part in range(IN_FLIGHT)] for at, fill in ((0, 0), (half, 1)))
        self.figures: dict[str, list[float]] = {"store": [], "durable": [], "load": []}

    def durable(self) -> None:
        """As a power cut would have it. Whoever has a call for it is asked by it."""
        flush = getattr(self.adapter._client, "flush", None)
        for path in [] if flush else [*self.folder.rglob("*"), self.folder]:
            opened = os.open(path, os.O_RDONLY)
            os.fsync(opened)
            os.close(opened)
        if flush:
            flush()

    def run(self, number: int) -> None:
        first = number * KEYS * IN_FLIGHT
        keys = [data.make_object_keys(KEYS, key_offset=first + part * KEYS) for part in range(IN_FLIGHT)]
        for part, objects in enumerate(self.kept):  # no two values are alike
            for place, each in enumerate(objects):
                each.raw_data[:8] = data.torch.tensor(list((first + part * KEYS + place).to_bytes(8, "big")), dtype=data.torch.uint8)
        size = {"in_flight": IN_FLIGHT, "num_keys": KEYS, "data_size": VALUE, "rounds": 1, "log": lambda text: None}
        begun = time.perf_counter()
        stored = runner.bench_store(self.adapter, keys_for_round=lambda _: keys, objs_for_round=lambda _: self.kept, **size)
        self.durable()
        durable = time.perf_counter() - begun
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        loaded = runner.bench_load(self.adapter, keys_for_round=lambda _: keys, objs_for_round=lambda _: self.loaded, **size)
        flat = [sum(batches, []) for batches in (keys, self.kept, self.loaded)]
        if stored.total_success != KEYS * IN_FLIGHT or not data.verify_round_trip(*flat, lambda text: None):
            sys.exit(f"{self.folder}: what was stored did not come back")
        megabytes = KEYS * IN_FLIGHT * VALUE / 1e6
        for name, seconds in (("store", stored.round_durations[0]), ("durable", durable), ("load", loaded.round_durations[0])):
            self.figures[name].append(megabytes / seconds)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2, help="of fs_native")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    shutil.rmtree(options.folder, ignore_errors=True)
    plugin = {"path": str(options.folder / "kv"), "capacity": "4G", "weights": "sha256:1", "dtype": "bfloat16"}
    specs = {
        "kv": {"type": "native_plugin", "module_path": "artesian.lmcache", "class_name": "ArtesianL2", "adapter_params": plugin},
        "fs": {"type": "fs_native", "base_path": str(options.folder / "fs"), "num_workers": options.workers, "use_odirect": True},
    }
    buffer = data.make_aligned_tensor(2 * KEYS * IN_FLIGHT * VALUE, 4096)
    ours, theirs = sides = [Side(options.folder / name, spec, buffer) for name, spec in specs.items()]
    try:
        for number in range(options.pairs + 1):
            for side in sides if number % 2 else reversed(sides):
                side.run(number)
    finally:
        for side in sides:
            side.adapter.close()
        shutil.rmtree(options.folder)
    missed = False
    print(f"{'MB/s':<10}{'artesian':>24}{'fs_native':>24}{'ratio':>8}{'goal':>6}")
    for name in ours.figures:
        one, other = (side.figures[name][1:] for side in (ours, theirs))  # the first round is for warming up
        ratio = statistics.median(one) / statistics.median(other)
        shown = [f"{statistics.median(some):.0f} ({min(some):.0f}-{max(some):.0f})" for some in (one, other)]
        goal = "" if name == "store" else f"{GOAL:.2f}"
        print(f"{name:<10}{shown[0]:>24}{shown[1]:>24}{ratio:>8.2f}{goal:>6}")
        missed |= bool(goal) and ratio < GOAL
    sys.exit(options.check and missed)


if __name__ == "__main__":
    main()
