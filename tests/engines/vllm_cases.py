"""Artesian's store under the real vLLM, on its CPU platform: never a wrong block, and how soon the first token comes.

usage: vllm_cases.py CASE

Token ids are compared with those of the same engine without Artesian; how many tokens were not computed is asserted in each case.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from engine import check, skip

HERE = pathlib.Path(__file__).resolve().parent
MODEL = "SmolLM2-135M-Instruct-bf16"
PROMPT, BLOCK = 1500, 128
HIT = PROMPT // BLOCK * BLOCK
QUESTION = {"count": PROMPT, "answer": 12}


class Vllm:
    """Starts vLLM again and again; each start is of new processes."""

    def __init__(self, folder):
        self.python = os.environ.get("ARTESIAN_VLLM_PYTHON")
        if not self.python:
            skip("ARTESIAN_VLLM_PYTHON is not set: vLLM, a second engine, is installed by ./test --engines")
        self.folder = pathlib.Path(folder)
        self.log = self.folder / "log"
        self.model = self.converted()
        environment = os.environ | {"PYTHONPATH": str(HERE)}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([self.python, HERE / "ask.py"], env=environment, text=True, bufsize=1,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(60)

    def converted(self, *options, name=MODEL):
        """The model as a folder of Hugging Face's; made once."""
        folder = pathlib.Path(os.environ["ARTESIAN_CACHE"]) / "models" / name
        subprocess.run([self.python, "-B", HERE / "model.py", os.environ["ARTESIAN_MODEL"], folder, *options], check=True)
        return folder

    def begin(self, transfer, questions, model=None, processes=False, **more):
        """Starts it with a job; the process group of its processes."""
        job = {"model": str(model or self.model), "transfer": transfer, "questions": questions, "more": more,
               "processes": processes}
        self.process.stdin.write(json.dumps(job) + "\n")
        return self.said()["pid"]

    def said(self):
        line = self.process.stdout.readline()
        check(line, f"ask.py ended:\n{self.tail()}")
        return json.loads(line)

    def ask(self, transfer, questions, **more):
        self.begin(transfer, questions, **more)
        answers = self.said()
        check(answers is not None, f"vLLM did not answer:\n{self.tail()}")
        return answers

    def tail(self):
        return self.log.read_text(errors="replace")[-6000:]


def tier(path, **options):
    """ArtesianTier below vLLM's native offloading, under the copying worker of the tests."""
    printed = subprocess.run(
        [os.environ["ARTESIAN_VLLM_PYTHON"], "-m", "artesian.vllm", "config", "--path", path, "--capacity", "1G", "--memory", "256M"],
        capture_output=True, text=True, check=True).stdout
    config = json.loads(printed)
    extra = config["kv_connector_extra_config"]
    extra |= {"spec_name": "CpuTieringSpec", "spec_module_path": "tiering_spec"}
    extra["secondary_tiers"][0] |= options
    return config


def case_tier(vllm):
    """After a restart all whole blocks come from flash, and the text is the same."""
    config = tier(vllm.folder / "kv")
    (plain,) = vllm.ask(None, [QUESTION])
    (first,) = vllm.ask(config, [QUESTION])
    (again,) = vllm.ask(config, [QUESTION])
    print(plain, first, again, sep="\n")
    check((plain["cached"], first["cached"]) == (0, 0), "something was cached before anything was stored")
    check(again["cached"] == HIT, f"{again['cached']} tokens came from flash, not {HIT}")
    check(plain["ids"] == first["ids"] == again["ids"], "the text is another one")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="artesian-engines-") as opened:
        with Vllm(opened) as running:
            globals()[f"case_{sys.argv[1]}"](running)
