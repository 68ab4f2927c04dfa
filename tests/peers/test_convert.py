"""What `headscope convert` writes is read by others: transformers takes the GGUF files and the folders, llama.cpp the
GGUF files (where llama_cpp is installed), tokenizers included."""
import collections
import importlib.util
import json
import shutil

import gguf
import numpy as np
import torch
from transformers import AutoTokenizer

import checkpoints as make
import common
from common import DATA, ROW_BAR, headscope, require, run_sites, scratch, smollm2

TEXTS = ["The animal didn't cross the street because it was too tired", "<|im_start|>user\nHi<|im_end|>",
         "naïve 日本語 ½ \U0001f600\n\n\tdef f(x):  return 1234"]
# What llama.cpp takes for granted of Gemma: the scale of scores that goes with the heads' width, and its own caps.
GEMMA = {"query_pre_attn_scalar": 12, "tie_word_embeddings": True}
PUBLISHED = {"head_dim": 256, "query_pre_attn_scalar": 256, "tie_word_embeddings": True}
# transformers reads no GGUF of GPT-NeoX, and of the others none of these keys.
OVERLOOKED = ("neox", "neox-serial", "phi3-window", "gemma2", "gemma3")
WIDE = {"head_dim": 128, "num_attention_heads": 2, "num_key_value_heads": 1} # transformers takes 128 from a Qwen 3 GGUF
# llama.cpp keeps keys and values in half precision and rounds activations for quantised weights; its own logits move by
# less than this share of their largest magnitude on an exact file, and by more, the coarser the type.
LLAMA_CPP_BARS = {"f32": 0.005, "f16": 0.005, "bf16": 0.05, "q8_0": 0.15, "q4_0": 0.15, "q4_1": 0.15, "q4_k": 0.15,
                  "q6_k": 0.15}


def convert(source, target, *options):
    headscope("convert", "-m", source, "-o", target, *options)
    return target


def logits_of(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].numpy()


def furthest(got, want):
    """The largest difference in a row, of the row's largest number, over all rows."""
    return float((np.abs(got - want).max(1) / np.abs(want).max(1)).max())


def assert_near(got, want, what):
    worst = furthest(got, want)
    print(f"{what:42} {worst:9.2e}", flush=True)
    assert worst <= ROW_BAR, f"{what}: {worst:.2e} away, past {ROW_BAR:.0e}"


