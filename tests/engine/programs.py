"""The other llama.cpp programs behind the weights door, and what several runs and two contexts of one program give.

usage: programs.py CASE ARTESIAN MODELGEN
"""

import json
import re
import sys

from engine import ATTEMPTS, Bench, check, run, said, streamed

MOE = ["--arch", "qwen3moe", "--type", "Q8_0"]
Q4_K = ["--arch", "qwen3moe", "--type", "Q4_K"]
TEXT = "The river ran under the sand and the people said, number {}, that water rises by itself when the layer breaks. "


def door_ran(done):
    print("\n".join(said(done)))
    check(streamed(said(done)), "the door did not stream")


def perplexity(bench, model, share, *more):
    """The same figure. K-quants, so that dense weights left to the engine must keep the file's layout."""
    text = bench.folder / "text"
    text.write_text("".join(TEXT.format(i) for i in range(40)))
    command = [bench.program("llama-perplexity"), "-m", model, "-f", text, "-c", "128", "--chunks", "4", "-t", "1", *more]

    def figure(done):
        # The program's log sometimes loses its end, with or without us: no figure, no answer.
        found = re.search(r"PPL = ([0-9.]+)", (done.stdout + done.stderr).decode(errors="replace"))
        return found.group(1) if found else None

    for _ in range(ATTEMPTS):
        plain = figure(run([*command, "--no-repack"]))
        done = run([*bench.door(model, share), *command])
        door = figure(done)
        if plain and door:
            break
    check(plain and door, "no figure was printed")
    door_ran(done)
    check(plain == door, f"perplexity {plain} became {door}")
    print(f"perplexity {plain}, equal")


def llama_bench(bench):
    """It does not read LLAMA_ARG_NO_REPACK, and makes several contexts of one model, one after the other."""
    model = bench.model(*Q4_K)
    done = run([*bench.door(model, 0.8), bench.program("llama-bench"), "-m", model, "-p", "64", "-n", "8", "-pg", "16,4",
                "-r", "2", "-t", "1", "-o", "json"])
    door_ran(done)
    rows = json.loads(done.stdout)
    check(len(rows) == 3 and all(row["avg_ts"] > 0 for row in rows), f"not three results: {rows}")


def cli(bench):
    """One turn of a chat. Its last line says how fast it was; while it loads it turns a wheel, longer or shorter."""
    command = [bench.program("llama-cli"), "-m", bench.real, "-p", "What is an artesian well?", "-n", "24", "--temp", "0.8",
               "--seed", "1", "-st", "-t", "1", "-c", "256"]

    def answer(done):
        still = re.sub(rb".\x08", b"", done.stdout)
        return [line for line in still.splitlines() if b"t/s" not in line]

    plain = run([*command, "--no-repack"])
    done = run([*bench.door(bench.real, 0.6), *command])
    door_ran(done)
    check(len(plain.stdout) > 100, f"the engine said too little to compare: {plain.stdout!r}")
    check(answer(plain) == answer(done), f"the door changed the answer:\n{plain.stdout!r}\n{done.stdout!r}")


def batched_bench(bench):
    """Many sequences in one batch."""
    model = bench.model(*MOE)
    done = run([*bench.door(model, 0.75), bench.program("llama-batched-bench"), "-m", model, "-c", "1024", "-npp", "64",
                "-ntg", "8", "-npl", "1,2,4", "-t", "1"])
    door_ran(done)


CASES = {
    "perplexity": lambda bench: perplexity(bench, bench.model(*Q4_K), 0.8),
    "perplexity-dense": lambda bench: perplexity(bench, bench.real, 0.6),
    "perplexity-batches": lambda bench: perplexity(bench, bench.model(*Q4_K), 0.8, "-b", "512", "-ub", "32"),
    "bench": llama_bench, "cli": cli, "batched-bench": batched_bench,
}


if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
