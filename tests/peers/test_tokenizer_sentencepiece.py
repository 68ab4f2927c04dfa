"""SentencePiece models without a tokenizer.json, against AutoTokenizer on the same folder: Llama's, Gemma's, T5's and
XLM-R's classes and what follows the file alone; and Marian's pair of them. The models are trained here."""
import functools
import io
import json
import pathlib
import random
import tempfile

import common
from tokenizing import Ours, character, compare_calls, lines, load_library, strings

MARK = "\u2581"
FILES = {"t5": "spiece.model", "xlm-roberta": "sentencepiece.bpe.model"}


@functools.cache
def train(**options):
    import sentencepiece
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines()[:30000:5]), model_writer=out, minloglevel=2,
                                             hard_vocab_limit=False, num_threads=1, **options)
    return out.getvalue()


def proto(data, **change):
    """The model with fields of its trainer_spec and normalizer_spec changed."""
    from sentencepiece import sentencepiece_model_pb2
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(data)
    for name, value in change.items():
        part = model.normalizer_spec if hasattr(model.normalizer_spec, name) else model.trainer_spec
        setattr(part, name, value)
    return model


def llama(**change):
    return train(vocab_size=900, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, split_digits=True, allow_whitespace_only_pieces=True, **change)


def gemma():
    return train(vocab_size=900, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                 remove_extra_whitespaces=False, split_digits=True, add_dummy_prefix=False, pad_id=0, eos_id=1, bos_id=2,
                 unk_id=3, bos_piece="<bos>", eos_piece="<eos>", user_defined_symbols="<mask>,<start_of_turn>")


def t5(**change):
    return train(vocab_size=900, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1, **change)


def unigram(**change):
    return train(vocab_size=900, model_type="unigram", **change)


def folder(path, model_type, model, config=None, file=None):
    path = pathlib.Path(path)
    (path / (file or FILES.get(model_type, "tokenizer.model"))).write_bytes(model)
    if model_type:
        (path / "config.json").write_text(json.dumps({"model_type": model_type}))
    if config is not None:
        (path / "tokenizer_config.json").write_text(json.dumps(config))


def texts(name):
    rng = random.Random(name)
    out = strings(name) + lines()[::211]
    pieces = ["<s>", "</s>", "<unk>", "<pad>", "<mask>", "<start_of_turn>", "<extra_id_7>", MARK, "  ", "\n", "<0x41>"]
    out += ["".join(rng.choice(pieces + ["a", " b", "Hello", " "]) for _ in range(rng.randrange(1, 9)))
            for _ in range(400)]
    return out + ["", " ", "  ", MARK, MARK * 2 + "x", "Hello  world ", "\ufb01nd \u00bd"]


def check(library, name, model_type, model, config=None, file=None):
    from transformers import AutoTokenizer
    with tempfile.TemporaryDirectory() as path:
        folder(path, model_type, model, config, file)
        ours, theirs, wrong = Ours(library, path), AutoTokenizer.from_pretrained(path), 0
        wrong += ours.library.hsc_tokenizer_size(ours.handle) != len(theirs)
        if wrong:
            print(f"  {name}: {ours.library.hsc_tokenizer_size(ours.handle)} tokens, right {len(theirs)}")
        some = texts(name)
        for i, text in enumerate(some):
            pair = (some[i - 1] or "x") if i % 5 == 0 else None
            want = theirs(text, pair)["input_ids"]
            got = ours.encode(text, True, True) if pair is None else ours.encode_pair(text, pair, True, True)
            bad = want != got
            if not bad and pair is None and "\ufffd" not in theirs.decode(want):
                want, got = theirs.decode(want, clean_up_tokenization_spaces=False), ours.decode(want).decode("utf-8", "replace")
                bad = want != got
            wrong += bad
            if bad and wrong <= 3:
                print(f"  {name}: {text!r} {pair!r}\n    right {want!r}\n    ours  {got!r}")
        ours.close()
    print(f"{name:46} {len(some):7} texts {wrong:6} wrong")
    return wrong


def test_llama():
    library, wrong = load_library(), 0
    own = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False}
    decoder = {str(i): {"content": text, "lstrip": False, "rstrip": False, "normalized": True, "single_word": False,
                        "special": True} for i, text in enumerate(["<unk>", "<s>", "</s>"])}
    configs = [own, {**own, "legacy": True}, {**own, "legacy": True, "add_prefix_space": False},
               {**own, "add_eos_token": True, "pad_token": "<pad>"}, {**own, "tokenizer_class": "LlamaTokenizerFast"},
               {**own, "legacy": False, "added_tokens_decoder": decoder, "unk_token": {"__type": "AddedToken", "content": "<unk>"}}]
    for i, config in enumerate(configs):
        wrong += check(library, f"Llama {i}", "llama", llama(), config)
    assert wrong == 0


