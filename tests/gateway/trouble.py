"""The gateway when something is full, and an ordinary client of OpenAI's before it.

usage: trouble.py CASE ARTESIAN MODELGEN
"""

import json
import os
import subprocess
import sys

from gateway import Bench, Gateway, check, first_turn


def small(folder, left_kib):
    """What starts a gateway whose staging folder is a file system of its own with so much room, seen by it alone."""
    script = (f"mount -t tmpfs -o size=64m none {folder} && "
              f"head -c $((64 * 1048576 - {left_kib} * 1024)) /dev/zero >{folder}/filler; exec \"$@\"")
    rights = [] if os.geteuid() == 0 else ["-r"]
    return ["unshare", *rights, "-m", "bash", "-c", script, "artesian-small"]


def full(bench):
    """Where slot files have no room contexts are not saved, or not restored, and answers stay what they were."""
    folder = bench.folder / "staging"
    folder.mkdir()
    with Gateway(bench, name="whole") as gateway:
        first, _, _ = gateway.complete(first_turn(), "/v1/chat/completions")
        gateway.wait_until_saved()
        saved = gateway.status()["saved_tokens"]
    # Enough for what a server is probed with, not for the conversation.
    with Gateway(bench, "--staging", folder, name="full", before=small(folder, 2500)) as gateway:
        check(gateway.status()["state"] == "ready", f"the gateway is {gateway.status()['reason']}")
        text, cached, restored = gateway.complete(first_turn(), "/v1/chat/completions")
        check((text, cached, restored) == (first, 0, 0), f"{text!r} with {cached} cached, not {first!r} computed")
        check("No space left" in gateway.text(), f"nothing is said about the full folder: {gateway.text()[-2000:]}")
    check(saved > 150, f"{saved} tokens were saved")
    done = subprocess.run([bench.artesian, "serve", "--kv", "900T", "--kv-path", bench.folder / "kv-large", "--", "true"],
                          capture_output=True, text=True, timeout=60, check=False)
    check(done.returncode != 0 and done.stderr.count("\n") == 1, f"without space for the store: {done.stderr!r}")


OPENAI = """
import json, sys, openai
client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-none", max_retries=0)
messages = [{"role": "user", "content": sys.argv[2]}]
whole = client.chat.completions.create(model="m", messages=messages, max_tokens=8, temperature=0, seed=1)
# The streamed answer begins where the slot ends, so it is compared with one that did, too: other batches round differently.
again = client.chat.completions.create(model="m", messages=messages, max_tokens=8, temperature=0, seed=1)
text = ""
for event in client.chat.completions.create(model="m", messages=messages, max_tokens=8, temperature=0, seed=1, stream=True):
    text += (event.choices[0].delta.content or "") if event.choices else ""
try:
    client.chat.completions.create(model="m", messages="none")
    error = None
except openai.APIStatusError as refused:
    error = refused.status_code
print(json.dumps({"text": again.choices[0].message.content, "streamed": text, "error": error,
                  "cached": whole.usage.prompt_tokens_details.cached_tokens,
                  "models": len(client.models.list().data)}))
"""


def openai(bench):
    """The openai package: answers, streams, errors, and how many tokens were cached."""
    if "ARTESIAN_PYTHON" not in os.environ:
        sys.exit("ARTESIAN_PYTHON is not set; ./test sets it")
    prompt = first_turn()["messages"][0]["content"]

    def ask(gateway):
        done = subprocess.run([os.environ["ARTESIAN_PYTHON"], "-c", OPENAI, f"http://127.0.0.1:{gateway.port}/v1", prompt],
                              capture_output=True, text=True, timeout=120, check=False)
        check(done.returncode == 0, f"the client ends with {done.returncode}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    with Gateway(bench, name="before") as gateway:
        first = ask(gateway)
        check(first["text"] == first["streamed"] and first["text"], f"another text when streamed: {first}")
        check(first["error"] in (400, 500), f"messages that are none are answered with {first['error']}")
        check(first["models"] == 1, f"{first['models']} models are listed")
        gateway.wait_until_saved()
    with Gateway(bench, name="after") as gateway:
        again = ask(gateway)
        check(again["cached"] > 150, f"after a restart {again['cached']} tokens are cached")


CASES = {"full": full, "openai": openai}

if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
