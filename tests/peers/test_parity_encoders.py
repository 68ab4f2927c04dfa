"""Encoders: every site of random checkpoints of BERT and its kin and of ModernBERT against transformers, float32 and eager
attention; padded batches; old names of tensors; MiniLM's real weights."""
import json

import common
import numpy as np
import torch
from safetensors.numpy import load_file, save_file

import checkpoints as make
import reference
import whole_checkpoint

SIDES = {"full_attention": {"rope_type": "default", "rope_theta": 5e4},
         "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}
ALL_BIASES = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True}
BODY = {"architectures": ["BertModel"]}

# name, configuration, changes to it, how it is stored, lengths of the sequences
SHAPES = [
    ("bert", make.BERT, {}, {}, (1, 2, 33, 64)),
    ("bert-body", make.BERT, BODY, {"prefix": False}, (33,)),
    ("bert-body-prefix", make.BERT, {**BODY, "hidden_act": "gelu_new"}, {}, (33,)),
    ("bert-types", make.BERT, {"type_vocab_size": 5}, {"dtype": "F16"}, (33,)),
    ("bert-untied", make.BERT, {"tie_word_embeddings": False, "hidden_act": "relu"}, {"n_shards": 3}, (33,)),
    ("bert-defaults", make.BERT, {"hidden_act": ..., "type_vocab_size": ..., "layer_norm_eps": 1e-5}, {}, (33,)),
    ("bert-odd", make.BERT, {"hidden_size": 45, "num_attention_heads": 5, "intermediate_size": 77}, {}, (23,)),
    ("bert-wide", make.BERT, {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 512,
                              "max_position_embeddings": 256, "num_hidden_layers": 2}, {}, (200,)),
    ("roberta", make.ROBERTA, {}, {}, (2, 64)),
    ("roberta-pad", make.ROBERTA, {"pad_token_id": 3, "type_vocab_size": 1, "hidden_act": "silu"}, {}, (33,)),
    ("roberta-body", make.ROBERTA, {"architectures": ["RobertaModel"]}, {"prefix": False, "dtype": "BF16"}, (33,)),
    ("xlm-roberta", make.ROBERTA, {"model_type": "xlm-roberta", "architectures": ["XLMRobertaForMaskedLM"]}, {}, (33,)),
    ("distilbert", make.DISTILBERT, {}, {}, (2, 33)),
    ("distilbert-untied", make.DISTILBERT, {"tie_word_embeddings": False, "activation": "relu"}, {}, (33,)),
    ("modernbert", make.MODERNBERT, {}, {}, (1, 2, 40)),
    ("modernbert-biases", make.MODERNBERT, ALL_BIASES, {}, (33,)),
    ("modernbert-no-bias", make.MODERNBERT, {"decoder_bias": False, "tie_word_embeddings": False}, {}, (33,)),
    ("modernbert-old-fields", make.MODERNBERT, {"global_rope_theta": 700.0, "local_rope_theta": 50.0,
                                                "global_attn_every_n_layers": 2, "local_attention": 7}, {}, (33,)),
    ("modernbert-new-fields", make.MODERNBERT, {"rope_parameters": SIDES, "layer_types": ["sliding_attention",
                                                "full_attention", "sliding_attention", "sliding_attention",
                                                "full_attention"], "classifier_activation": "relu"}, {}, (33,)),
    ("modernbert-body", make.MODERNBERT, {"architectures": ["ModernBertModel"], "hidden_activation": "silu"},
     {"prefix": False}, (33,)),
]