def test_by_file():
    library, wrong = load_library(), 0
    placeholder = {"900": {"content": "<x>", "special": True}, "280": {"content": "<|user|>", "special": True}}
    cases = {"llama, no class": ("llama", llama(), None), "mistral": ("mistral", llama(), {"add_bos_token": True,
             "tokenizer_class": "LlamaTokenizer", "legacy": False}), "phi3": ("phi3", llama(), {
             "tokenizer_class": "LlamaTokenizer", "added_tokens_decoder": placeholder, "add_bos_token": True}),
             "user-defined": ("llama", llama(user_defined_symbols="<x>,ab,\u00e9\u00e9,a+b"), None),
             "normalized": ("llama", train(vocab_size=900, model_type="bpe", byte_fallback=False), None),
             "unigram": ("llama", unigram(), None), "unigram, bytes": ("llama", unigram(byte_fallback=True), None)}
    for name, (kind, model, config) in cases.items():
        wrong += check(library, f"by the file: {name}", kind, model, config)
    for name, change in {"no prefix": {"add_dummy_prefix": False}, "blanks": {"remove_extra_whitespaces": False},
                         "no map": {"precompiled_charsmap": b""}}.items():
        model = proto(train(vocab_size=900, model_type="bpe", byte_fallback=True), **change).SerializeToString()
        wrong += check(library, f"by the file: {name}", "llama", model)
    assert wrong == 0


def test_gemma():
    library, wrong = load_library(), 0
    config = {"tokenizer_class": "GemmaTokenizer", "add_bos_token": True, "bos_token": "<bos>"}
    for kind in ("gemma", "gemma2", "gemma3_text"):
        wrong += check(library, kind, kind, gemma(), config)
    wrong += check(library, "gemma, no config", "gemma", gemma())
    assert wrong == 0


def test_t5():
    library, wrong = load_library(), 0
    for i, config in enumerate([None, {"extra_ids": 0, "tokenizer_class": "T5Tokenizer"}, {"extra_ids": 8},
                                {"tokenizer_class": "T5TokenizerFast", "eos_token": "</s>"}]):
        wrong += check(library, f"T5 {i}", "t5", t5(), config)
    wrong += check(library, "mT5", "mt5", t5(byte_fallback=True), None, "spiece.model")
    assert wrong == 0


def test_xlm_roberta():
    library, wrong = load_library(), 0
    mask = {"mask_token": {"__type": "AddedToken", "content": "<mask>", "lstrip": True, "rstrip": False, "normalized": True, "special": True}}
    for i, config in enumerate([None, mask, {"add_prefix_space": False}, {"unk_token": "<oov>"}]):
        wrong += check(library, f"XLM-R {i}", "xlm-roberta", unigram(), config)
    assert wrong == 0


def marian(path, separate=False):
    """Two models that share some pieces; vocab.json lacks a few and has a language code."""
    import sentencepiece
    path, rng = pathlib.Path(path), random.Random(3)
    models = {"source": unigram(), "target": train(vocab_size=700, model_type="unigram", character_coverage=0.99)}
    pieces = {}
    for name, data in models.items():
        (path / f"{name}.spm").write_bytes(data)
        pieces[name] = [p.piece for p in proto(data).pieces]
    def save(file, names):
        names = [name for name in dict.fromkeys(names) if name not in ("<s>", "</s>", "<unk>") and rng.random() < 0.97]
        names = ["</s>", "<unk>", *names, ">>fra<<", "<pad>"]
        (path / file).write_text(json.dumps({name: i for i, name in enumerate(names)}))
    save("vocab.json", pieces["source"] + ([] if separate else pieces["target"]))
    if separate:
        save("target_vocab.json", pieces["target"])
    (path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    (path / "tokenizer_config.json").write_text(json.dumps(
        {"separate_vocabs": separate, "source_lang": "en", "target_lang": "fr", "tokenizer_class": "MarianTokenizer"}))


def languages(name):
    """Texts with codes of languages, known and not, whole and not, anywhere."""
    rng = random.Random(name)
    pieces = [">>fra<<", ">>deu<<", ">><<", ">>", "<<", ">>a b<<", "</s>", "<unk>", "<pad>", " ", "Hello", "you", "\n"]
    return ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 7))) for _ in range(600)]


def test_marian():
    from transformers import MarianTokenizer
    library, wrong = load_library(), 0
    for separate in (False, True):
        with tempfile.TemporaryDirectory() as path:
            marian(path, separate)
            ours, theirs = Ours(library, path), MarianTokenizer.from_pretrained(path)
            some = texts("marian") + languages("marian")
            wrong += compare_calls(f"Marian, separate {separate}", ours, theirs, some)
            ours.close()
    assert wrong == 0


def test_refusals():
    """What cannot be done is refused by the name of the file and what is in it."""
    library = load_library()
    cases = [("tokenizer_class \"CamembertTokenizer\"", "llama", llama(), {"tokenizer_class": "CamembertTokenizer"}),
             ("a \"albert\" model", "albert", unigram(), None),
             ("\"model_type\" is UNIGRAM", "llama", unigram(), {"tokenizer_class": "LlamaTokenizer"}),
             ("\"model_type\" WORD", "llama", proto(llama(), model_type=3).SerializeToString(), None),
             ("\"treat_whitespace_as_suffix\"", "llama", proto(llama(), treat_whitespace_as_suffix=True).SerializeToString(),
              None),
             ("\"escape_whitespaces\" false", "llama", proto(llama(), escape_whitespaces=False).SerializeToString(), None),
             ("tiktoken", "llama", b"IQ== 0\nIg== 1\n", None)]
    for words, kind, model, config in cases:
        with tempfile.TemporaryDirectory() as path:
            folder(path, kind, model, config)
            try:
                Ours(library, path)
                raise AssertionError(words)
            except RuntimeError as error:
                assert words in str(error) and "tokenizer.model" in str(error), (words, str(error))


if __name__ == "__main__":
    common.main(globals())
