"""The weights door in front of the real engine: the same text as llama.cpp with --no-repack, byte for byte.

usage: exact.py CASE ARTESIAN MODELGEN

A case is a model, a budget as a share of the model's bytes, and what the closing line must say. Both runs sample with a
temperature and a fixed seed; the door must really have read from the device, or really have stepped aside.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SMALL = ["--layers", "4", "--vocab", "2048", "--seed", "7"]
ATTEMPTS = 6
PROMPT = "Once upon a time there was a river that ran under the sand, and nobody knew where its water came from."

# name: (generator options, or None for the real model; budget share; more engine options; must stream)
CASES = {
    "dense": (None, 0.6, [], True),
    "moe": (["--arch", "qwen3moe", "--type", "Q8_0", *SMALL], 0.75, [], True),
    "deepseek2": (["--arch", "deepseek2", "--fused", "--type", "Q8_0", *SMALL], 0.75, [], True),
    "mixed-shards": (["--arch", "qwen3moe", "--type", "mixed", "--shards", "3", *SMALL], 0.8, [], True),
    "mixtral": (["--arch", "mixtral", "--type", "Q8_0", *SMALL], 0.75, [], True),
    "gpt-oss": (["--arch", "gpt-oss", "--type", "MXFP4", *SMALL], 0.8, [], True),
    "no-mmap": (["--arch", "qwen3moe", "--type", "Q8_0", *SMALL], 0.75, ["--load-mode", "none"], True),
    "aside": (["--arch", "qwen3moe", "--type", "Q8_0", *SMALL], 4.0, [], False),
}


def run(command):
    done = subprocess.run(command, capture_output=True, timeout=280, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')[-3000:]}")
    return done


def cut_short(one, other):
    """On a busy machine llama-completion itself, with or without us, sometimes loses the end of its output.

    Such a pair says nothing and is run again; it never counts as equal.
    """
    return one != other and (one.startswith(other) or other.startswith(one))


def model_files(first):
    if "-00001-of-" not in first.name:
        return [first]
    return sorted(first.parent.glob(first.name.split("-00001-of-")[0] + "-*.gguf"))


def main():
    case, artesian, modelgen = sys.argv[1:4]
    options, share, more, streams = CASES[case]
    if "ARTESIAN_ENGINE_BIN" not in os.environ or "ARTESIAN_MODEL" not in os.environ:
        print("skipped: ARTESIAN_ENGINE_BIN and ARTESIAN_MODEL are not set; ./test sets them")
        sys.exit(77)
    real = pathlib.Path(os.environ["ARTESIAN_MODEL"])
    completion = pathlib.Path(os.environ["ARTESIAN_ENGINE_BIN"]) / "llama-completion"
    with tempfile.TemporaryDirectory(prefix="artesian-engine-") as folder:
        model = real
        if options is not None:
            out = pathlib.Path(folder) / "model.gguf"
            run([modelgen, *options, "--tokenizer", str(real), "--out", str(out)])
            model = out if out.exists() else next(iter(sorted(pathlib.Path(folder).glob("*-00001-of-*.gguf"))))
        budget = int(share * sum(path.stat().st_size for path in model_files(model)))
        engine = [str(completion), "-m", str(model), "-p", PROMPT, "-n", "24", "--temp", "0.8", "--seed", "1", "-no-cnv",
                  "-t", "2", "-c", "256", *more]
        mode = "on" if streams else "auto"
        for _ in range(ATTEMPTS):
            plain = run([*engine, "--no-repack"])
            door = run([artesian, "run", "--memory", str(budget), "--mode", mode, "--", *engine])
            if not cut_short(plain.stdout, door.stdout):
                break
        closing = [line for line in door.stderr.decode(errors="replace").splitlines() if line.startswith("artesian:")]
        print("\n".join(closing))
        if len(plain.stdout) < 40:
            sys.exit(f"the engine said too little to compare: {plain.stdout!r}")
        if streams and (not closing or " read at " not in closing[-1]):
            sys.exit("the door did not stream")
        if not streams and (not closing or "stepped aside" not in closing[-1]):
            sys.exit("the door did not step aside")
        if streams and plain.stdout != door.stdout:
            sys.exit(f"the door changed the answer:\n{plain.stdout!r}\n{door.stdout!r}")
    print(f"{case}: {len(plain.stdout)} bytes, equal" if streams else f"{case}: stepped aside")


if __name__ == "__main__":
    main()
