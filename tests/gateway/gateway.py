"""The gateway before the real llama-server: contexts survive a restart of everything, and answers stay what they were.

usage: gateway.py CASE ARTESIAN MODELGEN
"""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "engine"))
from engine import Bench, Server, check  # noqa: E402

OPTIONS = ["-c", "2048", "-np", "2", "--no-kv-unified", "--no-warmup", "--no-webui", "-t", "1"]
FACTS = [f"Well number {i} is {30 + 7 * i} metres deep and was dug in {1800 + 3 * i}." for i in range(10)]
DOCUMENT = " ".join(FACTS)


def child_of(process):
    """The server: the only child of the gateway."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    check(len(children) == 1, f"the gateway has the children {children}")
    return int(children[0])


class Gateway(Server):
    """`artesian serve` and the server behind it, on a free port; asked for nothing before it keeps contexts."""

    def __init__(self, bench, *serve, options=OPTIONS, model=None, name="gateway", store="kv", kv="256M", before=()):
        path = bench.folder / store
        path.mkdir(exist_ok=True)
        command = [*before, bench.artesian, "serve", "--kv", kv, "--kv-path", path, *serve, "--",
                   bench.program("llama-server"), "-m", model or bench.real]
        super().__init__(command, options, bench.folder / f"{name}.log")

    def __enter__(self):
        super().__enter__()
        self.wait_for("/artesian/status", lambda status: status["state"] in ("ready", "plain"))
        return self

    def status(self):
        return self.ask("GET", "/artesian/status")[1]

    def wait_until_saved(self):
        self.wait_for("/artesian/status", lambda status: status["saving"] == 0 and not any(
            s["unsaved"] or s["busy"] for s in status["slots"]))

    def complete(self, body, path="/completion"):
        """The answer's text, how many tokens came from the cache, and how many of them from the store."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        with contextlib.closing(connection):
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            said = json.loads(answer.read())
            check(answer.status == 200, f"{path} answers {answer.status}: {said}\n{self.text()[-2000:]}")
            restored = int(answer.getheader("X-Artesian-Restored-Tokens", "-1"))
        if "content" in said:
            return said["content"], said["timings"]["cache_n"], restored
        cached = said["usage"]["prompt_tokens_details"]["cached_tokens"]
        check(cached == said["timings"]["cache_n"], f"cached_tokens is not cache_n: {said}")
        return said["choices"][0]["message"]["content"], cached, restored


def chat(*turns):
    roles = ["user", "assistant"]
    messages = [{"role": roles[i % 2], "content": text} for i, text in enumerate(turns)]
    return {"messages": messages, "max_tokens": 8, "temperature": 0, "seed": 1}


def first_turn():
    return chat(f"Remember this: {DOCUMENT} How deep is well number 3?")


def second_turn(text):
    return chat(first_turn()["messages"][0]["content"], text, "And when was it dug?")


def other_turn():
    """Another conversation with the same beginning."""
    return chat(f"Remember this: {DOCUMENT} Which well is the deepest?")


def reference(bench):
    """What the plain server says to both turns, and what it has in its slot for the second."""
    command = [bench.program("llama-server"), "-m", bench.real]
    with Server(command, [*OPTIONS, "--cache-ram", "0"], bench.folder / "plain.log") as server:
        texts = []
        for make in (first_turn, lambda: second_turn(texts[0][0])):
            said = server.post("/v1/chat/completions", {**make(), "id_slot": 0})
            texts.append((said["choices"][0]["message"]["content"], said["timings"]["cache_n"]))
        return texts


