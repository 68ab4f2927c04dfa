"""Components that few tokenizers name, against the tokenizers package: symbols with a prefix or a suffix (CLIP's), whole
words, pieces of one length, bytes spelled by the normalizer. What there is in the package is done or refused by name."""
import functools
import json
import pathlib
import random
import tempfile

import common
import tokenizing
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizing import compare_decoding, compare_json, lines, load_library, strings

DONE = {
    normalizers: {"BertNormalizer", "ByteLevel", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "Precompiled", "Prepend",
                  "Replace", "Sequence", "Strip", "StripAccents"},
    pre_tokenizers: {"BertPreTokenizer", "ByteLevel", "CharDelimiterSplit", "Digits", "FixedLength", "Metaspace",
                     "Punctuation", "Sequence", "Split", "Whitespace", "WhitespaceSplit"},
    models: {"BPE", "Unigram", "WordLevel", "WordPiece"},
    decoders: {"BPEDecoder", "ByteFallback", "ByteLevel", "Fuse", "Metaspace", "Replace", "Sequence", "Strip", "WordPiece"},
    processors: {"BertProcessing", "ByteLevel", "RobertaProcessing", "Sequence", "TemplateProcessing"},
}
REFUSED = {pre_tokenizers: {"UnicodeScripts"}, decoders: {"CTC"}}
NO_COMPONENT = {"Normalizer", "NORMALIZERS", "PreTokenizer", "Model", "Decoder", "DecodeStream", "PostProcessor"}
FIELDS = {pre_tokenizers: "pre_tokenizer", decoders: "decoder"}


@functools.cache
def trained(prefix=None, suffix=None, byte_level=False, normalizer=None):
    options = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    options = {name: value for name, value in options.items() if value}
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=bool(prefix), **options))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False) if byte_level else \
        pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizer() if normalizer else None
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level or normalizer else []
    tokenizer.train_from_iterator(lines()[:20000:5], trainers.BpeTrainer(
        vocab_size=1800, special_tokens=["<unk>"], initial_alphabet=alphabet, show_progress=False, **options))
    return tokenizer.to_str()


def clip():
    """CLIP's own: one regular expression, bytes, a suffix where a word ends."""
    tree = json.loads(trained(suffix="</w>", byte_level=True))
    letters = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    # Every byte may end a word, seen in training or not.
    vocab = tree["model"]["vocab"]
    for byte in sorted(pre_tokenizers.ByteLevel.alphabet()):
        vocab.setdefault(byte + "</w>", len(vocab))
    tree["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}]}
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        tokenizing.split(letters, "Removed", True), tokenizing.byte_level(use_regex=False)]}
    tree["post_processor"] = {"type": "RobertaProcessing", "sep": ["a", vocab["a"]], "cls": ["b", vocab["b"]],
                              "trim_offsets": False, "add_prefix_space": False}
    tree["decoder"] = tokenizing.byte_level()
    return tree


def affixed(prefix=None, suffix=None):
    tree = json.loads(trained(prefix, suffix))
    tree["decoder"] = {"type": "BPEDecoder", "suffix": suffix or "</w>"}
    return tree


def word_level(unk="<unk>"):
    tokenizer = Tokenizer(models.WordLevel(unk_token=unk))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.train_from_iterator(lines()[:20000:5], trainers.WordLevelTrainer(
        vocab_size=3000, special_tokens=[unk], show_progress=False))
    return json.loads(tokenizer.to_str())


def spelled_bytes():
    tree = json.loads(trained(normalizer=normalizers.ByteLevel))
    tree["pre_tokenizer"] = tokenizing.split(r"\u0120?[a-z]+", "Isolated")
    tree["decoder"] = tokenizing.byte_level()
    return tree


def trees():
    return {"CLIP": clip(), "BPE, suffix": affixed(suffix="</w>"), "BPE, prefix": affixed(prefix="##"),
            "BPE, both": affixed(prefix="##", suffix="</w>"), "WordLevel": word_level(), "spelled bytes": spelled_bytes()}


def test_models():
    library, wrong = load_library(), 0
    for name, tree in trees().items():
        texts = strings(name) + lines()[::7] + ["", "a", " a ", "\n"]
        wrong += compare_json(library, name, tree, texts, add=True, lossless=False)
        if name != "WordLevel":
            tree["model"]["ignore_merges"] = True
            wrong += compare_json(library, f"{name}, ignore_merges", tree, texts, lossless=False)
    assert wrong == 0


def test_decoders():
    library = load_library()
    wrong = sum(compare_decoding(library, name, tree) for name, tree in trees().items() if name != "WordLevel")
    assert wrong == 0


def test_every_character_between_words():
    """With whole words every cut shows: a letter, the character, a letter."""
    library, wrong = load_library(), 0
    tree = word_level()
    tree["model"]["vocab"] = {"<unk>": 0, "a": 1}
    cuts = [{"type": "Whitespace"}, {"type": "WhitespaceSplit"}, {"type": "Digits", "individual_digits": True},
            {"type": "Punctuation", "behavior": "Isolated"}, {"type": "BertPreTokenizer"}]
    for cut in cuts:
        tree["pre_tokenizer"] = cut
        wrong += tokenizing.check_single_characters(library, f"words: {cut['type']}", tree)
    assert wrong == 0


def test_fixed_length():
    library, wrong = load_library(), 0
    for length in (1, 5, 12):
        tree = tokenizing.gpt2()
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
            {"type": "FixedLength", "length": length}, tokenizing.byte_level(use_regex=False)]}
        wrong += compare_json(library, f"pieces of {length}", tree)
    assert wrong == 0


def test_nothing_is_missing():
    """Every component of the package is in one of the two lists, and those of the second are refused by name."""
    library = load_library()
    for module, done in DONE.items():
        there = {name for name in dir(module) if name[0].isupper()} - NO_COMPONENT
        assert there == done | REFUSED.get(module, set()), (module.__name__, there ^ done)
        for name in REFUSED.get(module, ()):
            tree = tokenizing.gpt2()
            tree[FIELDS[module]] = {"type": name}
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "tokenizer.json"
                path.write_text(json.dumps(tree))
                try:
                    tokenizing.Ours(library, path)
                    raise AssertionError(name)
                except RuntimeError as error:
                    assert f'{FIELDS[module]} "{name}" is not supported' in str(error), str(error)


if __name__ == "__main__":
    common.main(globals())
