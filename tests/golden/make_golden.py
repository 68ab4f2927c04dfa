"""Makes tests/golden/data: tiny random checkpoints and what transformers computes with them at every site.

Run it with the Python of the peers when the toys or the sites change: python tests/golden/make_golden.py. It writes the
same bytes again on the same versions of PyTorch and transformers; test_golden.py then needs neither.
"""
import pathlib
import shutil
import sys

import numpy as np
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "peers"))

import common  # noqa: E402,F401  (keeps transformers quiet and offline)
import checkpoints as make  # noqa: E402
import reference  # noqa: E402

GPT2 = make.configuration(make.GPT2, vocab_size=64, n_positions=16, n_embd=16, n_head=2, n_layer=2)
LLAMA = make.configuration(make.LLAMA, vocab_size=64, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16)
LIMIT = 200_000  # bytes a file


def toy(work, config, seed, n_ids):
    ids = make.token_ids(config["vocab_size"], n_ids, seed)
    tensors = (make.gpt2_tensors if config["model_type"] == "gpt2" else make.llama_tensors)(config, seed)
    make.calibrate(work, config, tensors, ids, seed)
    return tensors, ids


def save_expected(path, peer, ids):
    f32, _ = reference.both(peer, ids)
    make.assert_spread(f32)
    arrays = {name: np.ascontiguousarray(value) for name, value in f32.items()}
    save_file({"ids": np.array(ids, np.int32), **arrays}, path)


def folder(data, work, name, config, seed, n_ids, **how):
    tensors, ids = toy(work, config, seed, n_ids)
    make.write_folder(data / name, config, tensors, **how)
    save_expected(data / f"{name}.expected.safetensors", make.open_with_transformers(data / name), ids)


def gguf_file(data, work, name, config, seed, n_ids, kind):
    tensors, ids = toy(work, config, seed, n_ids)
    held = make.write_gguf(data / f"{name}.gguf", config, tensors, kind)
    twin = make.open_with_transformers(make.write_folder(work / "twin", config, held))
    save_expected(data / f"{name}.expected.safetensors", twin, ids)


def main():
    data, work = HERE / "data", HERE / "data.work"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    try:
        folder(data, work, "gpt2", GPT2, 1, 12)
        folder(data, work, "gpt2-untied-f16", {**GPT2, "tie_word_embeddings": False, "n_inner": 40,
                                               "scale_attn_by_inverse_layer_idx": True}, 2, 12,
               dtype="F16", prefix=False)
        folder(data, work, "llama-bf16-shards", {**LLAMA, "head_dim": 12}, 3, 10, dtype="BF16", n_shards=2)
        gguf_file(data, work, "llama-q8_0", {**LLAMA, "tie_word_embeddings": True}, 4, 10, "Q8_0")
        gguf_file(data, work, "llama-q4_1", LLAMA, 5, 10, "Q4_1")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for path in sorted(p for p in data.rglob("*") if p.is_file()):
        print(f"{path.stat().st_size:7d}  {path.relative_to(HERE)}")
        assert path.stat().st_size < LIMIT


if __name__ == "__main__":
    main()
