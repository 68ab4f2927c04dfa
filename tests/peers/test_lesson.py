"""The lesson's question, asked of transformers and of `headscope look`: the same thirteen lines, byte for byte.

The checkpoint has GPT-2's shape (12 layers, 12 heads, 768 dimensions, 50257 tokens) and random weights with scores far
from uniform; its tokenizer is GPT-2's own.
"""
import shutil

import common
import torch
from transformers import AutoModel, AutoTokenizer

import checkpoints as make
import reference

CONFIG = make.configuration(make.GPT2, vocab_size=50257, n_positions=1024, n_embd=768, n_layer=12, n_head=12,
                            bos_token_id=50256, eos_token_id=50256)
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "merges.txt")


def write_checkpoint(folder, tokenizer, seed=12):
    """A GPT-2 of the real size with GPT-2's tokenizer in `folder`; its scores are made to spread on the sentence."""
    tensors = make.gpt2_tensors(CONFIG, seed)
    shutil.copytree(tokenizer, folder, ignore=lambda _, names: [n for n in names if n not in TOKENIZER_FILES])
    ids = AutoTokenizer.from_pretrained(folder)(common.SENTENCE)["input_ids"]
    make.calibrate(folder, CONFIG, tensors, ids, seed)
    make.write_folder(folder, CONFIG, tensors)
    return folder


def thirteen_lines(folder, sentence, word=" it", layer=5):
    """What the lesson prints, by transformers."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    encoded = tokenizer(sentence, return_tensors="pt")
    with torch.no_grad():
        patterns = model(**encoded, output_attentions=True).attentions
    texts = tokenizer.batch_decode(encoded["input_ids"][0].unsqueeze(1))
    at = texts.index(word)
    lines = [f"{len(patterns)} layers; {patterns[0].shape[1]} heads per layer"]
    for head, pattern in enumerate(patterns[layer - 1][0]):
        weight, key = pattern[at, 1 : at + 1].max(0)
        lines.append(f"head {head:2d}: {word!r} attends most to {texts[1 + int(key)]!r:12} ({weight.item():.2f})")
    return "".join(line + "\n" for line in lines)


def test_thirteen_lines():
    tokenizer = common.require_data("tokenizers", "gpt2")
    make.use_threads()
    with common.scratch() as scratch:
        folder = write_checkpoint(scratch / "gpt2", tokenizer)
        ids = AutoTokenizer.from_pretrained(folder)(common.SENTENCE)["input_ids"]
        f32, f64 = reference.both(make.open_with_transformers(folder), ids)
        print("scores spread {:.2f} to {:.2f}".format(*make.assert_spread(f32)))
        for layer in (1, 5, 12):
            want = thirteen_lines(folder, common.SENTENCE, layer=layer)
            if layer == 5:
                print(want, end="")
            got = common.headscope("look", "-m", folder, common.SENTENCE, "--layer", layer, "--token", " it").stdout
            assert got == want.encode(), f"layer {layer}: headscope printed\n{got.decode(errors='replace')}"
        report = common.Report()
        got = report.run("gpt2-124M", folder, scratch, f32, f64, text=common.SENTENCE)
        assert got["ids"].tolist() == ids
        report.finish()


if __name__ == "__main__":
    common.main(globals())
