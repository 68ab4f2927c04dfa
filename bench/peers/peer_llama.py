"""llama.cpp in the manner of its llama-bench: batches of 2,048 in pieces of 512, random ids, no sampling, one warm-up."""

import ctypes
import random
import time

import llama_cpp as llama

import peer

N_BATCH, N_UBATCH = 2048, 512


@llama.llama_log_callback
def silent(level, text, user):
    pass


def open_context(spec):
    llama.llama_log_set(silent, ctypes.c_void_p(0))
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(spec["model"].encode(), llama.llama_model_default_params())
    if not model:
        raise SystemExit(f"llama.cpp cannot open {spec['model']}")
    options = llama.llama_context_default_params()
    options.n_ctx = spec["depth"] + spec["n"]
    options.n_batch, options.n_ubatch = N_BATCH, N_UBATCH
    options.n_threads = options.n_threads_batch = peer.threads(spec)
    options.flash_attn_type = (llama.LLAMA_FLASH_ATTN_TYPE_ENABLED if spec["flash"] else
                               llama.LLAMA_FLASH_ATTN_TYPE_DISABLED)
    context = llama.llama_init_from_model(model, options)
    if not context:
        raise SystemExit("llama.cpp makes no context")
    return model, context


def decode(context, ids):
    """All ids, at most N_BATCH a call; logits of the last one."""
    for at in range(0, len(ids), N_BATCH):
        piece = (llama.llama_token * len(ids[at : at + N_BATCH]))(*ids[at : at + N_BATCH])
        if llama.llama_decode(context, llama.llama_batch_get_one(piece, len(piece))):
            raise SystemExit("llama_decode failed")
    llama.llama_synchronize(context)


def prepare(spec):
    model, context = open_context(spec)
    n_vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    memory = llama.llama_get_memory(context)
    rng = random.Random(0)
    ids = [rng.randrange(n_vocab) for _ in range(spec["depth"] + spec["n"])]
    depth, rest = spec["depth"], ids[spec["depth"] :]
    if depth:
        decode(context, ids[:depth])

    def run():
        llama.llama_memory_seq_rm(memory, 0, depth, -1)
        start = time.perf_counter()
        if spec["test"] == "pp":
            decode(context, rest)
        else:
            for token in rest:
                decode(context, [token])
        return time.perf_counter() - start

    facts = {"versions": {"llama-cpp-python": llama.__version__}, "threads": llama.llama_n_threads(context),
             "build": llama.llama_print_system_info().decode().strip()}
    return run, facts


if __name__ == "__main__":
    peer.serve(prepare)
