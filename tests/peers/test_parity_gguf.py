"""GGUF files written with the gguf package, rows and columns in llama.cpp's order, against transformers on the weights
that each file holds once dequantised. The same toy as a Hugging Face folder must give the same results. That the writer
here and transformers understand a llama file alike is checked by letting transformers read it."""
import common
import torch
from transformers import AutoModelForCausalLM

import checkpoints as make
import reference

SMALL = {"hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 80}

# name, changes to the configuration, type of the matrices, type of the embedding
FILES = [
    ("gguf-f32", {}, "F32", None),
    ("gguf-f32-one-kv", {"num_key_value_heads": 1, "rope_theta": 500000.0}, "F32", None),
    ("gguf-f32-head-dim", {"head_dim": 24}, "F32", None),
    ("gguf-f32-tied", {"tie_word_embeddings": True, "rms_norm_eps": 1e-3}, "F32", None),
    ("gguf-f32-biases", {"attention_bias": True}, "F32", None),
    ("gguf-f16", {}, "F16", None),
    ("gguf-bf16", {"tie_word_embeddings": True}, "BF16", None),
    ("gguf-q8_0", {"hidden_size": 128, "num_attention_heads": 8}, "Q8_0", None),
    ("gguf-q8_0-tied", {"tie_word_embeddings": True}, "Q8_0", None),
    ("gguf-q4_0", {}, "Q4_0", "F16"),
    ("gguf-q4_1-tied", {"tie_word_embeddings": True}, "Q4_1", "Q8_0"),
    ("gguf-q5_0", {}, "Q5_0", None),
    ("gguf-q5_1", {}, "Q5_1", None),
]
GPT2_FILES = [
    ("gguf-gpt2-f32", {}, "F32", None),
    ("gguf-gpt2-f16", {"tie_word_embeddings": False, "n_inner": 96}, "F16", None),
    ("gguf-gpt2-q8_0", {}, "Q8_0", None),
]
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
BODY = {"architectures": ["BertModel"]}
# name, configuration, changes to it, type of the matrices. llama.cpp's reader knows one activation a family, and of
# Gemma the scale of scores that goes with the head's width.
OTHER_FILES = [
    ("gguf-llama-linear", make.LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.5}}, "F32"),
    ("gguf-llama-llama3", make.LLAMA, {"rope_scaling": LLAMA3}, "F32"),
    ("gguf-llama-yarn", make.LLAMA, {"rope_scaling": YARN}, "F32"),
    ("gguf-mistral", make.MISTRAL, {}, "F16"),
    ("gguf-qwen2", make.QWEN2, {"hidden_size": 64, "intermediate_size": 96}, "Q8_0"),
    ("gguf-qwen3", make.QWEN3, {"tie_word_embeddings": True}, "F32"),
    ("gguf-qwen3-yarn", make.QWEN3, {"rope_scaling": YARN}, "BF16"),
    ("gguf-phi3", make.PHI3, {"sliding_window": 9}, "F32"),
    ("gguf-phi3-q8_0", make.PHI3, {"hidden_size": 64, "intermediate_size": 96}, "Q8_0"),
    ("gguf-gemma2", make.GEMMA2, {"query_pre_attn_scalar": 12}, "F32"),
    ("gguf-gemma2-q4_0", make.GEMMA2, {"hidden_size": 64, "head_dim": 16, "query_pre_attn_scalar": 16,
                                       "intermediate_size": 96, "attn_logit_softcapping": 7.0}, "Q4_0"),
    ("gguf-gemma3", make.GEMMA3, {"query_pre_attn_scalar": 12}, "F32"),
    ("gguf-gemma3-linear", make.GEMMA3, {"query_pre_attn_scalar": 12, "rope_theta": 5000.0, "rope_scaling":
                                         {"rope_type": "linear", "factor": 8.0}}, "F16"),
    ("gguf-neox", make.GPT_NEOX, {"rotary_pct": 0.5}, "F32"),
    ("gguf-neox-serial", make.GPT_NEOX, {"use_parallel_residual": False, "rotary_pct": 1.0}, "F16"),
    ("gguf-bloom", make.BLOOM, {}, "F32"),
    ("gguf-bloom-q8_0", make.BLOOM, {"hidden_size": 96, "n_head": 6}, "Q8_0"),
    ("gguf-bert", make.BERT, BODY, "F32"),
    ("gguf-bert-q8_0", make.BERT, {**BODY, "hidden_size": 64, "intermediate_size": 96}, "Q8_0"),
    ("gguf-roberta", make.ROBERTA, {"architectures": ["RobertaModel"]}, "F32"),
    ("gguf-roberta-pad", make.ROBERTA, {"architectures": ["RobertaModel"], "pad_token_id": 4, "type_vocab_size": 1,
                                        "hidden_size": 64, "intermediate_size": 96}, "Q8_0"),
    ("gguf-modernbert", make.MODERNBERT, {"architectures": ["ModernBertModel"]}, "F32"),
]
LENGTH = 40


