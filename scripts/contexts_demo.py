"""A long document is asked about, the server is stopped and started, and the next question is answered at once.

usage: contexts_demo.py ARTESIAN LLAMA_SERVER MODEL DOCUMENT FOLDER

Prints both answers and the times to their first tokens, both measured at the client. The store lies in FOLDER.
"""

import contextlib
import http.client
import json
import pathlib
import socket
import subprocess
import sys
import time

DOCUMENT_CHARACTERS = 6000
START_SECONDS_MAX = 900  # a large model from a slow disk


@contextlib.contextmanager
def gateway(artesian, server, model, folder):
    """A gateway that is ready, and its port; stopped at the end, the server behind it with it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [artesian, "serve", "--kv", "2G", "--kv-path", folder, "--",
               server, "-m", model, "-c", "8192", "-np", "1", "--host", "127.0.0.1", "--port", str(port)]
    with subprocess.Popen(command, stdout=sys.stderr, stderr=sys.stderr) as process:
        try:
            deadline = time.monotonic() + START_SECONDS_MAX
            while not ready(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    sys.exit("the server did not become ready")
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


def ready(port):
    try:
        state = json.loads(get(port, "/artesian/status"))
    except (OSError, http.client.HTTPException, ValueError):
        return False
    if state["state"] == "plain":
        sys.exit(state["reason"])
    return state["state"] == "ready"


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return connection.getresponse().read()


def ask(port, messages):
    """The answer, the seconds to its first token, and how many tokens were restored for it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1800)
    body = json.dumps({"messages": messages, "stream": True, "max_tokens": 40, "temperature": 0})
    with contextlib.closing(connection):
        begin = time.monotonic()
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        if answer.status != 200:
            sys.exit(f"the server answers {answer.status}: {answer.read()[:300]!r}")
        text, first = "", 0.0
        while line := answer.readline():
            if not line.startswith(b"data: {"):
                continue
            piece = json.loads(line[6:])["choices"][0]["delta"].get("content") if b'"delta"' in line else None
            if piece:
                first = first or time.monotonic() - begin
                text += piece
        return text, first, int(answer.getheader("X-Artesian-Restored-Tokens", "0"))


def main(artesian, server, model, document, folder):
    text = pathlib.Path(document).read_text(encoding="utf-8")[:DOCUMENT_CHARACTERS]
    messages = [{"role": "user", "content": f"{text}\n\nWhat is this text about? Answer in one sentence."}]
    with gateway(artesian, server, model, folder) as port:
        answer, first, _ = ask(port, messages)
        print(f"    the first answer: {answer.strip()}")
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Say it in five words."}]
    with gateway(artesian, server, model, folder) as port:
        answer, second, restored = ask(port, messages)
        print(f"    after a restart:  {answer.strip()}")
    print(f"\n    {'time to first token':<40} {'seconds':>8}")
    print(f"    {'the document computed':<40} {first:>8.2f}")
    print(f"    {f'after a restart, {restored:,} tokens from flash':<40} {second:>8.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 6:
        sys.exit(__doc__)
    main(*sys.argv[1:])
