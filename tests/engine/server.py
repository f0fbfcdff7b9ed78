"""llama-server behind the weights door: the same answers as the same server with --no-repack.

usage: server.py CASE ARTESIAN MODELGEN

Requests one after the other must give the same text, the same probabilities and the same vectors, bit for bit. Requests
at once share batches in an order that time decides, so there only that each is answered whole, and that the server goes
on giving the same answers afterwards.
"""

import concurrent.futures
import json
import shutil
import sys

import adapter
from engine import Bench, Server, check, run, streamed

MOE = ["--arch", "qwen3moe", "--type", "Q8_0"]
MIXED = ["--arch", "qwen3moe", "--type", "mixed"]
THREADS = ["-t", "1", "--no-warmup", "--no-webui"]
PROMPTS = ["Once upon a time there was a river that ran under the sand.", "Water rises by itself when", "In the deep layer"]


def completion(prompt, tokens=16, **more):
    return {"prompt": prompt, "n_predict": tokens, "temperature": 0.8, "seed": 3, "cache_prompt": False, "id_slot": 0,
            "ignore_eos": True, "n_probs": 4, **more}


def answers(server, requests):
    """What the server says to each, less what time decides."""
    said = []
    for path, body in requests:
        answer = server.post(path, body)
        if isinstance(answer, dict):
            for key in ("timings", "id", "created", "generation_settings", "model", "system_fingerprint"):
                answer.pop(key, None)
        said.append(answer)
    return said


def compare(plain, door, requests):
    for (path, _), one, other in zip(requests, plain, door, strict=True):
        if one != other:
            sys.exit(f"{path}: the door changed the answer:\n{str(one)[:1500]}\n{str(other)[:1500]}")


def run_both(bench, model, share, options, requests, mode="on", then=None):
    """The same requests to both servers, compared; then `then(server, answers)` with the door's."""
    command = [bench.program("llama-server"), "-m", model, *THREADS]
    with Server(command, [*options, "--no-repack"], bench.folder / "plain.log") as server:
        plain = answers(server, requests)
    with Server([*bench.door(model, share, mode), *command], options, bench.folder / "door.log") as server:
        compare(plain, answers(server, requests), requests)
        if then:
            then(server, plain)
    check(server.process.returncode == 0, f"the door's server ended with {server.process.returncode}")
    print("\n".join(server.said()))
    check(streamed(server.said()), "the door did not stream")