def restart(bench):
    """Everything is stopped and started: the same text, from the same tokens in the cache as without a stop."""
    (first, _), (second, held) = reference(bench)
    with Gateway(bench, name="before") as gateway:
        text, cached, restored = gateway.complete(first_turn(), "/v1/chat/completions")
        check((text, cached, restored) == (first, 0, 0), f"{text!r} with {cached} and {restored}, not {first!r}")
        gateway.wait_until_saved()
        saved = gateway.status()
        check(saved["saved_tokens"] > 150, f"nothing was saved: {saved}")
    with Gateway(bench, name="after") as gateway:
        text, cached, restored = gateway.complete(second_turn(first), "/v1/chat/completions")
        check(text == second, f"after a restart {text!r}, without one {second!r}")
        check(cached == restored == held, f"{cached} cached, {restored} restored, {held} without a restart")
        gateway.wait_until_saved()
        before = gateway.status()["saved_bytes"]
        text, cached, restored = gateway.complete(other_turn(), "/v1/chat/completions")
        check(cached > 0.8 * held, f"a conversation with the same beginning has {cached} of {held} tokens cached")
        gateway.wait_until_saved()
        added = gateway.status()["saved_bytes"] - before
        check(added < saved["saved_bytes"] / 2, f"what was shared is stored again: {added} of {saved['saved_bytes']}")
    with Gateway(bench, "--share", options=["-c", "1024", *OPTIONS[2:]], name="smaller") as gateway:
        text, cached, restored = gateway.complete(first_turn(), "/v1/chat/completions")
        check((cached, restored) == (0, 0), f"another context size uses {cached} tokens of the first")


def damage(bench):
    """A flipped byte on flash shortens what is cached and never changes the text."""
    with Gateway(bench, name="whole") as gateway:
        first, _, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        gateway.wait_until_saved()
    with Gateway(bench, name="again") as gateway:
        _, whole, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        check(whole > 150, f"{whole} tokens are cached")
    path = bench.folder / "kv" / "artesian.store"
    data = path.read_bytes()
    # Somewhere in every megabyte that is not empty, behind the superblocks: no block is whole.
    with open(path, "r+b") as store:
        for at in range(1 << 20, len(data), 1 << 20):
            piece = data[at:at + 4096]
            if any(piece):
                store.seek(at + 100)
                store.write(bytes([piece[100] ^ 0x40]))
    with Gateway(bench, name="damaged") as gateway:
        text, cached, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        check(cached == 0, f"{cached} tokens of damaged blocks are used")
        check(text == first, f"with damaged blocks {text!r}, not {first!r}")


def kill(bench):
    """Killed at any moment: an honest error, and afterwards the same answers."""
    with Gateway(bench, name="killed") as gateway:
        gateway.complete(first_turn(), "/v1/chat/completions")
        gateway.wait_until_saved()
        child = child_of(gateway.process)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            body = {**chat("Tell me a very long story."), "max_tokens": 400}
            asked = pool.submit(gateway.ask, "POST", "/v1/chat/completions", body)
            gateway.wait_for("/artesian/status", lambda status: any(s["busy"] for s in status["slots"]))
            os.kill(child, signal.SIGKILL)
            status, answer = asked.result()
            check(status in (502, 503), f"the server was killed and the answer is {status}: {answer}")
        # The new server: its slots are empty.
        gateway.wait_for("/artesian/status", lambda status: status["state"] == "ready" and not any(
            slot["tokens"] for slot in status["slots"]))
        again, cached, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        check(cached > 150, f"{cached} tokens are cached after the server was killed")
        gateway.process.kill()
        gateway.process.wait()
    with Gateway(bench, name="next") as gateway:
        text, cached, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        # As many are left to compute as the time before, so that it is computed alike.
        check(text == again and cached > 150, f"after kill -9: {text!r} with {cached} cached, not {again!r}")
        # Both, in the middle of a request.
        child = child_of(gateway.process)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            asked = pool.submit(gateway.ask, "POST", "/v1/chat/completions", body)
            gateway.wait_for("/artesian/status", lambda status: any(s["busy"] for s in status["slots"]))
            os.kill(gateway.process.pid, signal.SIGSTOP)
            os.kill(child, signal.SIGKILL)
            gateway.process.kill()
            gateway.process.wait()
            check(asked.exception() is not None, "an answer came from a gateway that was killed")
    with Gateway(bench, name="both") as gateway:
        text, cached, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        check(text == again and cached > 150, f"after kill -9 of both: {text!r} with {cached} cached, not {again!r}")
    left = [name for name in os.listdir("/dev/shm") if name.startswith("artesian-gateway-")]
    check(not left, f"staging folders are left: {left}")


def raw(port, data, read=True):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(data)
        answer = b""
        while read:
            piece = client.recv(65536)
            if not piece:
                break
            answer += piece
        return answer


