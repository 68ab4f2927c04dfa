"""Files and checkpoints in nothing but Python's own library: safetensors read and written, the program run on them.

An array here is a flat list of numbers with its shape beside it. HEADSCOPE names the program.
"""
import array
import contextlib
import json
import math
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAM = os.environ.get("HEADSCOPE", str(HERE.parent.parent / "build" / "headscope"))
PATIENCE = int(os.environ.get("HEADSCOPE_TEST_PATIENCE") or 1)  # as in tests/cli/program.py


@contextlib.contextmanager
def scratch():
    path = pathlib.Path(tempfile.mkdtemp(prefix="headscope-golden-"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def headscope(*args, env=None):
    """The finished process, its two outputs as text."""
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, timeout=120 * PATIENCE,
                          env={**os.environ, **(env or {})})
    done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    return done


# ------------------------------------------------------------------------------------------------ safetensors ------

def read_safetensors(path):
    """{name: (shape, numbers)} of a file with F32 and I32 tensors."""
    data = pathlib.Path(path).read_bytes()
    (n,) = struct.unpack_from("<Q", data)
    arrays = {}
    for name, entry in json.loads(data[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        numbers = array.array({"F32": "f", "I32": "i"}[entry["dtype"]])
        start, end = entry["data_offsets"]
        numbers.frombytes(data[8 + n + start : 8 + n + end])
        assert len(numbers) == math.prod(entry["shape"]), f"{name}: {len(numbers)} numbers for {entry['shape']}"
        arrays[name] = (entry["shape"], numbers)
    return arrays


def _bytes(dtype, numbers):
    if dtype == "BF16":
        return b"".join(struct.pack("<f", x)[2:] for x in numbers)
    letter = {"F32": "f", "F16": "e", "F64": "d", "U8": "B", "BOOL": "B", "I64": "q"}[dtype]
    return struct.pack(f"<{len(numbers)}{letter}", *numbers)


def write_safetensors(path, tensors):
    """tensors: {name: (shape, numbers) or (shape, numbers, dtype)}."""
    header, blobs, at = {}, [], 0
    for name, (shape, numbers, *dtype) in tensors.items():
        dtype = dtype[0] if dtype else "F32"
        blob = _bytes(dtype, numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def write_folder(folder, config, tensors):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder


def run(model, folder, sites, ids=None, extra=(), env=None):
    """{name: (shape, numbers)} that `headscope run` saves; `extra` may bring the text instead of ids."""
    out = folder / "out.safetensors"
    source = ["--ids", ",".join(map(str, ids))] if ids else []
    done = headscope("run", "-m", model, *source, "--sites", sites, "-o", out, *extra, env=env)
    assert done.returncode == 0, f"exit status {done.returncode}: {done.stderr}"
    arrays = read_safetensors(out)
    out.unlink()
    return arrays


# ------------------------------------------------------------------------------------------------ checkpoints ------

def filled(shape, value=0.0):
    return (shape, [value] * math.prod(shape))


class Random:
    """Reproducible tensors: matrices of about unit gain, vectors about a mean."""

    def __init__(self, seed):
        self.source = random.Random(seed)

    def normal(self, shape, spread=1.0, mean=0.0):
        return (shape, [self.source.gauss(mean, spread) for _ in range(math.prod(shape))])


def gpt2(vocab_size=17, n_positions=8, n_embd=8, n_head=2, n_layer=2, seed=1, prefix="", n_inner=None, **more):
    """(config, tensors) of a GPT-2 with every tensor random and queries large enough for patterns with a shape."""
    rng, d, inner = Random(seed), n_embd, n_inner or 4 * n_embd
    config = {"model_type": "gpt2", "vocab_size": vocab_size, "n_positions": n_positions, "n_embd": n_embd,
              "n_head": n_head, "n_layer": n_layer, **more}
    if n_inner:
        config["n_inner"] = n_inner
    tensors = {"wte.weight": rng.normal([vocab_size, d]), "wpe.weight": rng.normal([n_positions, d], 0.5)}
    for i in range(n_layer):
        for name, n_in, n_out in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, inner),
                                  ("mlp.c_proj", inner, d)):
            tensors[f"h.{i}.{name}.weight"] = rng.normal([n_in, n_out], 1.3 * n_in ** -0.5)
            tensors[f"h.{i}.{name}.bias"] = rng.normal([n_out], 0.3)
        for name in ("ln_1", "ln_2"):
            tensors[f"h.{i}.{name}.weight"] = rng.normal([d], 0.3, 1.0)
            tensors[f"h.{i}.{name}.bias"] = rng.normal([d], 0.3)
    tensors["ln_f.weight"], tensors["ln_f.bias"] = rng.normal([d], 0.3, 1.0), rng.normal([d], 0.3)
    return config, {prefix + name: value for name, value in tensors.items()}


def llama(vocab_size=17, n_positions=8, d=8, n_heads=2, n_kv=1, inner=12, n_layer=2, seed=1, **more):
    """(config, tensors) of a Llama without an output matrix of its own unless the caller adds one."""
    rng, d_head = Random(seed), d // n_heads
    config = {"model_type": "llama", "vocab_size": vocab_size, "max_position_embeddings": n_positions,
              "hidden_size": d, "intermediate_size": inner, "num_hidden_layers": n_layer,
              "num_attention_heads": n_heads, "num_key_value_heads": n_kv, "rms_norm_eps": 1e-5,
              "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True, **more}
    tensors = {"model.embed_tokens.weight": rng.normal([vocab_size, d])}
    for i in range(n_layer):
        at = f"model.layers.{i}."
        for name, n_in, n_out in (("self_attn.q_proj", d, d), ("self_attn.k_proj", d, n_kv * d_head),
                                  ("self_attn.v_proj", d, n_kv * d_head), ("self_attn.o_proj", d, d),
                                  ("mlp.gate_proj", d, inner), ("mlp.up_proj", d, inner), ("mlp.down_proj", inner, d)):
            tensors[f"{at}{name}.weight"] = rng.normal([n_out, n_in], 1.5 * n_in ** -0.5)
        for name in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{at}{name}.weight"] = rng.normal([d], 0.3, 1.0)
    tensors["model.norm.weight"] = rng.normal([d], 0.3, 1.0)
    return config, tensors


def byte_tokenizer():
    """A tokenizer.json whose 256 tokens are the bytes, each with its own value as id."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {b: chr(b) for b in shown}, 256
    for b in range(256):
        if b not in letters:
            letters[b] = chr(extra)
            extra += 1
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": {letters[b]: b for b in range(256)}, "merges": []}}


# -------------------------------------------------------------------------------------------------- judgement ------

def rows(array_):
    """The rows along the first dimension of (shape, numbers)."""
    shape, numbers = array_
    size = math.prod(shape[1:])
    return [numbers[i * size : (i + 1) * size] for i in range(shape[0])]


def deviation(site, got, want):
    """The worst figure of a site, as tests/peers judges it: absolute for pattern, a share of the row's largest
    magnitude for logits, a share of the row's norm for the rest."""
    assert list(got[0]) == list(want[0]), f"shape {got[0]}, not {want[0]}"
    if site == "pattern":
        return max(abs(a - b) for a, b in zip(got[1], want[1]))
    if site == "attn_scores":
        got, want = (_scores_by_query(a) for a in (got, want))
        assert all((a == -math.inf) == (b == -math.inf) for a, b in zip(got[1], want[1])), "masked in other places"
    worst = 0.0
    for a, b in zip(rows(got), rows(want)):
        a, b = ([0.0 if x == -math.inf else x for x in row] for row in (a, b))
        difference = [x - y for x, y in zip(a, b)]
        off, size = (max(map(abs, difference)), max(map(abs, b))) if site == "logits" else \
                    (math.hypot(*difference), math.hypot(*b))
        assert off == off, "not finite"
        worst = max(worst, off / size if off else 0.0)
    return worst


def _scores_by_query(scores):
    """[n_heads][n_query][n_key] -> [n_query][n_heads * n_key]: a token's row is what it scores in all heads."""
    (n_heads, n_query, n_key), numbers = scores
    return ([n_query, n_heads * n_key],
            [numbers[(h * n_query + q) * n_key + k] for q in range(n_query) for h in range(n_heads)
             for k in range(n_key)])
