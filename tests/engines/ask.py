"""vLLM on the CPU, started anew for each job: a job as JSON on a line of stdin; the lines {"pid": ...} and then [answer, ...] on stdout.

Run by the python that has vLLM. Each job gets a process of its own, forked from this one before it has started anything, which saves
a minute of imports and nothing else; its process group is the pid's. In it are front end, scheduler and worker, with one thread for the
compute (so that bits are repeated); with "processes": true the latter two are processes of their own, as vLLM starts them by default.

A job: {"model": folder, "transfer": kv_transfer_config or null, "more": {engine arguments}, "processes": bool, "questions": [...]}, with
"amx": false computed as on a processor without matrix units;
a question: {"start": n, "count": n (of the licence's tokens), "answer": tokens, "salt": text, "adapter": folder}; {"together": [questions]};
or something to do: {"do": "reset", "connector": bool} empties the engine's own prefix cache, and resets the connector, too; {"do": "abort",
"steps": n, ...} asks a question and aborts it after n steps of the engine; {"do": "count"} answers with what ArtesianConnector counts;
{"do": "soak", "seconds": n, "bytes": n, "questions": [...]} asks them in turn, each with an empty prefix cache, for so long and until so much was stored,
and answers with a list. An answer: {"ids": [...], "cached": tokens that were not computed, "seconds": until the last of them}.
"""

import itertools
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

import prometheus_client  # noqa: E402
import torch  # noqa: E402
import vllm  # noqa: E402
import vllm.v1.engine.core  # noqa: E402
import vllm.v1.worker.cpu_worker  # noqa: E402, F401
import vllm.model_executor.models.llama  # noqa: E402, F401
from vllm.lora.request import LoRARequest  # noqa: E402


def prompt(text: list[int], question: dict) -> vllm.TokensPrompt:
    start = question.get("start", 0)
    made = vllm.TokensPrompt(prompt_token_ids=text[start : start + question["count"]])
    if "salt" in question:
        made["cache_salt"] = question["salt"]
    return made


def settings_of(question: dict) -> vllm.SamplingParams:
    return vllm.SamplingParams(max_tokens=question.get("answer", 1), temperature=0, ignore_eos=True)


def reset(engine: vllm.LLM, text: list[int], question: dict) -> dict:
    engine.reset_prefix_cache(reset_connector=question["connector"])
    return {}


def abort(engine: vllm.LLM, text: list[int], question: dict) -> dict:
    inner = engine.llm_engine
    name = inner.add_request(f"aborted after {question['steps']}", prompt(text, question), settings_of(question))
    for _ in range(question["steps"]):
        inner.step()
    inner.abort_request([name], internal=True)
    while inner.has_unfinished_requests():
        inner.step()
    return {}


def counted() -> dict:
    # As Prometheus has it: the engine's own snapshot cuts counters to whole numbers.
    samples = [sample for metric in prometheus_client.REGISTRY.collect() for sample in metric.samples]
    name, end = "vllm:artesian_", "_total"
    return {each.name[len(name) : -len(end)]: each.value for each in samples if each.name.startswith(name) and each.name.endswith(end)}


def soak(engine: vllm.LLM, text: list[int], question: dict) -> list[dict]:
    begun, answers = time.monotonic(), []
    for each in itertools.cycle(question["questions"]):
        engine.reset_prefix_cache()
        status = pathlib.Path("/proc/self/status").read_text()
        memory = int(status.split("VmRSS:")[1].split()[0]) << 10
        answers.append(ask(engine, text, each) | {"start": each["start"], "memory": memory})
        if time.monotonic() - begun > question["seconds"] and counted()["bytes_stored"] > question["bytes"]:
            return answers


DO = {"reset": reset, "abort": abort, "count": lambda engine, text, question: counted(), "soak": soak}


def ask(engine: vllm.LLM, text: list[int], question: dict) -> dict | list[dict]:
    if "do" in question:
        return DO[question["do"]](engine, text, question)
    together = question.get("together", [question])
    settings = [settings_of(each) for each in together]
    begun = time.monotonic()
    adapters = [LoRARequest("adapter", 1, each["adapter"]) if "adapter" in each else None for each in together]
    said = engine.generate([prompt(text, each) for each in together], settings, use_tqdm=False, lora_request=adapters)
    seconds = time.monotonic() - begun
    answers = [{"ids": list(one.outputs[0].token_ids), "cached": one.num_cached_tokens, "seconds": seconds} for one in said]
    return answers if "together" in question else answers[0]


def answers(job: dict) -> list[dict]:
    os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": str(int(job["processes"])), **job["environment"]}
    if not job["amx"]:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"  # products
        torch.cpu._is_amx_tile_supported = lambda: False  # attention: vLLM asks this
    engine = vllm.LLM(job["model"], kv_transfer_config=job["transfer"], enforce_eager=True, max_model_len=2048, max_num_seqs=4,
                      seed=1, **job["more"])
    text = engine.get_tokenizer().encode(TEXT.read_text())
    # What the first forward of a process pays is not what is measured, nor what the first one of so many tokens pays.
    engine.generate(vllm.TokensPrompt(prompt_token_ids=text[-job["warm"]:]), vllm.SamplingParams(max_tokens=4), use_tqdm=False)
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
