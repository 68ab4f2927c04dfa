"""What the tests of tokenizers share: the library by ctypes, random text, and the comparison with the peer."""
import ctypes
import json
import pathlib
import random
import tempfile

import common
from tokenizers import Tokenizer

STRINGS = 1500  # random strings a tokenizer


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("offset", ctypes.c_uint64), ("message", ctypes.c_char * 1024)]


class Encoding(ctypes.Structure):
    _fields_ = [("ids", ctypes.POINTER(ctypes.c_int32)), ("spans", ctypes.POINTER(ctypes.c_size_t)),
                ("n", ctypes.c_size_t), ("capacity", ctypes.c_size_t), ("words", ctypes.POINTER(ctypes.c_int32)),
                ("segments", ctypes.POINTER(ctypes.c_int32)), ("texts", ctypes.POINTER(ctypes.c_int8))]


def load_library():
    path = pathlib.Path(common.PROGRAM).parent / "libheadscope.so"
    common.require(path.exists(), f"no library at {path}")
    library = ctypes.CDLL(str(path))
    library.hsc_decode.restype = ctypes.c_int64
    return library


class Ours:
    def __init__(self, library, path):
        self.library, self.handle, self.out = library, ctypes.c_void_p(), Encoding()
        err = Error()
        if library.hsc_tokenizer_open(ctypes.byref(self.handle), str(path).encode(), ctypes.byref(err)):
            raise RuntimeError(err.message.decode())

    def encode(self, text, add=False, parse=False):
        data, err = text.encode(), Error()
        if self.library.hsc_encode(self.handle, data, ctypes.c_size_t(len(data)), add + 2 * parse,
                                   ctypes.byref(self.out), ctypes.byref(err)):
            raise RuntimeError(err.message.decode())
        return self.out.ids[:self.out.n]

    def encode_pair(self, first, second, add=False, parse=False):
        a, b, err = first.encode(), second.encode(), Error()
        if self.library.hsc_encode_pair(self.handle, a, ctypes.c_size_t(len(a)), b, ctypes.c_size_t(len(b)),
                                        add + 2 * parse, ctypes.byref(self.out), ctypes.byref(err)):
            raise RuntimeError(err.message.decode())
        return self.out.ids[:self.out.n]

    def spans(self):
        flat = self.out.spans[:2 * self.out.n]
        return list(zip(flat[::2], flat[1::2]))

    def words(self):
        return [None if word < 0 else word for word in self.out.words[:self.out.n]]

    def segments(self):
        return self.out.segments[:self.out.n]

    def texts(self):
        return [None if text < 0 else text for text in self.out.texts[:self.out.n]]

    def decode(self, ids):
        """The bytes that the ids stand for."""
        array, n_ids = (ctypes.c_int32 * len(ids))(*ids), ctypes.c_size_t(len(ids))
        n = self.library.hsc_decode(self.handle, array, n_ids, None, ctypes.c_size_t(0))
        out = ctypes.create_string_buffer(max(n, 1))
        self.library.hsc_decode(self.handle, array, n_ids, out, ctypes.c_size_t(n))
        return out.raw[:n]

    def close(self):
        self.library.hsc_encoding_free(ctypes.byref(self.out))
        self.library.hsc_tokenizer_free(self.handle)


def character(rng):
    kind = rng.random()
    if kind < 0.35:
        return chr(rng.randrange(32, 127))
    if kind < 0.5:
        return rng.choice(" \n\t\r\x0b\x0c\x85\xa0\u1680\u2000\u2009\u200a\u200b\u2028\u2029\u202f\u205f\u3000"
                          "\u180e\ufeff")
    if kind < 0.6:
        return rng.choice(["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'\u017f", " '", "''",
                           "e\u0301", "\u1100\u1161\u11a8", "\u212b", "\ufb01", "<s>", "<x>", "<y>",
                           "<x>b", "đem", "\u2581", "  "])
    if kind < 0.75:
        return chr(rng.randrange(0xA0, 0x3000))
    while True:
        code = rng.randrange(0x110000)
        if not 0xD800 <= code <= 0xDFFF:
            return chr(code)


def strings(seed):
    rng = random.Random(seed)
    return ["".join(character(rng) for _ in range(rng.randrange(0, 32))) for _ in range(STRINGS)]


def lines():
    out = []
    for path in sorted(common.require_data("text").glob("**/*.txt")):
        with open(path, encoding="utf-8", newline="") as file:
            out += file.read().split("\n")
    return out


def compare(name, ours, theirs, texts, add=False, parse=False, lossless=True):
    theirs.encode_special_tokens = not parse
    theirs.no_truncation()
    theirs.no_padding()
    wrong = 0
    for text in texts:
        want, got = theirs.encode(text, add_special_tokens=add).ids, ours.encode(text, add, parse)
        back = not lossless or ours.decode(got) == text.encode()
        if want != got or not back:
            wrong += 1
            if wrong <= 3:
                print(f"  {name}: {text!r}\n    right {want}\n    ours  {got}{'' if back else ' (bytes differ)'}")
    if name:
        print(f"{name:46} {len(texts):7} texts {wrong:6} wrong")
    return wrong


