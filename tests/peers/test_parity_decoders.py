"""Decoders beside GPT-2 and Llama: every site of random checkpoints in Hugging Face folders against transformers, float32
and eager attention, each switch of a family's configuration flipped in turn."""
import common
import torch
from safetensors.torch import load_file, save_file

import checkpoints as make
import reference
import whole_checkpoint
from test_generate import greedy

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LONG = {"type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [2.0, 3.0, 4.0, 5.0]}
SIDES = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 5e4},
         "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}

# name, configuration, changes to it, how it is stored, lengths of the sequences
SHAPES = [
    ("llama-linear", make.LLAMA, {"rope_scaling": {"type": "linear", "factor": 2.5}}, {}, (33,)),
    ("llama-dynamic", make.LLAMA, {"rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}, {}, (64,)),
    ("llama-llama3", make.LLAMA, {"rope_scaling": LLAMA3, "rope_theta": 5e5}, {}, (64,)),
    ("llama-llama3-new", make.LLAMA, {"rope_theta": ..., "rope_parameters": {**LLAMA3, "rope_theta": 1e4}}, {}, (40,)),
    ("llama-yarn", make.LLAMA, {"rope_scaling": YARN}, {}, (64,)),
    ("llama-yarn-own", make.LLAMA, {"rope_scaling": {**YARN, "attention_factor": 0.9, "beta_fast": 8.0,
                                                     "beta_slow": 2.0}}, {}, (40,)),
    ("llama-yarn-mscale", make.LLAMA, {"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 1.2,
                                                        "truncate": False}}, {}, (40,)),
    ("llama-yarn-outside", make.LLAMA, {"rope_scaling": YARN, "original_max_position_embeddings": 8}, {}, (40,)),
    ("mistral", make.MISTRAL, {}, {}, (1, 8, 9, 40)),
    ("mistral-no-window", make.MISTRAL, {"sliding_window": None, "num_key_value_heads": 4}, {}, (33,)),
    ("mistral-default-window", make.MISTRAL, {"sliding_window": ..., "head_dim": ...}, {"prefix": False}, (33,)),
    ("mistral-wide-window", make.MISTRAL, {"sliding_window": 100}, {"dtype": "BF16"}, (40,)),
    ("qwen2", make.QWEN2, {}, {}, (2, 33)),
    ("qwen2-window", make.QWEN2, {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}, {}, (33,)),
    ("qwen2-types", make.QWEN2, {"use_sliding_window": True, "sliding_window": 5, "layer_types":
                                 ["sliding_attention", "full_attention", "sliding_attention"]}, {}, (33,)),
    ("qwen2-window-off", make.QWEN2, {"sliding_window": 3, "tie_word_embeddings": True}, {"n_shards": 2}, (33,)),
    ("qwen3", make.QWEN3, {}, {}, (2, 33)),
    ("qwen3-biases", make.QWEN3, {"attention_bias": True, "tie_word_embeddings": True}, {}, (33,)),
    ("qwen3-window", make.QWEN3, {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 2}, {}, (33,)),
    ("qwen3-yarn", make.QWEN3, {"rope_scaling": YARN, "head_dim": 16}, {"dtype": "F16"}, (64,)),
    ("qwen3-wide", make.QWEN3, {"head_dim": 128, "num_attention_heads": 2, "num_key_value_heads": 1,
                                "num_hidden_layers": 2}, {}, (64,)),
    ("phi3", make.PHI3, {}, {}, (2, 33)),
    ("phi3-window", make.PHI3, {"sliding_window": 6, "num_key_value_heads": None}, {}, (33,)),
    ("phi3-partial", make.PHI3, {"partial_rotary_factor": 0.75, "tie_word_embeddings": True}, {"dtype": "BF16"}, (33,)),
    ("phi3-longrope", make.PHI3, {"rope_scaling": LONG, "max_position_embeddings": 256,
                                  "original_max_position_embeddings": 64}, {}, (64,)),
    ("phi3-su", make.PHI3, {"rope_scaling": {**LONG, "type": "su", "original_max_position_embeddings": 64},
                                  "original_max_position_embeddings": 64}, {}, (64,)),
    ("gemma2", make.GEMMA2, {}, {}, (2, 40)),
    ("gemma2-caps", make.GEMMA2, {"attn_logit_softcapping": 6.0, "final_logit_softcapping": 3.0}, {}, (33,)),
    ("gemma2-no-caps", make.GEMMA2, {"attn_logit_softcapping": None, "final_logit_softcapping": None,
                                     "attention_bias": True}, {}, (33,)),
    ("gemma2-types", make.GEMMA2, {"layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                                                   "full_attention"], "query_pre_attn_scalar": 3,
                                   "hidden_activation": "silu"}, {"dtype": "BF16"}, (33,)),
    ("gemma2-untied", make.GEMMA2, {"tie_word_embeddings": False, "rope_theta": 500.0}, {"prefix": False}, (33,)),
    ("gemma3", make.GEMMA3, {}, {}, (2, 40)),
    ("gemma3-old-fields", make.GEMMA3, {"rope_theta": 2000.0, "rope_local_base_freq": 100.0, "sliding_window_pattern": 3,
                                        "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, {}, (40,)),
    ("gemma3-new-fields", make.GEMMA3, {"rope_parameters": SIDES, "layer_types": ["full_attention", "sliding_attention"]
                                        * 3 + ["full_attention"]}, {}, (40,)),
    ("gemma3-cap", make.GEMMA3, {"final_logit_softcapping": 4.0, "attention_bias": True}, {"dtype": "F16"}, (33,)),
    ("neox", make.GPT_NEOX, {}, {"rename": {"lm_head.weight": "embed_out.weight"}}, (1, 2, 33, 64)),
    ("neox-serial", make.GPT_NEOX, {"use_parallel_residual": False, "rotary_pct": 1.0}, {}, (33,)),
    ("neox-old-fields", make.GPT_NEOX, {"rotary_pct": 0.5, "rotary_emb_base": 500, "hidden_act": "gelu_fast"},
     {"prefix": False}, (33,)),
    ("neox-new-fields", make.GPT_NEOX, {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0,
                                                            "partial_rotary_factor": 0.5}}, {"dtype": "F16"}, (33,)),
    ("neox-no-bias", make.GPT_NEOX, {"attention_bias": False, "tie_word_embeddings": True}, {}, (33,)),
    ("neox-many-heads", make.GPT_NEOX, {"hidden_size": 160, "num_attention_heads": 20, "num_hidden_layers": 2,
                                        "layer_norm_eps": 1e-3}, {"n_shards": 3}, (40,)),
    ("bloom", make.BLOOM, {}, {}, (1, 2, 33, 64)),
    ("bloom-odd-heads", make.BLOOM, {"hidden_size": 96, "n_head": 12, "layer_norm_epsilon": 1e-3}, {"prefix": False}, (40,)),
    ("bloom-wide", make.BLOOM, {"hidden_size": 80, "n_head": 20, "tie_word_embeddings": False, "n_layer": 2},
     {"n_shards": 3}, (64,)),
    ("bloom-old-fields", make.BLOOM, {"hidden_size": ..., "n_embed": 32, "n_head": ..., "num_attention_heads": 1,
                                      "n_layer": ..., "num_hidden_layers": 2}, {"dtype": "F16"}, (33,)),
    ("opt", make.OPT, {}, {}, (1, 2, 33, 64)),
    ("opt-after", make.OPT, {"do_layer_norm_before": False}, {}, (33,)),
    ("opt-no-bias", make.OPT, {"enable_bias": False, "activation_function": "gelu"}, {"prefix": False}, (33,)),
    ("opt-plain-norms", make.OPT, {"layer_norm_elementwise_affine": False, "tie_word_embeddings": False}, {}, (33,)),
    ("opt-narrow", make.OPT, {"word_embed_proj_dim": 20, "do_layer_norm_before": False}, {}, (2, 33)),
    ("opt-narrow-before", make.OPT, {"word_embed_proj_dim": 24, "tie_word_embeddings": False}, {"prefix": False}, (33,)),
    ("opt-no-final", make.OPT, {"_remove_final_layer_norm": True}, {"dtype": "F16"}, (33,)),
]


def test_random_checkpoints():
    report = common.Report()
    for seed, (name, base, changes, how, lengths) in enumerate(SHAPES, start=400):
        config = make.configuration(base, **changes)
        tensors = make.tensors_of(config, seed)
        whole_checkpoint.check(report, name, config, tensors, lengths, seed, **how)
    report.finish()


def test_both_ways():
    """is_causal false: every token sees every other, as in embedding models made of decoders."""
    for seed, base in enumerate((make.LLAMA, make.QWEN2, make.QWEN3, make.PHI3, make.GPT_NEOX, make.BLOOM, make.OPT)):
        config = make.configuration(base, is_causal=False)
        ids = make.token_ids(config["vocab_size"], 20, seed)
        with common.scratch() as folder:
            model = make.write_folder(folder / "model", config, make.tensors_of(config, seed))
            with torch.no_grad():
                want = make.open_with_transformers(model)(torch.tensor([ids])).logits[0]
            common.headscope("run", "-m", model, "--ids", ",".join(map(str, ids)), "--sites", "logits,pattern", "-o", folder / "x.safetensors")
            got = load_file(folder / "x.safetensors")
            off = float((got["logits"] - want).abs().max() / want.abs().max())
            assert off < 2e-5, f"{config['model_type']}: {off:.1e}"
            assert float(got["pattern.0"][:, 0, 1:].sum()) > 0.1
            print(f"{config['model_type']:28} both ways {off:.1e}")


def test_past_the_trained_length():
    """There dynamic and longrope turn a token by the length of the whole text, so that its row depends on what comes after
    it: transformers' rows do, and headscope ends the context, with the limit in a warning and in the refusal."""
    phi3 = {"rope_scaling": LONG, "original_max_position_embeddings": 32, "hidden_size": 32}
    cases = {"dynamic": (make.configuration(make.LLAMA, rope_scaling={"rope_type": "dynamic", "factor": 4.0}), 64),
             "longrope": (make.configuration(make.PHI3, **phi3), 32)}
    for name, (config, limit) in cases.items():
        ids = make.token_ids(config["vocab_size"], limit + 1, 5)
        with common.scratch() as folder:
            model = make.write_folder(folder / name, config, make.tensors_of(config, 5))
            peer = make.open_with_transformers(model)
            with torch.no_grad():
                within, past = (peer(torch.tensor([ids[:n]])).logits[0, 5] for n in (limit, limit + 1))
            moved = float((within - past).abs().max() / within.abs().max())
            assert moved > 1e-3, f"{name}: transformers' row 5 moved by {moved:.1e} only"
            text = ",".join(map(str, ids))
            said = common.headscope("run", "-m", model, "--ids", text, "--sites", "logits", "-o", folder / "x.npz", status=1)
            assert f"sees at most {limit} (its context)" in said.stderr.decode(), said.stderr
            assert f"{name}: the context ends at" in common.headscope("info", model).stdout.decode()
            print(f"{name:28} past {limit} tokens transformers' row 5 moves by {moved:.1e}; refused")


def test_gemma3_with_pictures():
    """The text part of a whole Gemma 3, as transformers writes such a folder, and by the names of its first release."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration
    report, seed = common.Report(), 77
    config = make.configuration(make.GEMMA3)
    tensors = make.tensors_of(config, seed)
    ids = make.token_ids(config["vocab_size"], 40, seed)
    vision = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2,
              "image_size": 16, "patch_size": 8, "model_type": "siglip_vision_model"}
    with common.scratch() as folder:
        make.calibrate(folder / "work", config, tensors, ids, seed)
        text = make.write_folder(folder / "text", config, tensors)
        f32, f64 = reference.both(make.open_with_transformers(text), ids)
        whole = Gemma3ForConditionalGeneration(Gemma3Config(text_config=config, vision_config=vision, mm_tokens_per_image=4,
                                                            image_token_index=90, boi_token_index=91, eoi_token_index=92))
        whole.model.language_model.load_state_dict({name: value.float() for name, value in tensors.items()
                                                    if not name.startswith("lm_head")})
        whole.save_pretrained(folder / "whole")
        stored = load_file(folder / "whole" / "model.safetensors")
        assert any("vision_tower" in name for name in stored)
        older = {}
        for name, value in stored.items():
            name = name.removeprefix("model.")
            older[name.replace("language_model.", "language_model.model.", 1) if "language_model.model." not in name
                  else name] = value
        (folder / "older").mkdir()
        (folder / "older" / "config.json").write_text((folder / "whole" / "config.json").read_text())
        save_file(older, folder / "older" / "model.safetensors", metadata={"format": "pt"})
        for name in ("whole", "older"):
            report.run(f"gemma3 {name}", folder / name, folder, f32, f64, ids=ids)
    report.finish()


def test_greedy():
    """60 tokens written on, each from a cache that windows may have turned into a ring: transformers' own choice."""
    bases = (make.MISTRAL, make.QWEN2, make.QWEN3, make.PHI3, make.GEMMA2, make.GEMMA3, make.GPT_NEOX, make.BLOOM,
             make.OPT)
    with common.scratch() as folder:
        for seed, base in enumerate(bases, start=500):
            config = make.configuration(base, eos_token_id=96, bos_token_id=95)
            path = make.write_folder(folder / base["model_type"], config, make.random_tensors(config, seed))
            greedy(path.name, path, make.open_with_transformers(path), [7, 3, 50, 21], n=60)


if __name__ == "__main__":
    common.main(globals())