def assert_read_alike(file, held):
    """transformers reads the same weights from the file as `held` says it has."""
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    theirs = {name.removeprefix("model."): value for name, value in model.state_dict().items()}
    for name, value in held.items():
        assert torch.equal(value, theirs[name]), f"{file.name}: transformers reads another {name}"


def compare(report, name, base, changes, kind, embedding, seed):
    config = make.configuration(base, **changes)
    tensors = make.tensors_of(config, seed)
    report.causal = make.FAMILIES[config["model_type"]].causal
    ids = make.token_ids(config["vocab_size"], LENGTH, seed)
    if config["model_type"] == "roberta":  # whose padding id would move positions
        ids = [i + (i == config["pad_token_id"]) for i in ids]
    with common.scratch() as folder:
        make.calibrate(folder / "work", config, tensors, ids, seed)
        file = folder / f"{name}.gguf"
        factors = "llama3" in name and make.write_folder(folder / "whole", config, tensors)
        held = make.write_gguf(file, config, tensors, kind, embedding, factors)
        if base is make.LLAMA and "biases" not in name and "rope_scaling" not in changes:
            assert_read_alike(file, held)
        twin = make.write_folder(folder / "twin", config, held)
        options = {"add_pooling_layer": False} if config["model_type"] in make.BERTS else {}
        f32, f64 = reference.both(make.open_with_transformers(twin, **options), ids)
        make.assert_spread(f32, config["model_type"])
        report.run(name, file, folder, f32, f64, ids=ids)
        # Both files hold one model: whatever is in the one must come out of the other.
        report.run(f"{name}, folder", twin, folder, f32, f64, ids=ids)


def test_random_files():
    report = common.Report()
    for seed, (name, changes, kind, embedding) in enumerate(FILES, start=200):
        compare(report, name, make.LLAMA, {**SMALL, **changes}, kind, embedding, seed)
    for seed, (name, changes, kind, embedding) in enumerate(GPT2_FILES, start=300):
        compare(report, name, make.GPT2, changes, kind, embedding, seed)
    for seed, (name, base, changes, kind) in enumerate(OTHER_FILES, start=800):
        compare(report, name, base, changes, kind, None, seed)
    report.finish()


def test_refused_by_name():
    """Architectures of llama.cpp that are close to one that is read, and are another."""
    import gguf
    with common.scratch() as folder:
        for arch in ("nomic-bert", "jina-bert-v2", "phi2", "gemma", "mamba"):
            path = folder / f"{arch}.gguf"
            writer = gguf.GGUFWriter(path, arch)
            writer.add_block_count(1)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            said = common.headscope("info", path, status=1).stderr.decode()
            assert f'architecture "{arch}" is not supported' in said and path.name in said, said
            print(f"{arch:46} refused")


if __name__ == "__main__":
    common.main(globals())
