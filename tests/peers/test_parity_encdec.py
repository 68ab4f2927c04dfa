"""Encoder-decoders: every site of random checkpoints of T5, BART and Marian against transformers, float32 and eager
attention: the encoder's, the decoder's, and those of cross-attention."""
import common
import numpy as np

import checkpoints as make
import encdec

T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 97, "d_model": 32, "d_kv": 8,
      "d_ff": 72, "num_layers": 3, "num_heads": 4, "feed_forward_proj": "relu", "decoder_start_token_id": 0,
      "pad_token_id": 0, "eos_token_id": 1}

_SIDES = {"d_model": 32, "encoder_layers": 3, "decoder_layers": 3, "encoder_attention_heads": 4,
          "decoder_attention_heads": 4, "encoder_ffn_dim": 72, "decoder_ffn_dim": 72, "max_position_embeddings": 64}
BART = {**_SIDES, "model_type": "bart", "architectures": ["BartForConditionalGeneration"], "vocab_size": 97,
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "forced_eos_token_id": 2}
MARIAN = {**_SIDES, "model_type": "marian", "architectures": ["MarianMTModel"], "vocab_size": 97, "pad_token_id": 96,
          "eos_token_id": 0, "decoder_start_token_id": 96, "forced_eos_token_id": 0, "bad_words_ids": [[96]],
          "activation_function": "swish", "scale_embedding": True}
UNEVEN = {"encoder_layers": 2, "decoder_layers": 4, "encoder_attention_heads": 2, "decoder_attention_heads": 8,
          "encoder_ffn_dim": 50, "decoder_ffn_dim": 91}
ODD = {"d_model": 45, "encoder_attention_heads": 5, "decoder_attention_heads": 9}
WIDE = {"d_model": 192, "encoder_attention_heads": 3, "decoder_attention_heads": 3, "encoder_ffn_dim": 512,
        "decoder_ffn_dim": 500, "encoder_layers": 2, "decoder_layers": 2, "max_position_embeddings": 256}
APART = {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 120}

# name, configuration, changes to it, how it is stored, (tokens of the source, of the target)
SHAPES = [
    ("t5", T5, {}, {}, ((33, 20), (2, 1), (1, 5))),
    ("t5-v1.1", T5, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}, {}, ((33, 20),)),
    ("t5-silu", T5, {"feed_forward_proj": "gated-silu"}, {"dtype": "BF16"}, ((20, 33),)),
    ("t5-gelu", T5, {"feed_forward_proj": "gelu", "layer_norm_epsilon": 1e-3}, {"dtype": "F16"}, ((20, 20),)),
    ("t5-uneven", T5, {"num_decoder_layers": 2, "d_kv": 12, "num_heads": 3}, {}, ((20, 20),)),
    ("t5-deep-decoder", T5, {"num_layers": 1, "num_decoder_layers": 4}, {}, ((20, 20),)),
    ("t5-odd", T5, {"d_model": 45, "d_kv": 9, "num_heads": 5, "d_ff": 77}, {}, ((23, 19),)),
    ("t5-buckets", T5, {"relative_attention_num_buckets": 9, "relative_attention_max_distance": 20}, {}, ((64, 50),)),
    ("t5-defaults", T5, {"feed_forward_proj": ..., "d_kv": ..., "num_decoder_layers": None}, {}, ((20, 20),)),
    ("bart", BART, {}, {}, ((64, 64), (33, 20), (2, 1), (1, 5))),
    ("bart-scaled", BART, {"scale_embedding": True, "activation_function": "relu"}, {"dtype": "F16"}, ((20, 20),)),
    ("bart-uneven", BART, UNEVEN, {"dtype": "BF16"}, ((20, 20),)),
    ("bart-odd", BART, ODD, {}, ((23, 19),)),
    ("bart-untied", BART, {"tie_word_embeddings": False, "activation_function": "gelu_new"}, {}, ((20, 20),)),
    ("bart-no-bias", BART, {"activation_function": ...}, {"drop": ["final_logits_bias"]}, ((20, 20),)),
    ("bart-wide", BART, WIDE, {}, ((200, 150),)),
    ("marian", MARIAN, {}, {}, ((64, 64), (33, 20), (2, 1), (1, 5))),
    ("marian-apart", MARIAN, APART, {}, ((20, 20),)),
    ("marian-apart-untied", MARIAN, {**APART, "tie_word_embeddings": False}, {}, ((20, 20),)),
    ("marian-uneven", MARIAN, {**UNEVEN, "scale_embedding": False}, {"dtype": "F16"}, ((20, 20),)),
    ("marian-odd", MARIAN, {**ODD, "activation_function": ...}, {}, ((23, 19),)),
    ("marian-wide", MARIAN, WIDE, {}, ((200, 150),)),
    ("t5-wide", T5, {"d_model": 128, "d_kv": 64, "d_ff": 300, "num_layers": 2}, {}, ((300, 280),)),
]


def source_of(source, target):
    return ["--ids", ",".join(map(str, source)), "--target-ids", ",".join(map(str, target))]


def ids_of(config, n, seed):
    return make.token_ids(config["vocab_size"], n, seed)


def test_random_checkpoints():
    report = common.Report()
    for seed, (name, base, changes, how, lengths) in enumerate(SHAPES, start=900):
        config = make.configuration(base, **changes)
        vocabulary = config.get("decoder_vocab_size") or config["vocab_size"]
        source = ids_of(config, max(n for n, _ in lengths), seed)
        target = make.token_ids(vocabulary, max(n for _, n in lengths), seed + 50)
        with common.scratch() as folder:
            model = encdec.make_model(config, seed)
            encdec.calibrate(model, source, target, seed)
            path = encdec.save(model, folder / name, config, **how)
            peer = encdec.load(path)
            for k, (n, m) in enumerate(lengths):
                f32, f64 = encdec.both(peer, source[:n], target[:m])
                if k == 0:
                    encdec.assert_spread(f32)
                report.run(name, path, folder, f32, f64, source=source_of(source[:n], target[:m]))
            for level in common.isa_levels() if "wide" in name else ():
                f32, f64 = encdec.both(peer, source, target)
                report.run(f"{name} {level}", path, folder, f32, f64, source=source_of(source, target),
                           env={"HEADSCOPE_ISA": level})
    report.finish()


if __name__ == "__main__":
    common.main(globals())