def compare_calls(name, ours, theirs, texts, adds=(True,)):
    """The same of a tokenizer of transformers, which is called and reads special tokens in the text as such."""
    wrong = 0
    for text in texts:
        for add in adds:
            want, got = theirs(text, add_special_tokens=add)["input_ids"], ours.encode(text, add, True)
            wrong += want != got
            if want != got and wrong <= 3:
                print(f"  {name}: {text!r}\n    right {want}\n    ours  {got}")
    print(f"{name:46} {len(adds) * len(texts):7} texts {wrong:6} wrong")
    return wrong


def compare_json(library, name, tree, texts=None, **how):
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = open_both(library, folder, tree)
        try:
            return compare(name, ours, theirs, texts or strings(name), **how)
        finally:
            ours.close()


def gpt2():
    return json.loads(common.require_data("tokenizers", "gpt2", "tokenizer.json").read_text(encoding="utf-8"))


def tinystories():
    return json.loads(common.require_data("models", "tinystories-656k", "tokenizer.json").read_text(encoding="utf-8"))


def added(content, id, **flags):
    return {"id": id, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
            "special": False, **flags}


def byte_level(**change):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True, **change}


def split(pattern, behavior="Isolated", invert=False):
    if isinstance(pattern, str):
        pattern = {"Regex": pattern}
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def open_both(library, folder, tree):
    """A tokenizer.json in the folder, opened by either side."""
    path = pathlib.Path(folder) / "tokenizer.json"
    path.write_text(json.dumps(tree), encoding="utf-8")
    return Ours(library, path), Tokenizer.from_file(str(path))


def check_single_characters(library, name, tree):
    """Every code point between two letters. Tokens tell little of a small vocabulary, so spans are compared too."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = open_both(library, folder, tree)
        wrong, n = 0, 0
        theirs.no_truncation()
        theirs.no_padding()
        for first in range(0, 0x110000, 64):
            codes = [c for c in range(first, first + 64) if not 0xD800 <= c <= 0xDFFF]
            text = "a" + "a a".join(map(chr, codes)) + "a"
            n += len(codes)
            want = theirs.encode(text, add_special_tokens=False)
            got = ours.encode(text)
            if want.ids == got:
                continue
            for c in codes:
                text = "a" + chr(c) + "a"
                want, got = theirs.encode(text, add_special_tokens=False).ids, ours.encode(text)
                if want == got:
                    continue
                wrong += 1
                if wrong <= 9:
                    print(f"  {name}: U+{c:04X}\n    right {want}\n    ours  {got}")
        ours.close()
    print(f"{name:46} {n:7} characters {wrong} wrong")
    return wrong


def compare_places(library, name, tree, texts, offsets=True):
    """Ids, words, segments and, where the peer leaves them untrimmed, spans, of single texts and of pairs."""
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = open_both(library, folder, tree)
        theirs.no_truncation()
        theirs.no_padding()
        wrong, n = 0, 0
        for i, text in enumerate(texts):
            for add in (False, True):
                for other in (None, texts[i - 1]):
                    n += 1
                    want = theirs.encode(text, other, add_special_tokens=add)
                    got = ours.encode(text, add, True) if other is None else ours.encode_pair(text, other, add, True)
                    places = [(got, want.ids), (ours.words(), want.word_ids), (ours.segments(), want.type_ids),
                              (ours.texts(), want.sequence_ids)]
                    if offsets:
                        both, spans = (text, other), []
                        for (start, end), k in zip(want.offsets, want.sequence_ids):
                            spans.append(k is not None and (len(both[k][:start].encode()), len(both[k][:end].encode())))
                        # What was put in front takes no text here; the peer lends it the next character's.
                        mine = [k is not None and ((a, s[1]) if s and a == b == s[0] else (a, b))
                                for (a, b), k, s in zip(ours.spans(), ours.texts(), spans)]
                        places.append((mine, spans))
                    bad = [pair for pair in places if pair[0] != pair[1]]
                    wrong += bool(bad)
                    if bad and wrong <= 3:
                        print(f"  {name}: {text!r} {other!r} {add}\n    right {bad[0][1]}\n    ours  {bad[0][0]}")
        ours.close()
    print(f"{name:46} {n:7} texts {wrong:6} wrong")
    return wrong


def compare_decoding(library, name, tree, n=2000):
    """Random ids back to text. What is not whole UTF-8 differs by design: the peer replaces it."""
    rng = random.Random(name)
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = open_both(library, folder, tree)
        wrong = 0
        for _ in range(n):
            ids = [rng.randrange(theirs.get_vocab_size()) for _ in range(rng.randrange(0, 9))]
            want, got = theirs.decode(ids, skip_special_tokens=False), ours.decode(ids)
            if "\ufffd" in want or want == got.decode(errors="replace"):
                continue
            wrong += 1
            if wrong <= 3:
                print(f"  {name}: {ids}\n    right {want!r}\n    ours  {got!r}")
        ours.close()
    print(f"{'decoding: ' + name:46} {n:7} texts {wrong:6} wrong")
    return wrong
