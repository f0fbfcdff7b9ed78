"""The second engine, llama-cpp-python (backend API version 2), behind the weights door: the same text as without.

usage: second.py CASE ARTESIAN MODELGEN

The program is this file again, run by the python that has the engine: `second.py --inside CASE MODEL [MODEL]`. Its models
are Q8_0, which the engine does not repack (there is no switch to forbid it).
"""

import json
import os
import shutil
import sys

from engine import Bench, check, run, said, skip, streamed

MOE = ["--arch", "qwen3moe", "--type", "Q8_0"]
PROMPTS = ["Once upon a time there was a river that ran under the sand.", "Water rises by itself when"]


def load(path, **more):
    import llama_cpp  # only the python of the second engine has it

    return llama_cpp.Llama(model_path=path, n_ctx=256, n_threads=1, n_threads_batch=1, seed=1, verbose=True, **more)


def tell(model, prompt, tokens=16):
    model.reset()
    return model.create_completion(prompt, max_tokens=tokens, temperature=0.8, seed=3)["choices"][0]["text"]


def inside_text(path):
    for mmap in (True, False):
        model = load(path, use_mmap=mmap)
        yield from (tell(model, prompt) for prompt in PROMPTS)
        model.close()


def inside_contexts(path):
    """Two contexts of one file, turn by turn."""
    models = [load(path), load(path)]
    for prompt in PROMPTS:
        yield from (tell(model, prompt) for model in models)


def inside_replaced(path, other):
    """Another model comes under the name between two loads."""
    for source in (path, other):
        shutil.copy(source, f"{path}.now")
        model = load(f"{path}.now")
        yield tell(model, PROMPTS[0])
        model.close()


def inside_two(path, other):
    """Two models in one process, the first in use while the second is loaded; then the first goes."""
    first = load(path)
    yield tell(first, PROMPTS[0])
    second = load(other)
    for prompt in PROMPTS:
        yield from (tell(model, prompt) for model in (first, second))
    first.close()
    yield tell(second, PROMPTS[0])


INSIDE = {"text": inside_text, "contexts": inside_contexts, "replaced": inside_replaced, "two": inside_two}


def main(case, bench):
    python = os.environ.get("ARTESIAN_ENGINE2_PYTHON")
    if not python:
        skip("ARTESIAN_ENGINE2_PYTHON is not set: the second engine (API version 2) is installed by ./test --full")
    models = [bench.model(*MOE)]
    if case in ("replaced", "two"):
        models.append(bench.model(*MOE, name="other", seed=9))
    command = [python, "-B", __file__, "--inside", case, *models]
    plain = json.loads(run(command).stdout)
    done = run([*bench.door(models[0], 0.75), *command])
    print("\n".join(said(done)))
    check(streamed(said(done)), "the door did not stream")
    check(len(set(plain)) > 1, f"all answers are alike, so this test shows little: {plain}")
    check(plain == json.loads(done.stdout), f"the door changed the answer:\n{plain}\n{done.stdout!r}")


if __name__ == "__main__":
    if sys.argv[1] == "--inside":
        print(json.dumps(list(INSIDE[sys.argv[2]](*sys.argv[3:]))))
    else:
        with Bench.open(*sys.argv[2:4]) as opened:
            main(sys.argv[1], opened)
