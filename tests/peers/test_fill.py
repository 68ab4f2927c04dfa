"""Masked words against the fill-mask pipeline of transformers: random checkpoints of every family with such a head."""
import json

import common
from transformers import PreTrainedTokenizerFast, pipeline

import checkpoints as make

TOP = 7
TEXTS = ("w20 {} w31", "{}", "{} w40 {} {} w17 w90 {}", "w9 " * 30 + "{} w11")
FAMILIES = {"bert": (make.BERT, {}, "[MASK]"), "roberta": (make.ROBERTA, {}, "<mask>"), "distilbert": (make.DISTILBERT, {}, "[MASK]"),
            "modernbert": (make.MODERNBERT, {}, "[MASK]"), "bert-untied": (make.BERT, {"tie_word_embeddings": False}, "[MASK]"),
            "bert-relu": (make.BERT, {"hidden_act": "relu"}, "[MASK]")}


def write_tokenizer(folder, mask):
    """97 tokens: four special ones, the mask as token 4, and words. Texts stand between tokens 2 and 3."""
    special = ["<pad>", "<unk>", "<s>", "</s>", mask]
    vocab = {word: i for i, word in enumerate(special + [f"w{i}" for i in range(5, 97)])}
    added = [{"id": i, "content": word, "single_word": False, "lstrip": word == "<mask>", "rstrip": False, "normalized": False,
              "special": True} for i, word in enumerate(special)]
    ends = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
    template = {"type": "TemplateProcessing", "single": ends, "pair": ends + [{"Sequence": {"id": "B", "type_id": 0}}],
                "special_tokens": {w: {"id": w, "ids": [i], "tokens": [w]} for i, w in ((2, "<s>"), (3, "</s>"))}}
    data = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
            "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": template, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": False},
            "model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": vocab}}
    (folder / "tokenizer.json").write_text(json.dumps(data))
    return PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), mask_token=mask, pad_token="<pad>", unk_token="<unk>")


def judge(name, folder, fill, text):
    want = fill(text, top_k=TOP)
    if isinstance(want[0], dict):
        want = [want]
    data = json.loads(common.headscope("fill", "-m", folder, "--json", "-k", TOP, text).stdout)
    assert len(data["masks"]) == len(want), f"{name}: {len(data['masks'])} masks of {len(want)}"
    worst = 0.0
    for mask, guesses in zip(data["masks"], want):
        got = mask["candidates"]
        assert [g["id"] for g in got] == [g["token"] for g in guesses], f"{name} '{text}': other tokens at position {mask['pos']}"
        worst = max(worst, *(abs(a["probability"] / b["score"] - 1) for a, b in zip(got, guesses)))
    return worst


def test_families():
    with common.scratch() as scratch:
        for seed, (name, (base, changes, mask)) in enumerate(FAMILIES.items()):
            config = make.configuration(base, **changes)
            folder = make.write_folder(scratch / name, config, make.tensors_of(config, 40 + seed))
            tokenizer = write_tokenizer(folder, mask)
            fill = pipeline("fill-mask", model=make.open_with_transformers(folder), tokenizer=tokenizer, device="cpu")
            worst = max(judge(name, folder, fill, text.replace("{}", mask)) for text in TEXTS)
            # Logits of random checkpoints reach 10 or so, and a row may be 2e-5 of that away.
            assert worst < 2e-4, f"{name}: a probability is {worst:.1e} of itself away"
            print(f"{name:12} {len(TEXTS)} texts, {TOP} candidates each: probabilities within {worst:.1e} of themselves", flush=True)


if __name__ == "__main__":
    common.main(globals())
