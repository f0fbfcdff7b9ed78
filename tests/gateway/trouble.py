"""The gateway when something is full, hangs or is another than before, and ordinary clients before it.

usage: trouble.py CASE ARTESIAN MODELGEN
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from gateway import DOCUMENT, Bench, Gateway, chat, check, child_of, first_turn

SILENCE = 8  # seconds that a server may be silent; a short prompt takes less on a busy machine, too


def hang(bench):
    """A server that stands still: an error within the time that was set, and afterwards it is as before."""
    with Gateway(bench, "--server-silence", SILENCE) as gateway:
        first, _, _ = gateway.complete(chat("Hello."), "/v1/chat/completions")
        gateway.wait_until_saved()
        server = child_of(gateway.process)
        os.kill(server, signal.SIGSTOP)
        try:
            for path in ("/v1/chat/completions", "/props"):
                begin = time.monotonic()
                status, said = gateway.ask("POST" if "chat" in path else "GET", path, chat("Hello."))
                took = time.monotonic() - begin
                check(status in (502, 503), f"{path} of a server that hangs answers {status}: {said}")
                check(took < 2 * SILENCE + 8, f"{path} of a server that hangs is answered after {took:.1f} s")
        finally:
            os.kill(server, signal.SIGCONT)
        gateway.wait_for("/artesian/status", lambda status: status["state"] == "ready")
        text, _, _ = gateway.complete(chat("Hello."), "/v1/chat/completions")
        check(text == first, f"after the server went on {text!r}, not {first!r}")


def cap(bench):
    """The store at its cap: what is new takes the place of what is old."""
    # Little to compute, much to keep: 64 KiB for a token.
    model = bench.model("--arch", "llama", "--heads", "32", "--kv-heads", "32", "--head-size", "128")
    with Gateway(bench, model=model, store="kv-small", kv="64M", name="cap") as gateway:
        for number in range(8):
            prompt = {"prompt": f"{number}. {DOCUMENT}", "n_predict": 1, "temperature": 0}
            gateway.complete(prompt)
            gateway.wait_until_saved()
        saved = gateway.status()["saved_bytes"]
        size = (bench.folder / "kv-small" / "artesian.store").stat().st_size
        check(size <= 64 << 20, f"a store of 64M has {size} bytes")
        check(saved > 64 << 20, f"no more was saved than fits: {saved}")
    with Gateway(bench, model=model, store="kv-small", kv="64M", name="again") as gateway:
        _, cached, _ = gateway.complete(prompt)
        check(cached > 100, f"of the last conversation {cached} tokens are cached")


def other(bench):
    """Another server over the same store: what is computed alike is found, nothing else ever."""
    model = bench.folder / "model.gguf"
    shutil.copyfile(bench.real, model)
    before = model.stat()

    def ask(name, *options):
        with Gateway(bench, model=model, name=name, options=[*options, "--no-kv-unified", "--no-warmup", "--no-webui"]) as gateway:
            said = gateway.complete(first_turn(), "/v1/chat/completions")
            gateway.wait_until_saved()
            return said

    first, _, _ = ask("first", "-c", "2048", "-np", "2", "-t", "1")
    text, cached, _ = ask("slots", "-c", "1024", "-np", "1", "-t", "1")
    check(cached > 150, f"with another number of slots {cached} tokens are cached")
    _, cached, _ = ask("types", "-c", "1024", "-np", "1", "-t", "1", "-ctk", "q8_0")
    check(cached == 0, f"with other cache types {cached} tokens are cached")
    # The same name, file, size and date; other weights.
    with open(model, "r+b") as file:
        file.seek(before.st_size // 2)
        piece = file.read(1 << 16)
        file.seek(before.st_size // 2)
        file.write(piece[::-1])
    os.utime(model, ns=(before.st_atime_ns, before.st_mtime_ns))
    _, cached, _ = ask("swapped", "-c", "1024", "-np", "1", "-t", "1")
    check(cached == 0, f"of another model under the same name {cached} tokens are cached")
    shutil.copyfile(bench.real, model)
    back, cached, _ = ask("back", "-c", "1024", "-np", "1", "-t", "1")
    check(cached > 150 and back == text, f"the first model again: {back!r} with {cached} cached, not {text!r}; {first!r} at first")


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


TOOLS = {"type": "object", "properties": {"well": {"type": "integer"}, "again": {"type": "boolean"}}, "required": ["well"]}


def anthropic(question, *more):
    messages = [{"role": "user", "content": [{"type": "text", "text": f"Remember this: {DOCUMENT} "},
                                             {"type": "text", "text": question}]}, *more]
    return {"system": "You answer briefly.", "messages": messages, "max_tokens": 8, "temperature": 0,
            "tools": [{"name": "depth", "description": "How deep a well is", "input_schema": TOOLS}]}


def responses(question, *more):
    asked = [{"role": "user", "content": [{"type": "input_text", "text": f"Remember this: {DOCUMENT} {question}"}]}, *more]
    return {"instructions": "Say little, and say it at once.", "input": asked, "max_output_tokens": 8, "temperature": 0,
            "tools": [{"type": "function", "name": "depth", "description": "How deep a well is", "parameters": TOOLS}]}


def forms(bench):
    """Anthropic's messages and OpenAI's responses: restored after a restart as chats are."""
    used = [{"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "depth", "input": {"well": 3}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "51 metres"}]}]
    called = [{"type": "function_call", "call_id": "c1", "name": "depth", "arguments": '{"well":3}'},
              {"type": "function_call_output", "call_id": "c1", "output": "51 metres"}]
    turns = [("/v1/messages", anthropic, used), ("/v1/responses", responses, called)]

    def ask(gateway, path, body):
        before = gateway.status()
        said = gateway.post(path, body)
        usage = said["usage"]
        cached = usage["cache_read_input_tokens"] if "messages" in path else usage["input_tokens_details"]["cached_tokens"]
        gateway.wait_until_saved()
        after = gateway.status()
        check(after["prompt_tokens"] - before["prompt_tokens"] == usage["input_tokens"] + (cached if "messages" in path else 0),
              f"{path}: {after['prompt_tokens'] - before['prompt_tokens']} tokens were expected, the server has {usage}")
        return json.dumps(said.get("content", said.get("output", [{}])[-1].get("content"))), cached, \
            after["restored_tokens"] - before["restored_tokens"]

    with Gateway(bench, name="before") as gateway:
        for path, make, _ in turns:
            _, cached, restored = ask(gateway, path, make("How deep is well number 3?"))
            check(restored < 8, f"{path}: {restored} tokens were restored, and only what a template begins with is known")
    # As the slots were; then what goes on from there.
    with Gateway(bench, name="after") as gateway:
        for path, make, more in turns:
            first, cached, restored = ask(gateway, path, make("How deep is well number 3?"))
            check(cached > 150 and restored > 150, f"{path}: {cached} tokens are cached, {restored} restored")
            again, held, _ = ask(gateway, path, make("How deep is well number 3?"))
            check(again == first, f"{path}: {first!r} after a restart, {again!r} without one; {cached} and {held} cached")
            _, cached, _ = ask(gateway, path, make("How deep is well number 3?", *more))
            check(cached > 150, f"{path} with a tool's answer: {cached} tokens are cached")


CASES = {"hang": hang, "cap": cap, "full": full, "other": other, "openai": openai, "forms": forms}

if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
