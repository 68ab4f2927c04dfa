"""Unigram and the components around it against the tokenizers package: vocabularies trained on the test texts, the map
that SentencePiece compiles, every normalizer, pre-tokenizer and decoder that such files name, alone and in sequences."""
import base64
import functools
import io
import itertools
import json
import random

import common
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from tokenizing import added, character, check_single_characters, compare_decoding, compare_json, compare_places, lines
from tokenizing import load_library, strings

MARK = "\u2581"


@functools.cache
def charsmaps():
    """The normalization rules that SentencePiece carries: T5's and XLM-R's is nmt_nfkc."""
    import sentencepiece
    out = {}
    for rule in ("nmt_nfkc", "nmt_nfkc_cf", "nfkc"):
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the animal", "did not cross", "the street"] * 9), model_writer=model, vocab_size=30,
            hard_vocab_limit=False, normalization_rule_name=rule, minloglevel=2)
        from sentencepiece import sentencepiece_model_pb2
        proto = sentencepiece_model_pb2.ModelProto()
        proto.ParseFromString(model.getvalue())
        out[rule] = base64.b64encode(proto.normalizer_spec.precompiled_charsmap).decode()
    return out


@functools.cache
def trained():
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=1500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
                                      show_progress=False, n_sub_iterations=1)
    tokenizer.train_from_iterator(lines()[:20000:5], trainer)
    return tokenizer.to_str()


