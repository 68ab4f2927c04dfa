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
GPT_NEOX = make.configuration(make.GPT_NEOX, vocab_size=64, hidden_size=32, intermediate_size=40, num_hidden_layers=2,
                              max_position_embeddings=16)
GEMMA3 = make.configuration(make.GEMMA3, vocab_size=64, intermediate_size=32, num_hidden_layers=3, head_dim=8,
                            query_pre_attn_scalar=8, sliding_window=4, sliding_window_pattern=2,
                            max_position_embeddings=16)
QWEN2 = make.configuration(make.QWEN2, vocab_size=64, intermediate_size=32, num_hidden_layers=2,
                           max_position_embeddings=16, rope_scaling={"rope_type": "yarn", "factor": 4.0,
                                                                     "original_max_position_embeddings": 4})
BERT = make.configuration(make.BERT, vocab_size=64, intermediate_size=32, num_hidden_layers=2,
                          max_position_embeddings=16)
MODERNBERT = make.configuration(make.MODERNBERT, vocab_size=64, intermediate_size=32, num_hidden_layers=3,
                                max_position_embeddings=16, local_attention=6)
LIMIT = 200_000  # bytes a file


def toy(work, config, seed, n_ids, segments=None):
    ids = make.token_ids(config["vocab_size"], n_ids, seed)
    tensors = make.tensors_of(config, seed)
    make.calibrate(work, config, tensors, ids, seed, segments)
    return tensors, ids


def save_expected(path, peer, ids, segments=None):
    f32, _ = reference.both(peer, ids, segments)
    make.assert_spread(f32)
    arrays = {name: np.ascontiguousarray(value) for name, value in f32.items()}
    if segments:
        arrays["segments"] = np.array(segments, np.int32)
    save_file({"ids": np.array(ids, np.int32), **arrays}, path)


def folder(data, work, name, config, seed, n_ids, segments=None, **how):
    tensors, ids = toy(work, config, seed, n_ids, segments)
    make.write_folder(data / name, config, tensors, **how)
    save_expected(data / f"{name}.expected.safetensors", make.open_with_transformers(data / name), ids, segments)


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
        folder(data, work, "gpt-neox-bf16", GPT_NEOX, 6, 10, dtype="BF16")
        folder(data, work, "gemma3-f16", GEMMA3, 7, 12, dtype="F16")
        gguf_file(data, work, "qwen2-yarn-q8_0", QWEN2, 8, 10, "Q8_0")
        folder(data, work, "bert-f16", BERT, 9, 10, segments=[0] * 6 + [1] * 4, dtype="F16")
        folder(data, work, "modernbert-bf16", MODERNBERT, 10, 12, dtype="BF16")
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for path in sorted(p for p in data.rglob("*") if p.is_file()):
        print(f"{path.stat().st_size:7d}  {path.relative_to(HERE)}")
        assert path.stat().st_size < LIMIT


if __name__ == "__main__":
    main()
