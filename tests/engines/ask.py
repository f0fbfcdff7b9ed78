"""vLLM on the CPU, started anew for each job: a job as JSON on a line of stdin; the lines {"pid": ...} and then [answer, ...] on stdout.

Run by the python that has vLLM. Each job gets a process of its own, forked from this one before it has started anything, which saves
a minute of imports and nothing else; its process group is the pid's. In it are front end, scheduler and worker, with one thread for the
compute (so that bits are repeated); with "processes": true the latter two are processes of their own, as vLLM starts them by default.

A job: {"model": folder, "transfer": kv_transfer_config or null, "more": {engine arguments}, "processes": bool, "questions": [...]};
a question: {"start": n, "count": n (of the licence's tokens), "answer": tokens, "salt": text}; {"together": [questions]}; or
{"do": "reset", "connector": bool}, which empties the engine's own prefix cache, and resets the connector, too. An answer: {"ids": [...], "cached": tokens that were not computed, "seconds": until the last of them}.
"""

import json
import os
import pathlib
import sys
import time

TEXT = pathlib.Path(__file__).resolve().parents[2] / "LICENSE"
os.environ |= {
    "VLLM_CPU_NUM_OF_RESERVED_CPU": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}

import vllm  # noqa: E402
import vllm.v1.engine.core  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401
import vllm.model_executor.models.llama  # noqa: E402, F401


def prompt(text: list[int], question: dict) -> vllm.TokensPrompt:
    start = question.get("start", 0)
    made = vllm.TokensPrompt(prompt_token_ids=text[start : start + question["count"]])
    if "salt" in question:
        made["cache_salt"] = question["salt"]
    return made


def ask(engine: vllm.LLM, text: list[int], question: dict) -> dict | list[dict]:
    if question.get("do") == "reset":
        engine.reset_prefix_cache(reset_connector=question["connector"])
        return {}
    together = question.get("together", [question])
    settings = [vllm.SamplingParams(max_tokens=each.get("answer", 1), temperature=0, ignore_eos=True) for each in together]
    begun = time.monotonic()
    said = engine.generate([prompt(text, each) for each in together], settings, use_tqdm=False)
    seconds = time.monotonic() - begun
    answers = [{"ids": list(one.outputs[0].token_ids), "cached": one.num_cached_tokens, "seconds": seconds} for one in said]
    return answers if "together" in question else answers[0]


def answers(job: dict) -> list[dict]:
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = str(int(job["processes"]))
    engine = vllm.LLM(job["model"], kv_transfer_config=job["transfer"], enforce_eager=True, max_model_len=2048, max_num_seqs=4,
                      seed=1, **job["more"])
    text = engine.get_tokenizer().encode(TEXT.read_text())
    # What the first forward of a process pays is not what is measured.
    engine.generate(vllm.TokensPrompt(prompt_token_ids=text[-40:]), vllm.SamplingParams(max_tokens=4), use_tqdm=False)
    return [ask(engine, text, question) for question in job["questions"]]


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # engines print there
    for line in sys.stdin:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setsid()
            os.close(read)
            with os.fdopen(write, "w") as pipe:
                pipe.write(json.dumps(answers(json.loads(line))))
            sys.exit(0)
        os.close(write)
        print(json.dumps({"pid": pid}), file=out, flush=True)
        with os.fdopen(read) as pipe:
            said = pipe.read()
        os.waitpid(pid, 0)
        print(said or "null", file=out, flush=True)


if __name__ == "__main__":
    main()
