"""The weights door in front of llama-completion: the same text as with --no-repack, byte for byte.

usage: exact.py CASE ARTESIAN MODELGEN

A case is a model, a budget as a share of the model's bytes, and what the closing line must say. Both runs sample with a
temperature and a fixed seed; the door must really have read from the device, or really have stepped aside. Most use one
thread: two that wait for each other in a loop take minutes on a machine that does something else as well.
"""

import os
import sys

from engine import ATTEMPTS, Bench, check, cut_short, run, said, skip, streamed

PROMPT = "Once upon a time there was a river that ran under the sand, and nobody knew where its water came from."
QWEN = ["--arch", "qwen3moe", "--type", "Q8_0"]

# name: (generator options, or None for the real model; budget share; more engine options; must stream)
CASES = {
    "dense": (None, 0.6, ["-t", "2"], True),
    "moe": (QWEN, 0.75, ["-t", "2"], True),
    "deepseek2": (["--arch", "deepseek2", "--fused", "--type", "Q8_0"], 0.75, [], True),
    "mixed-shards": (["--arch", "qwen3moe", "--type", "mixed", "--shards", "3"], 0.8, [], True),
    "mixtral": (["--arch", "mixtral", "--type", "Q8_0"], 0.75, [], True),
    "gpt-oss": (["--arch", "gpt-oss", "--type", "MXFP4"], 0.8, [], True),
    "olmoe": (["--arch", "olmoe", "--type", "Q6_K", "--kv-heads", "4"], 0.8, [], True),
    "qwen2moe": (["--arch", "qwen2moe", "--type", "Q5_K"], 0.8, [], True),
    # Slices that are no multiple of 512 bytes, and dense weights of a type that the engine would repack.
    "odd": (["--arch", "qwen3moe", "--type", "Q8_0", "--width", "288", "--ff", "224", "--head-size", "32"], 0.75, [], True),
    "q4_k": (["--arch", "qwen3moe", "--type", "Q4_K"], 0.8, [], True),
    "q4_k-dense": (["--arch", "llama", "--type", "Q4_K", "--width", "512", "--ff", "1024"], 0.7, [], True),
    "no-mmap": (QWEN, 0.75, ["--load-mode", "none"], True),
    "direct-io": (QWEN, 0.75, ["--load-mode", "dio"], True),
    "direct-io-dense": (None, 0.6, ["--load-mode", "dio"], True),
    "mlock": (QWEN, 0.75, ["--load-mode", "mlock"], True),
    "fit-off": (QWEN, 0.75, ["-fit", "off"], True),
    "gpu-layers": (QWEN, 0.75, ["-ngl", "99"], True),
    "override": (QWEN, 0.75, ["-ot", "exps=CPU"], True),
    "long": (QWEN, 0.6, ["-n", "300"], True),
    "aside": (QWEN, 4.0, [], False),
}


def main():
    options, share, more, streams = CASES[sys.argv[1]]
    if sys.argv[4:] == ["loadable"]:
        if "ARTESIAN_ENGINE_LOADABLE_BIN" not in os.environ:
            skip("ARTESIAN_ENGINE_LOADABLE_BIN is not set: a second engine, with loadable backends, is installed by ./test --full")
        os.environ["ARTESIAN_ENGINE_BIN"] = os.environ["ARTESIAN_ENGINE_LOADABLE_BIN"]
    with Bench.open(*sys.argv[2:4]) as bench:
        model = bench.model(*options) if options else bench.real
        engine = [bench.program("llama-completion"), "-m", model, "-p", PROMPT, "-n", "24", "--temp", "0.8", "--seed", "1",
                  "-no-cnv", "-t", "1", "-c", "512", "--ignore-eos", *more]
        for _ in range(ATTEMPTS):
            plain = run([*engine, "--no-repack"])
            door = run([*bench.door(model, share, "on" if streams else "auto"), *engine])
            if not cut_short(plain.stdout, door.stdout):
                break
        closing = said(door)
        print("\n".join(closing))
        check(len(plain.stdout) >= 40, f"the engine said too little to compare: {plain.stdout!r}")
        check(not streams or streamed(closing), "the door did not stream")
        check(streams or (closing and "stepped aside" in closing[-1]), "the door did not step aside")
        check(not streams or plain.stdout == door.stdout,
              f"the door changed the answer:\n{plain.stdout!r}\n{door.stdout!r}")
        print(f"{len(plain.stdout)} bytes, equal" if streams else "stepped aside")


if __name__ == "__main__":
    main()
