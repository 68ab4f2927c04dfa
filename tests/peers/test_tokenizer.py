"""Every tokenizer that headscope can read against the tokenizers package (and transformers), on random Unicode and on
every line of the test texts: same ids, and for byte-level ones the same bytes back.
"""
import json
import pathlib
import random
import tempfile

import common
from tokenizers import Tokenizer
from tokenizing import (Ours, added, byte_level, compare, compare_calls, compare_json, gpt2, lines, load_library, split, strings,
                        tinystories)

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LINES = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|"
         r"\s*[\r\n]+|\s+(?!\S)|\s+")
HEAD = r"[^\r\n\p{L}\p{N}]?"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERNS = {
    "gpt2": GPT2_PATTERN,
    "gpt2 without its last branch": GPT2_PATTERN.rsplit("|", 1)[0],
    "llama3": LINES % "{1,3}",
    "qwen2": LINES % "",
    "llama3 with a group": "(?:" + LINES % "{1,3}" + ")",
    "cased words": (f"{HEAD}{UPPER}*{LOWER}+{SHORT}|{HEAD}{UPPER}+{LOWER}*{SHORT}|"
                    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"),
    "marks and signs": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                       r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "words": r"\w+|[^\w\s]+",
    "digits": r"\d|\D+",
    "not words": r"\W+",
    "Han": r"\p{Han}+|[^\s\p{Han}]+",
    "negated": r"\P{L}+|\p{^N}+",
    "blanks at the end": r"\s+$",
    "start": r"^\s+",
    "everything": r"[\s\S]",
    "cut before capitals": r"(?=\p{Lu})",
    "possessive": r"\p{L}++|\s*+",
    "not a blank": r"\S+",
}
BEHAVIORS = ["Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"]


def test_gpt2_on_texts():
    library, path = load_library(), common.require_data("tokenizers", "gpt2", "tokenizer.json")
    ours = Ours(library, path)
    texts = lines()
    whole = ["\n".join(texts[i:i + 2000]) for i in range(0, len(texts), 2000)]
    assert compare("gpt2, every line and longer parts", ours, Tokenizer.from_file(str(path)), texts + whole) == 0
    ours.close()


def test_patterns():
    library, wrong = load_library(), 0
    for name, pattern in PATTERNS.items():
        tree = gpt2()
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split(pattern), byte_level(use_regex=False)]}
        wrong += compare_json(library, "pattern " + name, tree)
    assert wrong == 0


def test_split_behaviors():
    library, wrong = load_library(), 0
    for behavior in BEHAVIORS:
        for invert in (False, True):
            for pattern in ({"Regex": r"\s|\p{P}"}, {"String": "b"}, {"Regex": GPT2_PATTERN}):
                tree = gpt2()
                steps = [split(pattern, behavior, invert), byte_level()]
                tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
                name = f"{behavior}{' inverted' if invert else ''} {list(pattern.values())[0][:12]}"
                wrong += compare_json(library, name, tree, strings(behavior)[:400], lossless=behavior != "Removed")
    assert wrong == 0


def test_steps():
    library, wrong = load_library(), 0
    sequences = {
        "digits, byte level": [{"type": "Digits", "individual_digits": True}, byte_level()],
        "runs of digits": [{"type": "Digits", "individual_digits": False}, byte_level()],
        "punctuation": [{"type": "Punctuation", "behavior": "Isolated"}, byte_level()],
        "runs of punctuation": [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level()],
        "add_prefix_space": [byte_level(add_prefix_space=True)],
        "no pattern": [byte_level(use_regex=False)],
        "three steps": [split(r"\p{N}{1,3}"), split("[一-龥\u3040-\u309f\u30a0-\u30ff]+"),
                        split(PATTERNS["marks and signs"]), byte_level(use_regex=False)],
    }
    for name, steps in sequences.items():
        tree = gpt2()
        tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
        wrong += compare_json(library, name, tree, lossless="prefix" not in name)
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        tree = gpt2()
        tree["normalizer"] = {"type": form}
        wrong += compare_json(library, form, tree, strings(form), lossless=False)
    tree = gpt2()
    tree["model"]["ignore_merges"] = True
    wrong += compare_json(library, "ignore_merges", tree)
    assert wrong == 0