def test_random_checkpoints():
    tokenizer = DATA / "tokenizers" / "gpt2" / "tokenizer.json"
    require(tokenizer.exists(), f"no test data at {tokenizer}")
    cases = {  # in a GPT-2's GGUF transformers finds no n_positions and no n_inner, and counts tokens for the vocabulary
        "gpt2": (make.configuration(make.GPT2, vocab_size=50257, n_positions=1024), make.gpt2_tensors),
        "gpt2-untied": (make.configuration(make.GPT2, vocab_size=50257, n_positions=1024, tie_word_embeddings=False),
                        make.gpt2_tensors),
        "qwen2": (make.configuration(make.QWEN2), make.random_tensors),
        "qwen2-tied": (make.configuration(make.QWEN2, tie_word_embeddings=True), make.random_tensors),
        "qwen3": (make.configuration(make.QWEN3, **WIDE), make.random_tensors),
        "qwen3-tied": (make.configuration(make.QWEN3, **WIDE, tie_word_embeddings=True, rope_theta=5e4), make.random_tensors),
        # Mistral by architecture; transformers goes by "mistral" in a file's name and then has no reader for it.
        "windowless": (make.configuration(make.MISTRAL, sliding_window=None), make.random_tensors),
        "phi3": (make.configuration(make.PHI3, vocab_size=32064, rope_theta=5e4), make.random_tensors),
        "phi3-window": (make.configuration(make.PHI3, vocab_size=32064, sliding_window=9,
                                            tie_word_embeddings=True), make.random_tensors),
        "gemma2": (make.configuration(make.GEMMA2, **GEMMA, attn_logit_softcapping=7.0, final_logit_softcapping=11.0),
                   make.random_tensors),
        "gemma3": (make.configuration(make.GEMMA3, **GEMMA, rope_theta=5e5, rope_local_base_freq=2e4), make.random_tensors),
        "gemma2-published": (make.configuration(make.GEMMA2, **PUBLISHED), make.random_tensors),
        "gemma3-published": (make.configuration(make.GEMMA3, **PUBLISHED), make.random_tensors),
        "neox": (make.configuration(make.GPT_NEOX, rotary_pct=0.5), make.random_tensors),
        "bloom": (make.configuration(make.BLOOM), make.random_tensors),
        "bloom-heads": (make.configuration(make.BLOOM, hidden_size=40, n_head=5, tie_word_embeddings=False,
                                           layer_norm_epsilon=1e-3), make.random_tensors),
        "neox-serial": (make.configuration(make.GPT_NEOX, use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=5e3),
                        make.random_tensors),
        "llama": (make.LLAMA, make.llama_tensors),
        "llama-tied": (make.configuration(make.LLAMA, tie_word_embeddings=True, head_dim=12), make.llama_tensors)}
    with scratch() as folder:
        for name, (config, tensors) in cases.items():
            source = make.write_folder(folder / name, config, tensors(config, 3))
            if "gpt2" in name:
                shutil.copy(tokenizer, source)
            path = convert(source, folder / f"{name}.gguf", "--dtype", "f32")
            back = convert(path, folder / f"{name}-back")
            ids = make.token_ids(97, 20, 1)
            want = run_sites(source, folder, ["logits"], ids=ids)["logits"]
            assert run_sites(path, folder, ["logits"], ids=ids)["logits"].tobytes() == want.tobytes()
            assert run_sites(back, folder, ["logits"], ids=ids)["logits"].tobytes() == want.tobytes()
            assert_near(want, logits_of(make.open_with_transformers(source), ids), f"{name}: transformers, source")
            if name not in OVERLOOKED:
                assert_near(want, logits_of(make.open_gguf(path), ids), f"{name}: transformers, GGUF")
            assert_near(want, logits_of(make.open_with_transformers(back), ids), f"{name}: transformers, folder again")


def test_refused_by_name():
    """What is not converted between folders and GGUF (llama.cpp has no OPT) is said by name, and nothing is written."""
    cases = {"opt": make.OPT, "distilbert": make.DISTILBERT, "modernbert": make.MODERNBERT}
    with scratch() as folder:
        for kind, base in cases.items():
            config = make.configuration(base)
            source = make.write_folder(folder / kind, config, make.tensors_of(config, 3))
            said = headscope("convert", "-m", source, "-o", folder / "out.gguf", status=1).stderr.decode()
            assert f'architecture "{kind}" are not converted' in said, said
            assert not (folder / "out.gguf").exists()
            print(f"{kind:42} refused")
        config = make.configuration(make.MISTRAL)
        source = make.write_folder(folder / "window", config, make.tensors_of(config, 3))
        said = headscope("convert", "-m", source, "-o", folder / "out.gguf", status=1).stderr.decode()
        assert "window" in said, said


def test_encoders():
    """BERT has no logits in GGUF: the last hidden states are the same bits from either container."""
    with scratch() as folder:
        cases = (("bert", make.BERT, "BertModel", {}),
                 ("bert-segments", make.BERT, "BertModel", {"type_vocab_size": 3, "layer_norm_eps": 1e-5}),
                 ("roberta", make.ROBERTA, "RobertaModel", {}), ("roberta-head", make.ROBERTA, "RobertaForMaskedLM", {}),
                 ("roberta-padding", make.ROBERTA, "RobertaModel", {"pad_token_id": 4}),
                 ("xlm-roberta", make.ROBERTA, "XLMRobertaModel", {"model_type": "xlm-roberta"}))
        for name, base, kind, more in cases:
            config = make.configuration(base, architectures=[kind], **more)
            source = make.write_folder(folder / name, config, make.tensors_of(config, 3))
            path = convert(source, folder / f"{name}.gguf", "--dtype", "f32")
            back, ids = convert(path, folder / f"{name}-back"), make.token_ids(97, 20, 1)
            want = run_sites(source, folder, ["ln_final"], ids=ids)["ln_final"]
            for other in (path, back):
                assert run_sites(other, folder, ["ln_final"], ids=ids)["ln_final"].tobytes() == want.tobytes(), other
            with torch.no_grad():
                model = make.open_with_transformers(back, add_pooling_layer=False)
                assert_near(want, model(torch.tensor([ids])).last_hidden_state[0].numpy(), f"{name}: transformers, folder again")