def t5(**change):
    tree = json.loads(trained())
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    tree["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": charsmaps()["nmt_nfkc"]},
        {"type": "Strip", "strip_left": False, "strip_right": True},
        {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": MARK}]}
    tree["pre_tokenizer"] = metaspace
    tree["decoder"] = metaspace
    tree["post_processor"] = {
        "type": "TemplateProcessing", "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}},
        "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}},
                 {"Sequence": {"id": "B", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]}
    model = change.pop("model", {})
    tree.update(change)
    tree["model"].update(model)
    return tree


def with_bytes(tree):
    tree["model"]["vocab"] += [[f"<0x{b:02X}>", -9.5] for b in range(256)]
    tree["model"]["byte_fallback"] = True
    return tree


def test_texts():
    library = load_library()
    assert compare_json(library, "t5, every line", t5(), lines(), add=True, lossless=False) == 0
    assert compare_json(library, "t5, longer parts", t5(), ["\n".join(lines()[i:i + 50]) for i in range(0, 9000, 50)],
                        lossless=False) == 0


def test_models():
    library, wrong = load_library(), 0
    doubles = t5()
    doubles["model"]["vocab"] += [["e", -1.0], ["th", -30.0], ["<unk>", -2.0], ["\u00e9\u00e8", -5.0], ["", -1.0]]
    trees = {"t5": t5(), "bytes": with_bytes(t5()), "doubles": doubles,
             "no type": t5(), "unknown is a letter": t5(model={"unk_id": 5}), "whole text is one word": t5(
                 pre_tokenizer=None, normalizer=None)}
    trees["no type"]["model"].pop("type")
    for name, tree in trees.items():
        texts = strings(name) + [text.replace(" ", "<unk>") for text in lines()[:200]]
        wrong += compare_json(library, f"unigram {name}", tree, texts, add=True, lossless=False)
    assert wrong == 0


def test_every_character_of_the_maps():
    library, wrong = load_library(), 0
    for rule, charsmap in charsmaps().items():
        tree = t5(normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap}, pre_tokenizer=None)
        with_bytes(tree)
        wrong += check_single_characters(library, f"charsmap {rule}", tree)
    assert wrong == 0


def test_every_character_of_the_forms():
    library, wrong = load_library(), 0
    for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        wrong += check_single_characters(library, form, with_bytes(t5(normalizer={"type": form}, pre_tokenizer=None)))
    for step in ("Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "BertPreTokenizer"):
        step = {"type": step, "behavior": "Isolated", "individual_digits": True}
        wrong += check_single_characters(library, step["type"], with_bytes(t5(normalizer=None, pre_tokenizer=step)))
    assert wrong == 0


def steps():
    """Normalizers and pre-tokenizers with their options."""
    regex = lambda pattern, content: {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}
    normal = [{"type": form} for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
    normal += [{"type": "Strip", "strip_left": left, "strip_right": right} for left in (0, 1) for right in (0, 1)]
    normal = [{key: bool(value) if key.startswith("strip") else value for key, value in step.items()} for step in normal]
    normal += [{"type": "Precompiled", "precompiled_charsmap": charsmap} for charsmap in charsmaps().values()]
    normal += [{"type": "Prepend", "prepend": MARK}, {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
               {"type": "Replace", "pattern": {"String": "ll"}, "content": ""}, regex(" {2,}", MARK),
               regex(r"\s+", " "), regex(r"\A +| +\z", ""), regex(r"[\p{L}]{3}", "xy"), regex("``|''", '"')]
    normal += [{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                "lowercase": True}]
    cut = [{"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}
           for scheme in ("always", "first", "never") for split in (True, False)]
    cut += [{"type": kind} for kind in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")]
    behaviors = ("Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    cut += [{"type": "Punctuation", "behavior": behavior} for behavior in behaviors]
    cut += [{"type": "Digits", "individual_digits": single} for single in (True, False)]
    cut += [{"type": "CharDelimiterSplit", "delimiter": delimiter} for delimiter in ("e", ".", "\u00e9")]
    cut += [{"type": "Split", "pattern": {"String": "l"}, "behavior": behavior, "invert": invert}
            for behavior in behaviors for invert in (True, False)]
    return normal, cut


def test_components():
    """Each alone, then pairs and triples drawn at random."""
    library, wrong, rng = load_library(), 0, random.Random(8)
    normal, cut = steps()
    choices = [([step], []) for step in normal] + [([], [step]) for step in cut]
    choices += [(rng.choices(normal, k=rng.randrange(3)), rng.choices(cut, k=rng.randrange(1, 4))) for _ in range(60)]
    tree = with_bytes(t5())
    for n, c in choices:
        tree["normalizer"] = {"type": "Sequence", "normalizers": n} if n else None
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": c} if c else None
        name = " ".join([step["type"] for step in n] + ["|"] + [step["type"] for step in c])
        wrong += compare_json(library, name, tree, strings(name)[:300], lossless=False)
    assert wrong == 0


def test_places():
    library, wrong, rng = load_library(), 0, random.Random(4)
    texts = ["".join(character(rng) for _ in range(rng.randrange(0, 20))) for _ in range(300)]
    metaspace = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": "always", "split": True}
    both = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, metaspace]}
    for name, pre in {"Metaspace": metaspace, "WhitespaceSplit, Metaspace": both}.items():
        for form in (None, {"type": "Lowercase"}, {"type": "Nmt"}):
            tree = t5(normalizer=form, pre_tokenizer=pre)
            wrong += compare_places(library, f"places: {name}, {form}", tree, texts)
    assert wrong == 0


def test_decoders():
    library, wrong = load_library(), 0
    mark = {"type": "Replace", "pattern": {"String": MARK}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    decoders = {f"Metaspace {scheme}": {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": True}
                for scheme in ("always", "first", "never")}
    decoders["Llama's"] = {"type": "Sequence", "decoders": [mark, {"type": "ByteFallback"}, {"type": "Fuse"}, strip]}
    decoders["Gemma's"] = {"type": "Sequence", "decoders": [mark, {"type": "ByteFallback"}, {"type": "Fuse"}]}
    decoders["WordPiece"] = {"type": "WordPiece", "prefix": "e", "cleanup": True}
    for name, decoder in decoders.items():
        wrong += compare_decoding(library, name, with_bytes(t5(decoder=decoder)))
    assert wrong == 0


if __name__ == "__main__":
    common.main(globals())
