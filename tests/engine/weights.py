"""`artesian bench weights` with the real engine on a small generated model: the programs run, the texts agree, every figure is there.

usage: weights.py ARTESIAN MODELGEN
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

MODEL = ["--arch", "qwen3moe", "--type", "Q8_0", "--layers", "8", "--experts", "32", "--used", "4", "--width", "512", "--ff", "512",
         "--vocab", "2048", "--seed", "7"]  # 216 MB, nearly all of it experts
LIMIT = "160M"


def main():
    artesian, modelgen = sys.argv[1:3]
    if "ARTESIAN_ENGINE_BIN" not in os.environ or "ARTESIAN_MODEL" not in os.environ:
        print("skipped: ARTESIAN_ENGINE_BIN and ARTESIAN_MODEL are not set; ./test sets them")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="artesian-weights-", dir=os.environ.get("ARTESIAN_CACHE")) as folder:
        model = pathlib.Path(folder) / "model.gguf"
        subprocess.run([modelgen, *MODEL, "--tokenizer", os.environ["ARTESIAN_MODEL"], "--out", str(model)], check=True)
        command = [artesian, "bench", "weights", "--model", str(model), "--limit", LIMIT, "--repeat", "1", "--tokens", "8", "--json"]
        for case in ("moe.900", "fits", "first_token.900"):
            command += ["--case", case]
        done = subprocess.run(command, capture_output=True, timeout=500, check=False)
    errors = done.stderr.decode(errors="replace")
    if done.returncode != 0:
        sys.exit(f"it ended with {done.returncode}:\n{errors[-3000:]}\n{done.stdout.decode(errors='replace')[-3000:]}")
    report = json.loads(done.stdout)
    failures = [arm["failure"] for arm in report["arms"] if arm["failure"]]
    limits = "no memory limit can be set here"
    if any(limits in failure for failure in failures):
        print(next(f"SKIP: {failure}" for failure in failures if limits in failure))
        failures = [failure for failure in failures if limits not in failure]
    goals = {goal["name"]: goal for goal in report["check"]["goals"]}
    if not failures and not report["bandwidth_bytes_per_second"] > 0:
        sys.exit("the device was not measured")
    missing = [name for name, goal in goals.items() if goal["figure"] is None and limits not in goal["note"]]
    if failures or missing or len(goals) != 8:
        sys.exit(f"failed: {failures}\nwithout a figure: {[goals[name]['note'] for name in missing]}\nof {sorted(goals)}")
    for name, goal in goals.items():
        print(f"{name}: {goal['figure']} {goal['unit']}; {goal['note']}")


if __name__ == "__main__":
    main()