def types_of(config, n, seed):
    """Segments for a model that has them; the first tokens are of segment 0, as in a pair of sentences."""
    count = {"distilbert": 0, "modernbert": 0}.get(config["model_type"], config.get("type_vocab_size", 2))
    if count < 2:
        return None
    return [0] * (n // 2) + [int(t) for t in np.random.default_rng(seed).integers(0, count, n - n // 2)]


def ids_of(config, n, seed):
    """Ids without RoBERTa's padding id, which would move positions."""
    padding = config.get("pad_token_id", 1)
    return [i if i != padding else i + 1 for i in make.token_ids(config["vocab_size"] - 1, n, seed)]


def source(ids, types):
    text = ",".join(map(str, ids))
    return ["--ids", text] + (["--segments", ",".join(map(str, types))] if types else [])


def test_random_checkpoints():
    report = common.Report(causal=False)
    for seed, (name, base, changes, how, lengths) in enumerate(SHAPES, start=600):
        config = make.configuration(base, **changes)
        ids, types = ids_of(config, max(lengths), seed), types_of(config, max(lengths), seed)
        whole_checkpoint.check(report, name, config, make.tensors_of(config, seed), lengths, seed, ids, types,
                               lambda n: {"source": source(ids[:n], types and types[:n])}, **how)
    report.finish()


def test_old_names():
    """LayerNorm.gamma and .beta, and the output's bias beside the decoder or in it (case B34): the same bytes."""
    config = make.configuration(make.BERT)
    tensors = make.random_tensors(config, 700)
    ids = make.token_ids(config["vocab_size"], 20, 700)
    with common.scratch() as folder:
        model = make.write_folder(folder / "new", config, tensors)
        want = common.run_sites(model, folder, ["logits", "pattern"], ids=ids)
        stored = load_file(model / "model.safetensors")
        bias = stored.pop("cls.predictions.bias", None)
        bias = stored.pop("cls.predictions.decoder.bias", None) if bias is None else bias
        old = {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
               for name, value in stored.items()}
        for k, names in enumerate((["cls.predictions.bias"], ["cls.predictions.decoder.bias"],
                                   ["cls.predictions.bias", "cls.predictions.decoder.bias"])):
            twin = folder / f"old{k}"
            twin.mkdir()
            (twin / "config.json").write_text((model / "config.json").read_text())
            save_file({**old, **{name: bias for name in names}}, twin / "model.safetensors")
            got = common.run_sites(twin, folder, ["logits", "pattern"], ids=ids)
            for name, value in want.items():
                assert value.tobytes() == got[name].tobytes(), (names, name)


def test_padded_equals_packed():
    """A batch that transformers pads and masks against the same sequences packed: rows of real tokens agree, and what
    transformers puts on padding is 0."""
    for base in (make.BERT, make.DISTILBERT, make.MODERNBERT):
        config = make.configuration(base)
        tensors = make.random_tensors(config, 701)
        lengths, report = (3, 17, 9), common.Report(causal=False)
        ids = [ids_of(config, n, 701 + n) for n in lengths]
        with common.scratch() as folder:
            make.calibrate(folder / "work", config, tensors, ids[1], 701)
            model = make.write_folder(folder / config["model_type"], config, tensors)
            peer = make.open_with_transformers(model)
            padded = torch.tensor([row + [0] * (max(lengths) - len(row)) for row in ids])
            mask = torch.tensor([[1] * n + [0] * (max(lengths) - n) for n in lengths])
            with torch.no_grad():
                out = peer(padded, attention_mask=mask, output_attentions=True)
            for b, row in enumerate(ids):
                n = len(row)
                got = common.run_sites(model, folder, ["pattern", "logits"], ids=row)
                for i, layer in enumerate(out.attentions):
                    assert not layer[b, :, :n, n:].any(), "transformers looks at padding"
                    off = np.abs(got[f"pattern.{i}"] - layer[b, :, :n, :n].numpy()).max()
                    assert off <= common.PATTERN_BAR, f"{config['model_type']}: pattern.{i} is {off:.1e} away"
                off = common.deviation("logits", got["logits"], out.logits[b, :n].numpy())
                assert off <= common.ROW_BAR, f"{config['model_type']}: logits are {off:.1e} away"
        report.finish()


def test_commands():
    """info, statistics and the forecast know each family: what a row's statistics say is what its pattern holds."""
    bases = (make.MISTRAL, make.QWEN3, make.PHI3, make.GEMMA3, make.GPT_NEOX, make.OPT, make.BERT, make.ROBERTA,
             make.DISTILBERT, make.MODERNBERT)
    with common.scratch() as folder:
        for seed, base in enumerate(bases, start=750):
            config = make.configuration(base)
            model = make.write_folder(folder / base["model_type"], config, make.random_tensors(config, seed))
            info = json.loads(common.headscope("info", "-m", model, "--json").stdout)
            assert info["config"]["arch"] == base["model_type"], info["config"]
            out = folder / "stats.safetensors"
            common.headscope("run", "-m", model, "--ids", "5,9,2,40,33,7", "--sites", "pattern", "--stats", "-o", out)
            got = load_file(out)
            for i in range(config.get("num_hidden_layers") or config["n_layers"]):
                p = got[f"pattern.{i}"].astype(np.float64)
                entropy = -np.where(p > 0, p * np.log(np.where(p > 0, p, 1)), 0).sum(-1)
                assert np.abs(entropy - got[f"stats.entropy.{i}"]).max() < 1e-5, (base["model_type"], i)
                assert np.abs(p.sum(1) - got[f"stats.received.{i}"]).max() < 1e-5, (base["model_type"], i)


def test_minilm():
    """The real weights: the sentence's row of 'it' in layer 4, head 1, and every site."""
    from transformers import AutoTokenizer
    home, report = common.minilm(), common.Report(causal=False)
    peer, tokenizer = make.open_with_transformers(home), AutoTokenizer.from_pretrained(home)
    for word, animal, street in (("tired", 0.640, 0.052), ("wide", 0.266, 0.128)):
        ids = tokenizer(common.SENTENCE.replace("tired", word))["input_ids"]
        words = tokenizer.convert_ids_to_tokens(ids)
        with common.scratch() as folder:
            f32, f64 = reference.both(peer, ids)
            got = report.run(f"minilm {word}", home, folder, f32, f64, ids=ids)
        row = got["pattern.3"][1, words.index("it")]
        assert abs(row[words.index("animal")] - animal) < 5e-4, row
        assert abs(row[words.index("street")] - street) < 5e-4, row
    report.finish()


if __name__ == "__main__":
    common.main(globals())
