"""WordPiece against the tokenizers package: BERT's vocabulary and MiniLM's from every kind of file, the switches of the
normalizer, pairs, spans and words, decoding, and every single character."""
import json
import pathlib
import random
import shutil
import tempfile

import common
from tokenizers import Tokenizer
from tokenizing import Ours, character, check_single_characters, compare, compare_calls, compare_json, compare_places
from tokenizing import lines, load_library, strings


def bert():
    path = common.require_data("tokenizers", "bert-base-uncased", "tokenizer.json")
    return json.loads(path.read_text(encoding="utf-8"))


def normalizer(**change):
    return {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
            "lowercase": True, **change}


def test_texts():
    library, wrong = load_library(), 0
    path = common.require_data("tokenizers", "bert-base-uncased", "tokenizer.json")
    questions = common.require_data("tokenizer_vectors", "bert", "basic_tokenized_questions.json")
    texts = lines() + [" ".join(words) for words in json.loads(questions.read_text(encoding="utf-8"))]
    ours, theirs = Ours(library, path), Tokenizer.from_file(str(path))
    wrong += compare("bert, every line and question", ours, theirs, texts, add=True, lossless=False)
    wrong += compare("bert, longer parts", ours, theirs, ["\n".join(texts[i:i + 99]) for i in range(0, 20000, 99)],
                     lossless=False)
    ours.close()
    assert wrong == 0


def test_switches_of_the_normalizer():
    library, wrong = load_library(), 0
    changes = [{}, {"lowercase": False}, {"strip_accents": False}, {"strip_accents": True, "lowercase": False},
               {"clean_text": False}, {"handle_chinese_chars": False}, None]
    for change in changes:
        tree = bert()
        tree["normalizer"] = None if change is None else normalizer(**change)
        wrong += compare_json(library, f"bert {change}", tree, add=True, lossless=False)
    for most in (0, 3, 100):
        tree = bert()
        tree["model"].update(max_input_chars_per_word=most, unk_token="[MASK]", type="WordPiece")
        wrong += compare_json(library, f"bert, words of at most {most}", tree, lossless=False)
    assert wrong == 0


def test_every_character():
    library, tree, wrong = load_library(), bert(), 0
    tree["model"]["vocab"] = {"[UNK]": 0, "a": 1, "##a": 2, "[CLS]": 3, "[SEP]": 4, "[PAD]": 5, "[MASK]": 6}
    tree["added_tokens"], tree["post_processor"] = [], None
    for change in ({}, {"strip_accents": True, "lowercase": False}):
        tree["normalizer"] = normalizer(**change)
        wrong += check_single_characters(library, f"bert {change}", tree)
    assert wrong == 0


def test_places_and_pairs():
    library, wrong = load_library(), 0
    rng = random.Random(5)
    roberta = {"type": "RobertaProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101], "trim_offsets": True,
               "add_prefix_space": False}
    odd = {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 3}}], "special_tokens": {
        "[SEP]": {"id": "[SEP]", "ids": [102, 103], "tokens": ["[SEP]", "[MASK]"]}},
        "pair": [{"SpecialToken": {"id": "[SEP]", "type_id": 7}}, {"Sequence": {"id": "B", "type_id": 2}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 1}}, {"Sequence": {"id": "A", "type_id": 5}}]}
    cls_sep = {"type": "BertProcessing", "sep": ["[SEP]", 102], "cls": ["[CLS]", 101]}
    for name, post in {"own": bert()["post_processor"], "Bert": cls_sep, "Roberta": roberta, "odd": odd,
                       "none": None}.items():
        tree = bert()
        tree["post_processor"] = post
        texts = ["".join(character(rng) for _ in range(rng.randrange(0, 20))) for _ in range(300)]
        texts += ["The animal didn't cross the street", "naïve [MASK] Kantō 北京", ""]
        wrong += compare_places(library, f"bert, template {name}", tree, texts, offsets=name != "Roberta")
    assert wrong == 0


def test_decoding():
    library, tree, wrong = load_library(), bert(), 0
    rng = random.Random(3)
    for cleanup in (True, False):
        tree["decoder"]["cleanup"] = cleanup
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            path.write_text(json.dumps(tree), encoding="utf-8")
            ours, theirs, bad = Ours(library, path), Tokenizer.from_file(str(path)), 0
            for _ in range(3000):
                ids = [rng.choice([rng.randrange(30522), rng.randrange(999, 1064), 1005, 1056, 2079, 2025])
                       for _ in range(rng.randrange(0, 9))]
                bad += ours.decode(ids).decode() != theirs.decode(ids, skip_special_tokens=False)
            ours.close()
        print(f"{'decoding, cleanup ' + str(cleanup):46}    3000 texts {bad:6} wrong")
        wrong += bad
    assert wrong == 0


def test_folder_as_transformers():
    """vocab.txt and tokenizer_config.json as AutoTokenizer reads them."""
    from transformers import AutoTokenizer
    library, wrong = load_library(), 0
    source = common.require_data("tokenizers", "bert-base-uncased")
    configs = [None, {"do_lower_case": True}, {"do_lower_case": False}, {"strip_accents": False},
               {"tokenize_chinese_chars": False}, {"do_lower_case": False, "strip_accents": True},
               {"model_max_length": 512, "unk_token": "[MASK]", "cls_token": "[unused1]"}]
    for config in configs:
        with tempfile.TemporaryDirectory() as folder:
            for file in ("vocab.txt", "config.json"):
                shutil.copy(source / file, folder)
            if config is not None:
                (pathlib.Path(folder) / "tokenizer_config.json").write_text(json.dumps(config))
            ours, theirs = Ours(library, folder), AutoTokenizer.from_pretrained(folder)
            texts = strings(str(config)) + ["Kantō [MASK] x", "İstanbul", "", "한국"]
            wrong += compare_calls(f"folder: {config}", ours, theirs, texts)
            ours.close()
    assert wrong == 0


def test_gguf():
    """llama.cpp's file of the same vocabulary."""
    library = load_library()
    path = common.require_data("tokenizers", "llamacpp-vocab", "ggml-vocab-bert-bge.gguf")
    theirs = Tokenizer.from_file(str(common.require_data("tokenizers", "bert-base-uncased", "tokenizer.json")))
    ours = Ours(library, path)
    wrong = compare("bert from GGUF", ours, theirs, strings(1) + lines()[::7], add=True, parse=True, lossless=False)
    ours.close()
    assert wrong == 0


if __name__ == "__main__":
    common.main(globals())