def slots(bench):
    """Several slots: one after the other, then many at once, then again as at first; chat as well."""
    chat = {"messages": [{"role": "user", "content": "What is an artesian well?"}], "max_tokens": 12, "seed": 5,
            "temperature": 0.7, "cache_prompt": False, "id_slot": 1}
    requests = [("/completion", completion(prompt)) for prompt in PROMPTS] + [("/v1/chat/completions", chat)]

    def at_once(server, plain):
        bodies = [completion(f"{PROMPTS[i % 3]} {i}", tokens=8 + i, id_slot=-1, cache_prompt=True) for i in range(12)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            for body, answer in zip(bodies, pool.map(lambda body: server.post("/completion", body), bodies)):
                check(answer["tokens_predicted"] == body["n_predict"], f"cut off: {answer}")
        compare(plain, answers(server, requests), requests)

    run_both(bench, bench.model(*MOE), 0.75, ["-np", "4", "-c", "2048", "-b", "64"], requests, then=at_once)


def embeddings(bench):
    requests = [("/v1/embeddings", {"input": PROMPTS}), ("/v1/embeddings", {"input": PROMPTS[0] * 12})]
    run_both(bench, bench.model(*MIXED), 0.8, ["--embeddings", "--pooling", "mean", "-np", "2", "-c", "1024"], requests)


def prefill(bench, ubatch):
    """Prompts of many sizes, around the sizes at which batches and kernels change; then some hundred tokens."""
    model = bench.model(*MIXED)
    sizes = [1, 2, 3, 7, 8, 9, 31, 32, 33, 63, 64, 65, 511, 512, 513]
    requests = [("/completion", completion([(7 * i + size) % 1900 + 20 for i in range(size)], tokens=2)) for size in sizes]
    requests.append(("/completion", completion(PROMPTS[0], tokens=300, n_probs=0)))
    run_both(bench, model, 0.75, ["-np", "1", "-c", "1024", "-ub", ubatch, "-b", max(ubatch, 64)], requests)


def draft(bench):
    """Speculative decoding: two models in one process, a door for each, and one budget for both."""
    model = bench.model(*MOE)
    other = bench.model("--arch", "mixtral", "--type", "Q8_0", name="draft", seed=8)
    requests = [("/completion", completion(prompt, tokens=24, temperature=0)) for prompt in PROMPTS]
    options = ["-md", other, "--spec-type", "draft-simple", "-np", "1", "-c", "512"]
    share = 1.2  # each could use nearly all of it
    budget = int(share * model.stat().st_size)

    def within_budget(server, _):
        doors = json.loads(run([bench.artesian, "stat", "--json"]).stdout)
        doors = [door for door in doors if door["model"] in (str(model), str(other))]
        for door in doors:
            print({name: door[name] for name in ("state", "model", "budget_bytes", "committed_bytes")})
        check([door["state"] for door in doors] == ["active", "active"], f"not two open doors: {doors}")
        check(sum(door["budget_bytes"] for door in doors) <= budget, "together they may take more than the budget")
        check(sum(door["committed_bytes"] for door in doors) <= budget, "together they take more than the budget")

    run_both(bench, model, share, options, requests, then=within_budget)


def lora(bench):
    """An adapter over experts and attention: bytes that are in no model file, scaled by the request."""
    model = bench.model(*MOE)
    path = bench.folder / "adapter.gguf"
    adapter.write_adapter(model, path, ["attn_q", "ffn_gate_exps", "ffn_down_exps"])
    requests = [("/completion", completion(PROMPTS[0], lora=[{"id": 0, "scale": scale}])) for scale in (0.0, 1.0, 0.5)]

    def differ(_, plain):
        check(plain[0]["content"] != plain[1]["content"], "the adapter changes nothing, so this test shows nothing")

    run_both(bench, model, 0.75, ["--lora", path, "-np", "1", "-c", "512"], requests, then=differ)


def lora_dense(bench):
    path = bench.folder / "adapter.gguf"
    adapter.write_adapter(bench.real, path, ["attn_q.", "ffn_down"])
    requests = [("/completion", completion(PROMPTS[0], tokens=8))]
    run_both(bench, bench.real, 0.6, ["--lora", path, "-np", "1", "-c", "256"], requests)


def sleep(bench):
    """An idle server frees its model, and loads it again for the next request: the door goes and comes with it."""
    requests = [("/completion", completion(PROMPTS[0]))]

    def again(server, plain):
        server.wait_for("/props", lambda answer: answer.get("is_sleeping"))
        compare(plain, answers(server, requests), requests)

    run_both(bench, bench.model(*MOE), 0.75, ["-np", "1", "-c", "512", "--sleep-idle-seconds", "1"], requests, then=again)


def router(bench):
    """Router mode: the server starts a server for each model; each of these has a door of its own."""
    folder = bench.folder / "models"
    folder.mkdir()
    for name, seed in (("one", 1), ("two", 2)):
        shutil.move(bench.model(*MOE, name=name, seed=seed), folder / f"{name}.gguf")
    options = ["--models-dir", folder, "--models-max", "2", "-np", "1", "-c", "512", *THREADS]
    requests = [("/completion", completion(PROMPTS[0], model=name)) for name in ("one", "two", "one")]
    with Server([bench.program("llama-server")], [*options, "--no-repack"], bench.folder / "plain.log") as server:
        plain = answers(server, requests)
    door = bench.door(folder / "one.gguf", 0.75)
    with Server([*door, bench.program("llama-server")], options, bench.folder / "door.log") as server:
        compare(plain, answers(server, requests), requests)
    print("\n".join(server.said()))
    check(streamed(server.said()), "the doors of the servers that the router started are not in the closing line")
    # The last token of an answer is sampled and not computed any more; a warm-up may come on top.
    tokens = sum(answer["tokens_evaluated"] + answer["tokens_predicted"] - 1 for answer in plain)
    counted = int(server.said()[-1].split()[1])
    check(counted >= tokens, f"{tokens} tokens passed through both models together, and {counted} were counted")



CASES = {
    "slots": slots, "embeddings": embeddings, "draft": draft, "lora": lora, "lora-dense": lora_dense, "router": router,
    "sleep": sleep,
    "prefill-32": lambda bench: prefill(bench, 32),
    "prefill-64": lambda bench: prefill(bench, 64),
    "prefill-512": lambda bench: prefill(bench, 512),
}


if __name__ == "__main__":
    with Bench.open(*sys.argv[2:4]) as opened:
        CASES[sys.argv[1]](opened)