def clients(bench):
    """Clients that do it wrong get an error or nothing, and others do not notice."""
    with Gateway(bench) as gateway:
        port = gateway.port
        post = b"POST /completion HTTP/1.1\r\nHost: x\r\n"
        bad = {
            "two lengths": (post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b" 400 "),
            "length and chunks": (post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b" 400 "),
            "no HTTP": (b"hello\r\n\r\n", b" 400 "),
            "a header too large": (post + b"X: " + b"x" * 100000 + b"\r\n\r\n", b" 431 "),
            "a body too large": (post + b"Content-Length: 99999999999\r\n\r\n", b" 413 "),
            "malformed JSON": (post + b"Connection: close\r\nContent-Length: 3\r\n\r\n{x}", b" 500 "),
        }
        for name, (data, wanted) in bad.items():
            answer = raw(port, data)
            line = answer.split(b"\r\n")[0]
            ok = wanted in line or (name == "malformed JSON" and b" 400 " in line)
            check(ok, f"{name}: {line!r}")
        half = socket.create_connection(("127.0.0.1", port))
        half.sendall(post + b"Content-Length: 100\r\n\r\n{")
        slow = socket.create_connection(("127.0.0.1", port))
        body = json.dumps({"prompt": DOCUMENT, "n_predict": 24, "stream": True}).encode()
        slow.sendall(post + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        slow.recv(1)
        piped = raw(port, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /props HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        check(piped.count(b"HTTP/1.1 200") == 2, f"pipelined requests: {piped[:300]!r}")
        text, _, _ = gateway.complete({"prompt": "Two and two is", "n_predict": 4, "temperature": 0})
        check(len(text) > 0, "no answer beside bad clients")
        gone = socket.create_connection(("127.0.0.1", port))
        body = json.dumps({"prompt": "Once upon a time", "n_predict": 1500, "ignore_eos": True, "stream": True}).encode()
        gone.sendall(post + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        gone.recv(100)
        gone.close()
        gateway.wait_for("/artesian/status", lambda status: not any(s["busy"] for s in status["slots"]))
        half.close()
        slow.close()
        streamed(gateway)


def streamed(gateway):
    """A stream arrives in pieces, as it is made."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=120)
    with contextlib.closing(connection):
        body = {**chat("Count to twenty."), "max_tokens": 24, "stream": True}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        times = []
        while line := answer.readline():
            if line.startswith(b"data:"):
                times.append(time.monotonic())
        check(len(times) > 10 and times[-1] - times[0] > 0.02, f"{len(times)} events within {times[-1] - times[0]} s")


def upstream(bench):
    """Before a server that runs already; without its folder for slots, a plain proxy that says so."""
    slots = bench.folder / "slots"
    slots.mkdir()
    (bench.folder / "kv").mkdir()
    command = [bench.program("llama-server"), "-m", bench.real]

    def serve(server):
        return [bench.artesian, "serve", "--kv", "256M", "--kv-path", bench.folder / "kv",
                "--upstream", f"http://127.0.0.1:{server.port}", "--slot-dir", slots]

    with Server(command, [*OPTIONS, "--slot-save-path", f"{slots}/"], bench.folder / "server.log") as server:
        for turn in range(2):
            with Server(serve(server), [], bench.folder / f"gateway-{turn}.log") as gateway:
                gateway.wait_for("/artesian/status", lambda status: status["state"] == "ready")
                gateway.post("/v1/chat/completions", first_turn())
                check(turn == 0 or gateway.ask("GET", "/artesian/status")[1]["cached_tokens"] > 150, "nothing is cached")
                check(list(slots.iterdir()) == [] or turn == 0, f"left in the folder: {list(slots.iterdir())}")
    with Server(command, OPTIONS, bench.folder / "server.log") as server:
        with Server(serve(server), [], bench.folder / "plain.log") as gateway:
            gateway.wait_for("/artesian/status", lambda status: status["state"] == "plain")
            check("--slot-save-path" in gateway.ask("GET", "/artesian/status")[1]["reason"], gateway.text())
            gateway.post("/v1/chat/completions", chat("Hello"))


CASES = {"restart": restart, "damage": damage, "kill": kill, "clients": clients, "upstream": upstream}

if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
