"""What the tests with the real engine share: where it is, models made for a test, programs run plain and behind the door.

The plain side is always the same engine with --no-repack: repacked kernels round differently, with or without us.
"""

import contextlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

SMALL = ["--layers", "4", "--vocab", "2048"]
ATTEMPTS = 24  # many fail one after the other where much else runs; where nothing does, the first is enough


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(77)


def check(condition, sentence):
    if not condition:
        sys.exit(sentence)


def run(command, timeout=280, env=None, code=0):
    """The program's end, with output; any other exit code than `code` (None: whatever it is) fails the test."""
    command = [str(word) for word in command]
    done = subprocess.run(command, capture_output=True, timeout=timeout, check=False, env=env)
    if code is not None and done.returncode != code:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr.decode(errors='replace')[-3000:]}")
    return done


def cut_short(one, other):
    """On a busy machine llama-completion itself, with or without us, sometimes loses the end of its output.

    Such a pair says nothing and is run again; it never counts as equal.
    """
    return one != other and (one.startswith(other) or other.startswith(one))


def said(done):
    """The lines that Artesian wrote on stderr."""
    return [line for line in done.stderr.decode(errors="replace").splitlines() if line.startswith("artesian:")]


class Bench:
    """The programs of one test and a folder of its own that goes at the end."""

    def __init__(self, artesian, modelgen, folder):
        if "ARTESIAN_ENGINE_BIN" not in os.environ or "ARTESIAN_MODEL" not in os.environ:
            skip("ARTESIAN_ENGINE_BIN and ARTESIAN_MODEL are not set; ./test sets them")
        self.artesian, self.modelgen, self.folder = artesian, modelgen, pathlib.Path(folder)
        self.programs = pathlib.Path(os.environ["ARTESIAN_ENGINE_BIN"])
        self.real = pathlib.Path(os.environ["ARTESIAN_MODEL"])

    @classmethod
    @contextlib.contextmanager
    def open(cls, artesian, modelgen):
        with tempfile.TemporaryDirectory(prefix="artesian-engine-") as folder:
            yield cls(artesian, modelgen, folder)

    def program(self, name):
        return str(self.programs / name)

    def model(self, *options, name="model", seed=7):
        """A generated model: its first shard."""
        out = self.folder / f"{name}.gguf"
        run([self.modelgen, *SMALL, "--seed", seed, *options, "--tokenizer", self.real, "--out", out])
        return out if out.exists() else next(iter(sorted(self.folder.glob(f"{name}-00001-of-*.gguf"))))

    def door(self, model, share, mode="on"):
        """`artesian run` with a budget of that share of the model's bytes."""
        budget = int(share * sum(path.stat().st_size for path in shards(model)))
        return [self.artesian, "run", "--memory", str(budget), "--mode", mode, "--"]


def shards(first):
    if "-00001-of-" not in first.name:
        return [first]
    return sorted(first.parent.glob(first.name.split("-00001-of-")[0] + "-*.gguf"))


def streamed(lines):
    return bool(lines) and " read at " in lines[-1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server of HTTP, as llama-server, on a free port of this machine, ready; ended (SIGTERM) and waited for at the end."""

    READY = ("/health", lambda _: True)
    HTTP = "--"  # what its options of address and port begin with

    def __init__(self, command, options, log, env=None):
        self.port, self.log = free_port(), log
        listen = [f"{self.HTTP}host", "127.0.0.1", f"{self.HTTP}port", self.port]
        with open(log, "wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in [*command, *options, *listen]], stdout=out, stderr=subprocess.STDOUT, env=env)

    def __enter__(self):
        self.wait_for(*self.READY)
        return self

    def wait_for(self, path, is_so):
        """Until the server answers with 200 and something of which `is_so` is true."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                sys.exit(f"the server ended with {self.process.returncode}:\n{self.text()[-3000:]}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                status, answer = self.ask("GET", path)
                if status == 200 and is_so(answer):
                    return
            time.sleep(0.05)
        self.end()
        sys.exit(f"{path} never became what was waited for:\n{self.text()[-3000:]}")

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            sys.exit(f"{self.process.args[0]} did not end when asked to:\n{self.text()[-2000:]}")

    def text(self):
        return pathlib.Path(self.log).read_text(errors="replace")

    def said(self):
        return [line for line in self.text().splitlines() if line.startswith("artesian:")]

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(text)
        return answer.status, text

    def post(self, path, body):
        status, answer = self.ask("POST", path, body)
        if status != 200:
            sys.exit(f"{path} answered {status}: {answer}\n{self.text()[-3000:]}")
        return answer
