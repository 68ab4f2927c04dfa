"""Encoder-decoders: every site of random checkpoints of T5, BART and Marian against transformers, float32 and eager
attention: the encoder's, the decoder's, and those of cross-attention."""
import json

import common
import gguf
import torch
import transformers
from safetensors.numpy import load_file

import checkpoints as make
import encdec
import test_tokenizer_sentencepiece as sentencepiece
import tokenizing
import whole_checkpoint

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
            whole_checkpoint.compare(
                report, name, path, folder, lengths, lambda at: encdec.both(peer, source[: at[0]], target[: at[1]]),
                lambda at: {"source": source_of(source[: at[0]], target[: at[1]])}, encdec.assert_spread)
    report.finish()


def write_gguf(path, config, folder, kind="t5"):
    """The folder's tensors under the gguf package's names, float32, with the keys that llama.cpp's converter writes."""
    tensors, names = load_file(folder / "model.safetensors"), gguf.get_tensor_name_map(gguf.MODEL_ARCH.T5, 8)
    writer = gguf.GGUFWriter(path, kind)
    writer.add_context_length(512)
    writer.add_embedding_length(config["d_model"])
    writer.add_feed_forward_length(config["d_ff"])
    writer.add_block_count(config["num_layers"])
    writer.add_decoder_block_count(config.get("num_decoder_layers") or config["num_layers"])
    writer.add_head_count(config["num_heads"])
    writer.add_key_length(config["d_kv"])
    writer.add_value_length(config["d_kv"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_relative_attn_buckets_count(32)
    writer.add_decoder_start_token_id(0)
    for name, value in tensors.items():
        found = names.get_name(name, try_suffixes=(".weight",))
        assert found, f"the gguf package has no name for {name}"
        writer.add_tensor(found, value)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return path


def test_gguf():
    """T5 as llama.cpp writes it gives the bits of the folder."""
    for seed, changes in enumerate(({}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
                                    {"num_decoder_layers": 2, "d_kv": 12, "num_heads": 3}), start=980):
        config = make.configuration(T5, **changes)
        with common.scratch() as folder:
            head = {"lm_head.weight": torch.randn(97, 32)} if "tie_word_embeddings" in changes else None  # as v1.1 has it
            path = encdec.save(encdec.make_model(config, seed), folder / "t5", config, extra=head)
            file = write_gguf(folder / "t5.gguf", config, path)
            source = source_of(ids_of(config, 20, seed), ids_of(config, 15, seed + 1))
            sites = ["logits", "cross_pattern", "pattern", "enc_pattern", "enc_ln_final"]
            want, got = (common.run_sites(m, folder, sites, source=source) for m in (path, file))
            for name, value in want.items():
                assert value.tobytes() == got[name].tobytes(), (changes, name)
            ours = generate(file, ids_of(config, 9, seed), "-n", 10)["samples"][0]["ids"]
            assert ours == generate(path, ids_of(config, 9, seed), "-n", 10)["samples"][0]["ids"]


def generate(path, source, *words):
    done = common.headscope("generate", "-m", path, "--compute", "f32", "--json", "--ids", ",".join(map(str, source)), *words)
    return json.loads(done.stdout)


def theirs(peer, source, n, **more):
    with torch.no_grad():
        return peer.generate(torch.tensor([source]), max_new_tokens=n, do_sample=False, return_dict_in_generate=True,
                             output_scores=True, length_penalty=1.0, early_stopping=False, **{"num_beams": 1, **more})


def written(row, got, ends):
    """What transformers wrote behind the tokens that begin a text, without what fills up after the end."""
    row = row[len(got["prompt"]["tokens"]):].tolist()
    return row[: next((k + 1 for k, token in enumerate(row) if token in ends), len(row))]


def check_greedy(name, path, peer, source, n):
    ends = [peer.generation_config.eos_token_id]
    got = generate(path, source, "-n", n)
    want = written(theirs(peer, source, n).sequences[0], got, ends)
    assert got["samples"][0]["ids"] == want, f"{name}: {got['samples'][0]['ids']} is not {want}"
    return len(want), len(set(want))


def check_beams(name, path, peer, source, n, n_beams):
    ends = [peer.generation_config.eos_token_id]
    got = generate(path, source, "-n", n, "--beams", n_beams, "--samples", n_beams)
    want = theirs(peer, source, n, num_beams=n_beams, num_return_sequences=n_beams)
    for i, (sample, row, score) in enumerate(zip(got["samples"], want.sequences, want.sequences_scores, strict=True)):
        row = written(row, got, ends)
        assert sample["ids"] == row, f"{name}: beam {i}: {sample['ids']} is not {row}"
        assert abs(sample["score"] - float(score)) < 1e-4 + 1e-6 * abs(float(score)), (name, i, sample["score"], score)


def test_generate():
    """Greedy text and beams token for token: where it begins, what is forced and barred, where it ends."""
    room = {"max_position_embeddings": 128, "vocab_size": 397}
    wide, said = {"vocab_size": 397}, 0
    shapes = [("t5", T5, wide), ("t5-end", T5, {**wide, "eos_token_id": 33}), ("t5-v1.1", T5, {**wide, "feed_forward_proj": "gated-gelu",
              "tie_word_embeddings": False}), ("bart", BART, room), ("bart-forced", BART, {**room, "forced_bos_token_id": 0,
              "eos_token_id": 40, "forced_eos_token_id": 40}), ("bart-free", BART, {**room, "forced_eos_token_id": None}),
              ("bart-untied", BART, {**room, "tie_word_embeddings": False, "eos_token_id": 31}), ("marian", MARIAN, room),
              ("marian-apart", MARIAN, {**room, **APART, "tie_word_embeddings": False, "eos_token_id": 7})]
    for seed, (name, base, changes) in enumerate(shapes, start=950):
        config = make.configuration(base, **changes)
        with common.scratch() as folder:
            model = encdec.enliven(encdec.make_model(config, seed), seed)
            path = encdec.save(model, folder / name, config)
            peer = encdec.load(path)
            lengths, words = [], 0
            for trial, n_source in enumerate((12, 5, 30)):
                source = ids_of(config, n_source, seed + 100 * trial)
                n, different = check_greedy(name, path, peer, source, 64)
                lengths.append(n)
                words += different
                for n_beams in (2, 5):
                    check_beams(name, path, peer, source, 24, n_beams)
            print(f"{name}: {lengths} tokens of greedy text ({words} different ones) and the beams are the same", flush=True)
            said += words
            config["eos_token_id"] = generate(path, source, "-n", 64)["samples"][0]["ids"][5]
            path = encdec.save(model, folder / f"{name}-ends", config)
            peer = encdec.load(path)
            n, _ = check_greedy(path.name, path, peer, source, 64)
            assert n < 64, f"{path.name}: {n} tokens, though it writes the end"
            check_beams(path.name, path, peer, source, 24, 3)
    assert said > 100, f"{said} different words in all: too few to tell two models apart"


def t5_words(path):
    sentencepiece.folder(path, "t5", sentencepiece.t5(), {"tokenizer_class": "T5Tokenizer", "extra_ids": 0})
    return len(sentencepiece.proto(sentencepiece.t5()).pieces), {}


def bart_words(path):
    """GPT-2's tokenizer with BART's template."""
    tree, first = tokenizing.gpt2(), 50257
    tree["added_tokens"] += [tokenizing.added(name, first + i, special=True) for i, name in enumerate(("<s>", "<pad>", "</s>"))]
    tree["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", first + 2], "cls": ["<s>", first],
                              "trim_offsets": True, "add_prefix_space": False}
    (path / "tokenizer.json").write_text(json.dumps(tree))
    (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
    return first + 3, {"bos_token_id": first, "pad_token_id": first + 1, "eos_token_id": first + 2,
                       "decoder_start_token_id": first + 2, "forced_eos_token_id": first + 2}


def marian_words(path):
    sentencepiece.marian(path)
    words = json.loads((path / "vocab.json").read_text())
    pad = words["<pad>"]
    return len(words), {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": words["</s>"],
                        "forced_eos_token_id": words["</s>"], "bad_words_ids": [[pad]]}


def with_words(folder, base, words, seed):
    """A checkpoint with a tokenizer: its folder, transformers' model and tokenizer of it."""
    path = folder / base["model_type"]
    path.mkdir()
    size, tokens = words(path)
    config = make.configuration(base, vocab_size=size, **tokens)
    model = encdec.enliven(encdec.make_model(config, seed), seed)
    made = encdec.save(model, folder / "weights", config)
    for file in made.iterdir():
        file.replace(path / file.name)
    made.rmdir()
    return path, encdec.load(path), transformers.AutoTokenizer.from_pretrained(path)


WORDS = [(T5, t5_words), (BART, bart_words), (MARIAN, marian_words)]
PAIRS = [("The animal didn't cross the street", "Das Tier ging nicht."), ("One.", "Un deux trois quatre cinq"), (">>fra<< It was late", " Il était tard ")]


def as_ids(tokens):
    return [token["id"] for token in tokens]


def test_texts():
    """Source and target as texts: the tokens that either side reads, and how likely a target is, its end included."""
    for seed, (base, words) in enumerate(WORDS, start=1010):
        with common.scratch() as folder:
            path, peer, tokenizer = with_words(folder, base, words, seed)
            for source, target in PAIRS:
                read, labels = tokenizer(source)["input_ids"], tokenizer(text_target=target)["input_ids"]
                with torch.no_grad():
                    out = peer(input_ids=torch.tensor([read]), labels=torch.tensor([labels]))
                table = torch.log_softmax(out.logits[0].double(), -1)
                data = json.loads(common.headscope("score", "-m", path, "--json", source, "--target", target).stdout)
                assert as_ids(data["source"]["tokens"]) == read, (source, data["source"], read)
                assert as_ids(data["tokens"]) == [peer.config.decoder_start_token_id, *labels], (target, data["tokens"], labels)
                worst = max(abs(token["log_prob"] - float(table[i, label])) for i, (token, label) in
                            enumerate(zip(data["tokens"][1:], labels, strict=True)))
                assert worst < 1e-4, f"{path.name}: {worst} nats away"
                assert abs(data["log_prob"] + float(out.loss) * len(labels)) < 1e-4 * len(labels), (data["log_prob"], out.loss)
                looked = json.loads(common.headscope("look", "-m", path, "--json", source, "--target", target).stdout)
                assert as_ids(looked["source"]) == read and as_ids(looked["tokens"]) == [peer.config.decoder_start_token_id, *labels[:-1]]
                print(f"{path.name}: {len(labels)} tokens of a target within {worst:.1e} nats", flush=True)


def test_choices():
    """Choices are targets without their end; what the tokenizer puts in front of them counts as read."""
    for seed, (base, words) in enumerate(WORDS, start=1020):
        with common.scratch() as folder:
            path, peer, tokenizer = with_words(folder, base, words, seed)
            items = [{"prompt": source, "choices": [target for _, target in PAIRS] * 7, "answer": 0} for source, _ in PAIRS]
            (folder / "items.jsonl").write_text("\n".join(map(json.dumps, items)))
            data = json.loads(common.headscope("score", "-m", path, "--json", "--choices", folder / "items.jsonl").stdout)
            for item, got in zip(items, data["questions"], strict=True):
                read = torch.tensor([tokenizer(item["prompt"])["input_ids"]])
                for choice, scored in zip(item["choices"], got["choices"], strict=True):
                    labels = tokenizer(text_target=choice)["input_ids"]
                    with torch.no_grad():
                        table = torch.log_softmax(peer(input_ids=read, labels=torch.tensor([labels])).logits[0].double(), -1)
                    first = int(base is BART)
                    want = sum(float(table[i, label]) for i, label in enumerate(labels[:-1]) if i >= first)
                    assert scored["n_tokens"] == len(labels) - 1 - first
                    assert abs(scored["log_prob"] - want) < 1e-3, (path.name, choice, scored, want)
            print(f"{path.name}: {len(items) * 21} choices are scored as they should be", flush=True)


def test_embed():
    """The mean of what the encoder makes of a text, several at once, and its first and last rows."""
    for seed, (base, words) in enumerate(WORDS, start=1030):
        with common.scratch() as folder:
            path, peer, tokenizer = with_words(folder, base, words, seed)
            texts = [text for pair in PAIRS for text in pair]
            states = []
            for text in texts:
                with torch.no_grad():
                    states.append(peer.get_encoder()(torch.tensor([tokenizer(text)["input_ids"]])).last_hidden_state[0].double())
            for pooling, wanted in (("model", [s.mean(0) for s in states]), ("cls", [s[0] for s in states]), ("last", [s[-1] for s in states])):
                data = json.loads(common.headscope("embed", "-m", path, "--json", "--pooling", pooling, *texts).stdout)
                assert data["pooling"] == ("mean" if pooling == "model" else pooling)
                for text, item, want in zip(texts, data["texts"], wanted, strict=True):
                    off = float((torch.tensor(item["embedding"], dtype=torch.float64) - want).norm() / want.norm())
                    assert off < common.ROW_BAR, (path.name, pooling, text, off)
            print(f"{path.name}: {len(texts)} texts have the encoder's vectors", flush=True)


# What a generation_config.json may hold besides tokens: each rule alone, then the recipes of real checkpoints.
RULES = [{"min_length": 30}, {"min_new_tokens": 25}, {"no_repeat_ngram_size": 2}, {"no_repeat_ngram_size": 1},
         {"repetition_penalty": 1.4}, {"num_beams": 3}, {"num_beams": 4, "early_stopping": True},
         {"num_beams": 3, "early_stopping": "never", "length_penalty": 1.5}, {"num_beams": 2, "length_penalty": -1.0},
         {"num_beams": 3, "renormalize_logits": True, "bad_words_ids": [[9], [11], [30]]}, {"max_new_tokens": 9, "max_length": 40},
         {"num_beams": 4, "max_length": 40, "min_length": 20, "no_repeat_ngram_size": 3, "length_penalty": 2.0,
          "early_stopping": True},  # BART fine-tuned on the news
         {"num_beams": 6, "max_length": 48, "renormalize_logits": True},  # opus-mt
         {"num_beams": 4, "max_length": 44, "min_length": 12, "no_repeat_ngram_size": 3, "repetition_penalty": 1.2,
          "early_stopping": "never", "length_penalty": 0.6}]


def obeyed(path, peer, source, *words, **more):
    """The ids that the program writes under the rules of the files, and transformers' own."""
    got = generate(path, source, *words)
    with torch.no_grad():
        want = peer.generate(torch.tensor([source]), do_sample=False, **more)[0]
    return got["samples"][0]["ids"], written(want, got, [peer.generation_config.eos_token_id])


def test_rules():
    """The rules of generation_config.json, or of config.json where there is none, hold as in transformers: token for token."""
    room = {"vocab_size": 397}
    shapes = [("t5", T5, room), ("bart", BART, {**room, "max_position_embeddings": 128, "eos_token_id": 40, "forced_eos_token_id": 40,
              "forced_bos_token_id": 0}), ("marian", MARIAN, {**room, "max_position_embeddings": 128})]
    tokens = ("bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id", "forced_bos_token_id",
              "forced_eos_token_id", "bad_words_ids")
    for seed, (name, base, changes) in enumerate(shapes, start=990):
        config = make.configuration(base, **changes)
        with common.scratch() as folder:
            model = encdec.enliven(encdec.make_model(config, seed), seed)
            path = encdec.save(model, folder / name, config)
            sources = [ids_of(config, n, seed + n) for n in (12, 30)]
            plain = [generate(path, source, "-n", 60)["samples"][0]["ids"] for source in sources]
            config["eos_token_id"] = max(plain[0], key=plain[0].index)  # the latest new word: random models seldom end
            path, changed = encdec.save(model, folder / f"{name}-ends", config), 0
            plain = [generate(path, source, "-n", 60)["samples"][0]["ids"] for source in sources]
            for k, rules in enumerate(RULES):
                path = encdec.save(model, folder / f"{name}{k}", {**config, **(rules if k % 2 else {"num_beams": 7})})
                if k % 2 == 0:
                    said = {field: config[field] for field in tokens if field in config}
                    (path / "generation_config.json").write_text(json.dumps({**said, **rules}))
                peer, own = encdec.load(path), {"max_length", "max_new_tokens"} & rules.keys()
                for source, before in zip(sources, plain):
                    length = [[], {}] if own else [["-n", "60"], {"max_new_tokens": 60}]
                    got, want = obeyed(path, peer, source, *length[0], **length[1])
                    assert got == want, f"{name} {rules}: {got} is not {want}"
                    changed += got != before
            print(f"{name}: {2 * len(RULES)} texts under rules are the same, {changed} unlike the plain ones", flush=True)
            assert changed > len(RULES), changed


if __name__ == "__main__":
    common.main(globals())