def test_minilm():
    """The real encoder in llama.cpp, its tokenizer included; its gelu is tabulated, so the bar is that of 16 bits."""
    require(importlib.util.find_spec("llama_cpp"), "llama_cpp is not installed")
    import llama_cpp
    with scratch() as folder:
        source = common.minilm()
        path = convert(source, folder / "minilm.gguf", "--dtype", "f32")
        options = {"embedding": True, "n_ctx": 512, "n_threads": 2, "verbose": False}
        peer = llama_cpp.Llama(str(path), pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE, **options)
        pooled = llama_cpp.Llama(str(path), **options)
        for text in ("The animal didn't cross the street because it was too tired", "Na\u00efve unbelievability, 1234; \u65e5\u672c!"):
            ids = json.loads(headscope("tokenize", "-m", source, "--json", text).stdout)["ids"]
            assert peer.tokenize(text.encode(), add_bos=True, special=False) == ids, text
            assert json.loads(headscope("tokenize", "-m", path, "--json", text).stdout)["ids"] == ids, text
            want = run_sites(source, folder, ["ln_final"], ids=ids)["ln_final"]
            assert run_sites(path, folder, ["ln_final"], ids=ids)["ln_final"].tobytes() == want.tobytes()
            got, one = np.array(peer.embed(text)), np.array(pooled.embed(text, normalize=True))
            ours = np.array(json.loads(headscope("embed", "-m", path, "--json", text).stdout)["texts"][0]["embedding"])
            worst = furthest(got, want)
            print(f"MiniLM: llama.cpp's hidden states are {worst:.4f} away, its sentence {np.abs(ours - one).max():.4f}", flush=True)
            assert worst <= LLAMA_CPP_BARS["f32"] and np.abs(ours - one).max() <= LLAMA_CPP_BARS["f32"]


def words_of_roberta(folder, vocabulary):
    """A byte-level tokenizer with RoBERTa's special tokens and template, taught on the tests' own text."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    made.train_from_iterator(["The animal didn't cross the street because it was too tired. " * 3,
                              "A robin sat in the tree; it sang, and the tree was green."] * 20, trainer)
    made.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
         "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}))
    return made.get_vocab_size()


PAIRS = [("The animal", "it was tired"), ("", "x"), ("it's 2024!", "na\u00efve \u65e5\u672c\U0001f600")]


def same_words(*models):
    """Every text and pair has the same ids in all, in headscope and, of folders, in transformers."""
    for text in [*TEXTS, "", "  two  blanks ", "HELLO \u00c9cole \u00df", "unbelievability ##ing [MASK]"]:
        got = [json.loads(headscope("tokenize", "-m", m, "--json", text).stdout)["ids"] for m in models]
        for model, ids in zip(models, got):
            assert ids == got[0], (model, text)
            if model.is_dir() and not any(t in text for t in ("<|im", "[MASK]", "<mask>")):
                assert AutoTokenizer.from_pretrained(model)(text).input_ids == ids, (model, text)
    for first, second in PAIRS:
        got = [json.loads(headscope("tokenize", "-m", m, "--json", first, "--pair", second).stdout)["ids"] for m in models]
        for model, ids in zip(models, got):
            assert ids == got[0], (model, first, second)
            if model.is_dir():
                assert AutoTokenizer.from_pretrained(model)(first, second).input_ids == ids, (model, first, second)


def read_by_llama_cpp(path, source, folder, text):
    """llama.cpp, where it is installed, cuts texts as the encoder's GGUF does and makes the hidden states of its source."""
    if not importlib.util.find_spec("llama_cpp"):
        return
    import llama_cpp
    peer = llama_cpp.Llama(str(path), embedding=True, n_ctx=64, n_threads=2, verbose=False,
                           pooling_type=llama_cpp.LLAMA_POOLING_TYPE_NONE)
    for one in ("The animal didn't cross the street because it was too tired", text):
        ids = json.loads(headscope("tokenize", "-m", path, "--json", one).stdout)["ids"]
        assert peer.tokenize(one.encode(), add_bos=True, special=False) == ids, one
        want = run_sites(source, folder, ["ln_final"], ids=ids)["ln_final"]
        worst = furthest(np.array(peer.embed(one)), want)
        print(f"{source.name}: llama.cpp's hidden states are {worst:.4f} away", flush=True)
        assert worst <= LLAMA_CPP_BARS["f32"]


