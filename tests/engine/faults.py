"""Trouble, end to end: each gives one sentence and no answer that was computed on bytes which did not arrive.

usage: faults.py CASE ARTESIAN MODELGEN
"""

import os
import re
import shutil
import sys
import time

from engine import Bench, Server, check, run, said

MOE = ["--arch", "qwen3moe", "--type", "Q8_0"]
PROMPT = "Once upon a time there was a river that ran under the sand."


def completion(bench, model, *more):
    return [bench.program("llama-completion"), "-m", model, "-p", PROMPT, "-n", "8", "--temp", "0", "-no-cnv", "-t", "1",
            "-c", "256", *more]


def once(lines, words, count=1):
    """The sentence with these words was said, and said once."""
    found = [line for line in lines if words in line]
    check(len(found) == count, f"said {len(found)} times, not {count}: {words!r} in\n" + "\n".join(lines))
    print(found[0] if found else "")


def small_budget(bench):
    """A budget below the least that works: the model is not loaded, the least is named once, and works."""
    model = bench.model(*MOE)
    for more in ([], ["--load-mode", "none"], ["-fit", "off"]):
        done = run([bench.artesian, "run", "--memory", "1M", "--", *completion(bench, model, *more)], code=1)
        check(not done.stdout.replace(PROMPT.encode(), b"").strip(), f"there was an answer: {done.stdout!r}")
        once(said(done), "a budget of 1.00 MiB is too small")
    least = re.search(r"the least that works is ([0-9.]+) (\w)iB", "\n".join(said(done)))
    size = f"{float(least.group(1)) + 0.01:.2f}{least.group(2)}"
    done = run([bench.artesian, "run", "--memory", size, "--mode", "on", "--", *completion(bench, model)])
    check(" read at " in said(done)[-1], "the least budget did not work")


def serve(bench, model, folder="door.log"):
    command = [*bench.door(model, 0.75), bench.program("llama-server"), "-m", model, "-t", "1", "-np", "1", "-c", "512"]
    return Server(command, [], bench.folder / folder)


def ask(server, seed=1):
    body = {"prompt": PROMPT, "n_predict": 12, "temperature": 0.8, "seed": seed, "cache_prompt": False, "ignore_eos": True}
    return server.ask("POST", "/completion", body)


def refused(server, words):
    """From now on no request is answered; the sentence says why."""
    time.sleep(0.2)  # the door looks at its files every 100 ms
    for seed in (2, 3):
        status, answer = ask(server, seed)
        check(status >= 400, f"answered after the file had changed: {answer}")
    check(any(words in line for line in server.said()), f"{words!r} was not said:\n" + "\n".join(server.said()))
    print(next(line for line in server.said() if words in line))


def changed(bench):
    """One byte of a weight is changed in place while the model is served."""
    model = bench.model(*MOE)
    with serve(bench, model) as server:
        check(ask(server)[0] == 200, "no answer before the change")
        with open(model, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            file.write(b"\x55")
        refused(server, f"{model}: the file was changed while it is in use")


def truncated(bench):
    """The file loses its last bytes while it is served: they are of experts, and of pages that nobody maps for long."""
    model = bench.model(*MOE)
    with serve(bench, model) as server:
        check(ask(server)[0] == 200, "no answer before the change")
        os.truncate(model, os.path.getsize(model) - 4096)
        refused(server, f"{model}: the file was changed while it is in use")


def replaced(bench):
    """Another file takes the name while the model is served: what was loaded goes on being served."""
    model, other = bench.model(*MOE), bench.model(*MOE, name="other", seed=9)
    with serve(bench, model) as server:
        before = ask(server)
        os.replace(other, model)
        time.sleep(0.2)
        after = ask(server)
        check(before[0] == after[0] == 200, "no answer")
        check(before[1]["content"] == after[1]["content"], "another file under the name changed the answer")


def broken_files(bench):
    """What the engine cannot load it says itself, and it ends as it would without us."""
    model = bench.model(*MOE)
    short = bench.folder / "short.gguf"
    shutil.copy(model, short)
    os.truncate(short, os.path.getsize(model) - 100000)
    noise = bench.folder / "noise.gguf"
    noise.write_bytes(os.urandom(4096))
    header = bench.folder / "header.gguf"
    header.write_bytes(model.read_bytes()[:2000])
    locked = bench.folder / "locked.gguf"
    shutil.copy(model, locked)
    locked.chmod(0)  # root may read it all the same, and then there is nothing to see
    paths = [short, noise, header, bench.folder / "nothing.gguf"]
    for path in paths + ([] if os.access(locked, os.R_OK) else [locked]):
        plain = run(completion(bench, path), code=None)
        done = run([*bench.door(model, 0.75), *completion(bench, path)], code=None)
        check(plain.returncode == done.returncode != 0, f"{path}: {plain.returncode} became {done.returncode}")
        check(len(said(done)) == 1, "more than one sentence:\n" + "\n".join(said(done)))
        print(said(done)[0])


CASES = {"small-budget": small_budget, "changed": changed, "truncated": truncated, "replaced": replaced,
         "broken-files": broken_files}


if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
