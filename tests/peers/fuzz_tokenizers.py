"""The long run behind `./dev fuzz tokenizers`: random Unicode strings through one tokenizer of every kind, against the
tokenizers package. Arguments: strings a kind (a million), then words of the kinds' names. What differs is printed and
the exit status is 1; the seed is the day's number unless HEADSCOPE_SEED is set."""
import json
import os
import random
import sys
import tempfile
import time

import common
import test_tokenizer as bpe
import test_tokenizer_components as components
import test_tokenizer_sentencepiece as sentencepiece
import test_tokenizer_unigram as unigram
import test_tokenizer_wordpiece as wordpiece
import tokenizing

BATCH = 2000
LOOSE = dict(lossless=False)


def by_steps(*steps):
    tree = tokenizing.gpt2()
    steps = [*steps, tokenizing.byte_level(use_regex=False)]
    tree["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
    return tree


def model_file(kind, model, config=None):
    """Opens a folder with a SentencePiece model on either side."""
    def open_both(library, folder):
        from transformers import AutoTokenizer
        sentencepiece.folder(folder, kind, model, config)
        return tokenizing.Ours(library, folder), AutoTokenizer.from_pretrained(folder)._tokenizer
    return open_both


class Marian:
    """The peer's own class with the face of the others."""

    def __init__(self, folder):
        from transformers import MarianTokenizer
        self.tokenizer = MarianTokenizer.from_pretrained(folder)

    def no_truncation(self):
        pass

    no_padding = no_truncation

    def encode(self, text, add_special_tokens):
        self.ids = self.tokenizer(text, add_special_tokens=add_special_tokens)["input_ids"]
        return self


def marian(library, folder):
    sentencepiece.marian(folder)
    return tokenizing.Ours(library, folder), Marian(folder)


def kinds():
    split = tokenizing.split
    digits = {"type": "Digits", "individual_digits": True}
    marks = bpe.PATTERNS["marks and signs"]
    cased = wordpiece.bert()
    cased["normalizer"] = wordpiece.normalizer(lowercase=False)
    both = {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {
        "type": "Metaspace", "replacement": unigram.MARK, "prepend_scheme": "always", "split": True}]}
    llama = bpe.toy({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})
    return {
        "GPT-2": (tokenizing.gpt2(), {}),
        "Llama 3": (by_steps(split(bpe.PATTERNS["llama3"])), {}),
        "Qwen 2": (by_steps(split(bpe.PATTERNS["qwen2"])), {}),
        "SmolLM, StarCoder": (by_steps(digits, split(bpe.GPT2_PATTERN)), {}),
        "DeepSeek V3": (by_steps(split(r"\p{N}{1,3}"), split("[一-龥\u3040-\u309f\u30a0-\u30ff]+"), split(marks)), {}),
        "o200k": (by_steps(split(bpe.PATTERNS["cased words"])), {}),
        "SentencePiece BPE, real": (tokenizing.tinystories(), dict(LOOSE, add=True)),
        "SentencePiece BPE, bytes": (llama, LOOSE),
        "WordPiece": (wordpiece.bert(), dict(LOOSE, add=True)),
        "WordPiece, cased": (cased, dict(LOOSE, parse=True)),
        "Unigram, T5": (unigram.t5(), dict(LOOSE, add=True)),
        "Unigram, bytes": (unigram.with_bytes(unigram.t5(pre_tokenizer=both)), LOOSE),
        "CLIP": (components.clip(), dict(LOOSE, add=True)),
        "BPE with a prefix and a suffix": (components.affixed("##", "</w>"), LOOSE),
        "WordLevel": (components.word_level(), LOOSE),
        "BPE of spelled bytes": (components.spelled_bytes(), LOOSE),
        "model file, Llama": (model_file("llama", sentencepiece.llama(), {"tokenizer_class": "LlamaTokenizer"}), LOOSE),
        "model file, by itself": (model_file("mistral", sentencepiece.llama(user_defined_symbols="ab,<x>")), LOOSE),
        "model file, Gemma": (model_file("gemma", sentencepiece.gemma()), LOOSE),
        "model file, T5": (model_file("t5", sentencepiece.t5()), dict(LOOSE, add=True)),
        "model file, XLM-R": (model_file("xlm-roberta", sentencepiece.unigram()), dict(LOOSE, add=True)),
        "Marian": (marian, dict(LOOSE, add=True, parse=True)),
    }


def fuzz(library, name, tree, how, n, seed):
    rng, wrong, start = random.Random(f"{seed} {name}"), 0, time.time()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = tree(library, folder) if callable(tree) else tokenizing.open_both(library, folder, tree)
        for _ in range(0, n, BATCH):
            texts = ["".join(tokenizing.character(rng) for _ in range(rng.randrange(0, 32)))
                     for _ in range(min(BATCH, n))]
            if name == "Marian":
                texts = [rng.choice(("", "", "", ">>fra<<", ">>", ">>x<<")) + text for text in texts]
            wrong += tokenizing.compare(None, ours, theirs, texts, **how)
            if wrong > 20:
                break
        ours.close()
    print(f"{name:28} {n:8} texts {wrong:4} wrong {time.time() - start:7.0f} s", flush=True)
    return wrong


def main():
    n, words = int(sys.argv[1]) if len(sys.argv) > 1 else 1000000, sys.argv[2:]
    seed = os.environ.get("HEADSCOPE_SEED", str(int(time.time()) // 86400))
    library, wrong = tokenizing.load_library(), 0
    print(f"seed {seed}")
    for name, (tree, how) in kinds().items():
        if not words or any(word.lower() in name.lower() for word in words):
            wrong += fuzz(library, name, tree, how, n, seed)
    return wrong > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except common.Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(77)
