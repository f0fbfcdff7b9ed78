"""Seeded conversations through the gateway, once without a stop and once with restarts of everything in between: the
same greedy text, from as many tokens in the cache.

usage: conversations.py ARTESIAN MODELGEN
Environment: ARTESIAN_CONVERSATIONS, how many seeds; ARTESIAN_FIRST_SEED, the first of them.
"""

import os
import random
import sys

from gateway import Bench, Gateway, check

WORDS = ("the water rises from deep well in old stone town where people build houses of wood and clay near river that "
         "flows to sea every year they plant fields with grain after rain falls on hills when winter comes").split()
SYSTEMS = ["You answer in one word.", "You are a miller who talks about the weather and nothing else, at length."]
STEPS, TURNS_MAX, ANSWER_TOKENS = 7, 4, 6
SEEDS = 2
OPTIONS = ["-c", "3072", "-np", "3", "--no-kv-unified", "--no-warmup", "--no-webui", "-t", "2"]


def text(rng, words):
    return " ".join(rng.choice(WORDS) for _ in range(words)) + "."


def next_messages(rng, conversations):
    """What is asked next: a new conversation, or one that goes on, branches, is edited, asked again, or told otherwise
    who it is."""
    kind = rng.choice(["new", "on", "on", "on", "branch", "edit", "again", "system"]) if conversations else "new"
    if kind == "new":
        # Half of them begin as another one does.
        first = conversations[0][1]["content"] if conversations and rng.random() < 0.5 else text(rng, 32)
        messages = [{"role": "system", "content": rng.choice(SYSTEMS)},
                    {"role": "user", "content": f"{first} {text(rng, 10)}"}]
        conversations.append(messages)
        return messages
    at = rng.randrange(len(conversations))
    messages = [dict(message) for message in conversations[at]]
    users = [i for i, message in enumerate(messages) if message["role"] == "user"]
    if kind == "again" or len(users) >= TURNS_MAX:  # the last answer once more
        messages = messages[:users[-1] + 1]
    elif kind == "edit":
        place = rng.choice(users)
        words = messages[place]["content"].split(" ")
        words[len(words) // 2] = rng.choice(WORDS)
        messages = [*messages[:place], {"role": "user", "content": " ".join(words)}]
    elif kind == "system":
        messages[0]["content"] = rng.choice(SYSTEMS)
        messages = messages[:users[-1] + 1]
    else:
        messages.append({"role": "user", "content": text(rng, rng.randrange(3, 25))})
    if kind == "branch":
        conversations.append(messages)
    else:
        conversations[at] = messages
    return messages


def ask(gateway, messages):
    body = {"messages": messages, "max_tokens": ANSWER_TOKENS, "temperature": 0, "seed": 1, "ignore_eos": True}
    said, cached, _ = gateway.complete(body, "/v1/chat/completions")
    gateway.wait_until_saved()
    return said, cached


def without_stop(bench, seed):
    """The script of a seed: what was asked, what was answered, how many tokens of it came from the cache."""
    rng, conversations, script = random.Random(seed), [], []
    with Gateway(bench, options=OPTIONS, store=f"kv-{seed}", name=f"{seed}") as gateway:
        for _ in range(STEPS):
            messages = next_messages(rng, conversations)
            asked = [dict(message) for message in messages]
            said, cached = ask(gateway, asked)
            messages.append({"role": "assistant", "content": said})
            script.append((asked, said, cached))
    return script


def with_restarts(bench, seed, script):
    """How many steps were compared. One that has another number of tokens in the cache (where the measured rates said
    another thing of a few tokens) leaves the server other batches, which round differently: from there on nothing can be
    compared. On a quiet machine all are."""
    rng, left, compared = random.Random(-seed), 0, 0
    gateway = None
    try:
        for number, (asked, wanted, cached_before) in enumerate(script):
            if left == 0:
                left = rng.randrange(2, 5)
                if gateway is not None:
                    gateway.__exit__()
                gateway = Gateway(bench, options=OPTIONS, store=f"kv-again-{seed}", name=f"{seed}-{number}").__enter__()
            left -= 1
            said, cached = ask(gateway, asked)
            if cached != cached_before:
                print(f"seed {seed}, step {number}: {cached} and not {cached_before} tokens were in the cache")
                break
            check(said == wanted, f"seed {seed}, step {number}: {said!r} after restarts, {wanted!r} without; {cached} cached")
            compared += 1
    finally:
        if gateway is not None:
            gateway.__exit__()
    return compared


def main(bench, first, count):
    compared = 0
    for seed in range(first, first + count):
        print(f"seed {seed}", flush=True)
        compared += with_restarts(bench, seed, without_stop(bench, seed))
    print(f"{compared} of {count * STEPS} answers were compared")
    check(compared >= 0.8 * count * STEPS, f"only {compared} of {count * STEPS} answers could be compared")


if __name__ == "__main__":
    with Bench.open(*sys.argv[1:3]) as opened:
        main(opened, int(os.environ.get("ARTESIAN_FIRST_SEED", "1")), int(os.environ.get("ARTESIAN_CONVERSATIONS", SEEDS)))
