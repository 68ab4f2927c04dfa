"""Encoder-decoders: every site of random checkpoints of T5, BART and Marian against transformers, float32 and eager
attention: the encoder's, the decoder's, and those of cross-attention."""
import common
import numpy as np

import checkpoints as make
import encdec

T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 97, "d_model": 32, "d_kv": 8,
      "d_ff": 72, "num_layers": 3, "num_heads": 4, "feed_forward_proj": "relu", "decoder_start_token_id": 0,
      "pad_token_id": 0, "eos_token_id": 1}

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