def test_added_tokens():
    library, wrong = load_library(), 0
    sets = {
        "plain": [added("<x>", 50257), added("<x>b", 50258), added("đem", 50259, normalized=True)],
        "strip": [added("<x>", 50257, lstrip=True), added("<y>", 50258, rstrip=True), added("<x>b", 50259)],
        "strip both": [added("<x>", 50257, lstrip=True, rstrip=True), added("<s>", 50258, rstrip=True, special=True)],
        "single word": [added("<x>", 50257, single_word=True), added("s", 82, single_word=True),
                        added("đem", 50258, single_word=True, normalized=True)],
        "special": [added("<s>", 50257, special=True), added("<x>", 50258, special=True), added("<y>", 50259)],
    }
    for name, tokens in sets.items():
        for normalizer in (None, {"type": "NFC"}):
            tree = gpt2()
            tree["added_tokens"] = tree["added_tokens"] + tokens
            tree["normalizer"] = normalizer
            texts = strings(name)
            for parse in (False, True):
                label = f"added {name}{' NFC' if normalizer else ''}{' parsed' if parse else ''}"
                lossless = normalizer is None and "strip" not in name
                wrong += compare_json(library, label, tree, texts, parse=parse, lossless=lossless)
    assert wrong == 0


def toy(normalizer=None, pre_tokenizer=None):
    """The vocabulary of case B09."""
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    pieces += "▁ h e l o u n s ▁h el lo ▁hel ▁hello hel hello ▁u ns ▁uns uns ▁▁".split()
    merges = ["▁ h", "e l", "l o", "▁h el", "h el", "▁hel lo", "hel lo", "▁ u", "n s", "▁u ns", "u ns", "▁ ▁"]
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(t, i, special=True) for i, t in enumerate(pieces[:3])],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": {t: i for i, t in enumerate(pieces)}, "merges": merges}}


def test_sentencepiece_like():
    library, wrong = load_library(), 0
    rng = random.Random(9)
    texts = ["".join(rng.choice(["hello", "uns", " ", "  ", "<s>", "</s>", "h", "el", "o", "é", "🦙", "\n", "▁"])
                     for _ in range(rng.randrange(0, 9))) for _ in range(2000)]
    prepend = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
                                                   {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}
    variants = {"prepend and replace": (prepend, None), "replace": (prepend["normalizers"][1], None)}
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            variants[f"Metaspace {scheme} {split}"] = (
                None, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split})
    for name, (normalizer, pre_tokenizer) in variants.items():
        for parse in (False, True):
            label, tree = f"toy {name}{' parsed' if parse else ''}", toy(normalizer, pre_tokenizer)
            wrong += compare_json(library, label, tree, texts, parse=parse, lossless=False)
    for parse in (False, True):
        label, some = f"tinystories{' parsed' if parse else ''}", strings(1) + lines()[::9]
        wrong += compare_json(library, label, tinystories(), some, parse=parse, add=True, lossless=False)
    assert wrong == 0


def test_folder_as_transformers():
    """vocab.json and merges.txt, with what may lie beside them, as AutoTokenizer reads them."""
    import shutil
    from transformers import AutoTokenizer
    library, wrong = load_library(), 0
    source = common.require_data("tokenizers", "gpt2")
    x = {k: v for k, v in added("<x>", 0).items() if k != "id"}
    folders = {
        "nothing beside": {},
        "added_tokens.json": {"added_tokens": {"<x>": 50257, "<y>": 50258}},
        "special_tokens_map.json": {"special_tokens_map": {"bos_token": "<s>", "pad_token": "<x>"}},
        "tokenizer_config.json": {"tokenizer_config": {
            "add_bos_token": True, "add_prefix_space": True, "model_max_length": 10 ** 30,
            "added_tokens_decoder": {"50257": x, "50256": dict(x, content="<|endoftext|>", special=True)}}},
        "add_eos_token": {"tokenizer_config": {"add_eos_token": True, "eos_token": "<y>"}},
        "extra special tokens": {"tokenizer_config": {"pad_token": "<x>", "extra_special_tokens": ["<y>"]}},
    }
    for name, files in folders.items():
        with tempfile.TemporaryDirectory() as folder:
            for file in ("vocab.json", "merges.txt", "config.json"):
                shutil.copy(source / file, folder)
            for file, tree in files.items():
                (pathlib.Path(folder) / f"{file}.json").write_text(json.dumps(tree), encoding="utf-8")
            ours, theirs = Ours(library, folder), AutoTokenizer.from_pretrained(folder)
            texts = strings(name) + ["a<|endoftext|>b", "<x> é", "hello <y>a", ""]
            wrong += compare_calls("folder: " + name, ours, theirs, texts, (False, True))
            ours.close()
    assert wrong == 0


if __name__ == "__main__":
    common.main(globals())