def test_words_of_encoders():
    """The tokenizers of BERT and RoBERTa go to GGUF and back, and transformers reads what came back."""
    with scratch() as folder:
        source = common.minilm()
        path = convert(source, folder / "minilm.gguf", "--dtype", "f16")
        same_words(source, path, convert(path, folder / "minilm-back"))
        roberta = folder / "roberta"
        config = make.configuration(make.ROBERTA, architectures=["RobertaModel"], vocab_size=400)
        make.write_folder(roberta, config, make.tensors_of(config, 3))
        assert words_of_roberta(roberta, 400) <= 400
        path = convert(roberta, folder / "roberta.gguf")
        same_words(roberta, path, convert(path, folder / "roberta-back"))
        read_by_llama_cpp(path, roberta, folder, "na\u00efve 1234")


def test_words_of_xlm_roberta():
    """Pieces with a map of characters; llama.cpp cuts the same."""
    import test_tokenizer_unigram as unigram
    with scratch() as folder:
        tree = json.loads(unigram.trained())
        pieces = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0],
                  *[piece for piece in tree["model"]["vocab"] if piece[0] not in ("<pad>", "</s>", "<unk>")], ["<mask>", 0.0]]
        tree["model"].update(vocab=pieces, unk_id=3)
        tree["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": unigram.charsmaps()["nmt_nfkc"]}
        metaspace = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "always", "split": True}
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
        tree["decoder"], special = metaspace, {"<s>": 0, "</s>": 2}
        one = lambda name, kind=0: {("Sequence" if name in "AB" else "SpecialToken"): {"id": name, "type_id": kind}}
        tree["post_processor"] = {"type": "TemplateProcessing", "single": [one("<s>"), one("A"), one("</s>")],
                                  "pair": [one("<s>"), one("A"), one("</s>"), one("</s>"), one("B"), one("</s>")],
                                  "special_tokens": {k: {"id": k, "ids": [v], "tokens": [k]} for k, v in special.items()}}
        tree["added_tokens"] = [{"id": i, "content": name, "special": True, "single_word": False, "lstrip": name == "<mask>",
                                 "rstrip": False, "normalized": False} for i, name in
                                ((0, "<s>"), (1, "<pad>"), (2, "</s>"), (3, "<unk>"), (len(pieces) - 1, "<mask>"))]
        config = make.configuration(make.ROBERTA, architectures=["XLMRobertaModel"], model_type="xlm-roberta",
                                    vocab_size=len(pieces))
        source = make.write_folder(folder / "xlm", config, make.tensors_of(config, 3))
        (source / "tokenizer.json").write_text(json.dumps(tree))
        (source / "tokenizer_config.json").write_text(json.dumps(
            {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
             "pad_token": "<pad>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}))
        path = convert(source, folder / "xlm.gguf", "--dtype", "f32")
        same_words(source, path)
        read_by_llama_cpp(path, source, folder, "two  blanks, 1234 \uff46\uff55\uff4c\uff4c")


# As bigscience/bloom's tokenizer.json has it.
BLOOM_CUTS = {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "pattern": {"Regex": " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"},
     "behavior": "Isolated", "invert": False},
    {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}


def test_words_of_bloom():
    """BLOOM's way to cut text, on GPT-2's vocabulary; llama.cpp cuts the same."""
    words = DATA / "tokenizers" / "gpt2" / "tokenizer.json"
    require(words.exists(), f"no test data at {words}")
    with scratch() as folder:
        config = make.configuration(make.BLOOM, vocab_size=50257)
        source = make.write_folder(folder / "bloom", config, make.tensors_of(config, 3))
        made = json.loads(words.read_text())
        (source / "tokenizer.json").write_text(json.dumps({**made, "pre_tokenizer": BLOOM_CUTS}))
        (source / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"}))
        path = convert(source, folder / "bloom.gguf", "--dtype", "f32")
        same_words(source, path, convert(path, folder / "bloom-back"))
        require(importlib.util.find_spec("llama_cpp"), "llama_cpp is not installed")
        peer, text = open_llama_cpp(path), "Le chat, it's \u0643\u0644\u0628 2024! fine"
        ids = token_ids(path, text)
        assert peer.tokenize(text.encode(), add_bos=False, special=True) == ids
        check_logits(peer, path, folder, ids, "BLOOM", LLAMA_CPP_BARS["f32"])


def test_smollm2_as_a_folder():
    """The folder made from the real file: the weights as transformers dequantises them, and its tokenizer."""
    path = smollm2()
    with scratch() as folder:
        made = convert(path, folder / "smollm2")
        ids = make.token_ids(49152, 12, 2)
        want = run_sites(path, folder, ["logits"], ids=ids)["logits"]
        assert run_sites(made, folder, ["logits"], ids=ids)["logits"].tobytes() == want.tobytes()
        assert_near(want, logits_of(make.open_with_transformers(made), ids), "SmolLM2: transformers, folder")
        # transformers' own reading of a GGUF's tokenizer does not split numbers as this one does; headscope's is held
        # against the original tokenizer's vectors elsewhere.
        tokenizer = AutoTokenizer.from_pretrained(made)
        peer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        for text in TEXTS:
            assert tokenizer(text).input_ids == token_ids(path, text), text
            assert tokenizer.decode(tokenizer(text).input_ids) == text
        assert (tokenizer.bos_token, tokenizer.eos_token) == (peer.bos_token, peer.eos_token)
        assert tokenizer.chat_template == peer.chat_template


def token_ids(model, text):
    said = headscope("tokenize", "-m", model, "--no-special", "--parse-special", "--json", text).stdout
    return json.loads(said)["ids"]


def open_llama_cpp(path):
    import llama_cpp
    return llama_cpp.Llama(str(path), n_ctx=128, n_threads=2, logits_all=True, verbose=False)


def check_logits(peer, path, folder, ids, name, bar):
    """llama.cpp's logits of the ids against headscope's of the same file."""
    peer.eval(ids)
    worst = furthest(np.array(peer._scores[: len(ids)]), run_sites(path, folder, ["logits"], ids=ids)["logits"])
    print(f"{name} llama.cpp's logits are {worst:.4f} away", flush=True)
    assert worst <= bar, f"{name}: {worst:.4f} away, past {bar}"


def test_llama_cpp():
    require(importlib.util.find_spec("llama_cpp"), "llama_cpp is not installed")
    path = smollm2()
    with scratch() as folder:
        for dtype, bar in LLAMA_CPP_BARS.items():
            target = convert(path, folder / "model.gguf", "--dtype", dtype, "--force")
            peer = open_llama_cpp(target)
            check_logits(peer, target, folder, make.token_ids(49152, 12, 2), f"SmolLM2 {dtype:5}", bar)
            for text in TEXTS:
                assert peer.tokenize(text.encode(), add_bos=False, special=True) == token_ids(target, text), text


def allowed(name, x):
    """What the format lets a block lose, as root mean square: half of a step between two neighbouring codes that are
    spread over the block's range, and what is lost where the step itself is stored in few bits. x: [blocks][size]."""
    top, low, high = abs(x).max(-1), x.min(-1).clip(max=0), x.max(-1).clip(min=0)
    if name == "Q4_0":  # codes -8 to 7, so that either sign reaches 7
        return top / 7 / 2
    if name == "Q4_1":  # codes 0 to 15 above the minimum
        return (x.max(-1) - x.min(-1)) / 15 / 2 + top / 2048
    if name == "Q4_K":  # the same; steps and minima are 63rds of the largest of 8
        span = (high - low).reshape(-1, 8)
        lost = (span.max(1, keepdims=True) - low.reshape(-1, 8).min(1, keepdims=True)) / 63 / 2
        return (span / 15 / 2 + lost).ravel()
    span = top.reshape(-1, 16)  # Q6_K: codes -32 to 31; steps are 128ths of the largest of 16
    return (span / 31 / 2 + 32 * span.max(1, keepdims=True) / 31 / 128 / 2).ravel()


def test_quantised_files():
    """Every tensor of a quantised file as the gguf package dequantises it: the values that headscope reads there, bit for
    bit, and no farther from the original than half a step of each block."""
    path = smollm2()
    with scratch() as folder:
        exact = tensors_of(convert(path, folder / "exact.gguf", "--dtype", "f32"))
        for dtype, size in (("q4_0", 32), ("q4_1", 32), ("q4_k", 32), ("q6_k", 16)):
            written = convert(path, folder / "model.gguf", "--dtype", dtype, "--pure", "--force")
            read = tensors_of(convert(written, folder / "read.gguf", "--dtype", "f32", "--force"))
            counts, worst = collections.Counter(), 0
            for tensor in gguf.GGUFReader(written).tensors:
                kind = tensor.tensor_type.name
                values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
                assert read[tensor.name].tobytes() == values.astype(np.float32).tobytes(), f"{dtype}: {tensor.name}"
                counts[kind] += 1
                if kind.lower() != dtype:
                    continue
                x, y = (v.astype(np.float64).reshape(-1, size) for v in (exact[tensor.name], values))
                lost, bound = np.sqrt(((x - y) ** 2).mean(-1)), allowed(kind, x)
                worst = max(worst, float((lost / np.maximum(bound, 1e-30)).max()))
            print(f"SmolLM2 {dtype:5} loses {worst:.3f} of what a block may; {dict(counts)}", flush=True)
            assert counts[dtype.upper()] > 0 and worst <= 1, f"{dtype}: {worst:.3f} of what a block may lose"


def tensors_of(path):
    """{name: values} of a GGUF file in float32."""
    return {t.name: np.array(t.data) for t in gguf.GGUFReader(path).tensors}


def test_llama_cpp_random():
    """Shapes that SmolLM2 has not: other families, heads that are not grouped, an output of its own. Windows are shorter
    than the text, but that of Phi-3, past which llama.cpp looks."""
    require(importlib.util.find_spec("llama_cpp"), "llama_cpp is not installed")
    tokenizer = DATA / "tokenizers" / "gpt2" / "tokenizer.json"
    require(tokenizer.exists(), f"no test data at {tokenizer}")
    cases = {"gpt2": (make.configuration(make.GPT2, vocab_size=50257, n_positions=128), make.gpt2_tensors),
             "llama": (make.configuration(make.LLAMA, vocab_size=50257, hidden_size=64, intermediate_size=96),
                       make.llama_tensors)}
    of_64 = {"vocab_size": 50257, "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 128}
    for name, base, more in (
            ("phi", make.PHI3, {"sliding_window": 40}),  # of a "phi3" llama.cpp wants tokens that Phi-3's own has
            ("gemma2", make.GEMMA2, {**PUBLISHED, "attn_logit_softcapping": 7.0, "final_logit_softcapping": 11.0}),
            ("gemma3", make.GEMMA3, {**PUBLISHED, "rope_local_base_freq": 2e4}),
            ("neox", make.GPT_NEOX, {"rotary_pct": 0.25}),
            ("neox-serial", make.GPT_NEOX, {"rotary_pct": 1.0, "use_parallel_residual": False, "rotary_emb_base": 5e3})):
        cases[name] = (make.configuration(base, **{**of_64, **more}), make.random_tensors)
    with scratch() as folder:
        for name, (config, tensors) in cases.items():
            source = make.write_folder(folder / name, config, tensors(config, 4))
            shutil.copy(tokenizer, source)
            for dtype in ("f32", "q8_0"):
                target = convert(source, folder / "model.gguf", "--dtype", dtype, "--force")
                check_logits(open_llama_cpp(target), target, folder, make.token_ids(50257, 20, 5), f"{name:11} {dtype:5}",
                             2 * LLAMA_CPP_BARS[dtype])


if __name__ == "__main__":
    common.main(globals())
