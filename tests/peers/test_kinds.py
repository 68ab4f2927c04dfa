"""How far the compute kinds bf16 and q8 deviate from f32 in logits and patterns, beside PyTorch in bfloat16 and
llama.cpp on the same weights and texts. Prints the table of docs/performance.md; a figure may be 1.1 times the peer's."""
import copy
import importlib.util

import common
import numpy as np
import torch
from transformers import AutoTokenizer

import checkpoints as make
from test_parity_real import HARD_PASSAGE, PASSAGE

MARGIN = 1.1
TEXTS = (PASSAGE, HARD_PASSAGE, common.SENTENCE)
PYTORCH, LLAMA = "PyTorch bf16", "llama.cpp"
# By the file's type, the kinds of arithmetic and whom each is held against: bf16 against PyTorch in bfloat16 and, on such
# weights, llama.cpp, which then rounds activations alike; q8 against llama.cpp, which too makes activations 8-bit.
CASES = {"bf16": {"bf16": (PYTORCH, LLAMA)}, "q8_0": {"q8": (LLAMA,), "bf16": (PYTORCH, LLAMA)},
         "q4_1": {"q8": (LLAMA,), "bf16": (PYTORCH, LLAMA)}}


class Distance:
    """Sums over texts: logits as the root of the mean square of the difference by that of the logits, patterns as the
    weight of a row that lies on other keys, meaned over rows and heads, and the largest difference of a weight."""

    def __init__(self):
        self.off = self.size = self.moved = self.rows = self.largest = 0.0

    def add(self, got, want):
        self.off += np.square(got["logits"].astype(np.float64) - want["logits"]).sum()
        self.size += np.square(want["logits"].astype(np.float64)).sum()
        for name in (key for key in want if key.startswith("pattern.")):
            difference = np.abs(got[name].astype(np.float64) - want[name])
            self.moved += difference.sum() / 2
            self.rows += difference.shape[0] * difference.shape[1]
            self.largest = max(self.largest, difference.max())

    @property
    def logits(self):
        return float(np.sqrt(self.off / self.size))

    @property
    def patterns(self):
        return float(self.moved / self.rows)


def by_headscope(path, folder, texts, kind):
    from safetensors.numpy import load_file
    out = folder / "out.safetensors"
    for ids in texts:
        common.headscope("run", "-m", path, "--ids", ",".join(map(str, ids)), "--sites", "pattern,logits", "--compute",
                         kind, "-o", out)
        yield load_file(out)
        out.unlink()


def by_pytorch(model, texts):
    for ids in texts:
        with torch.inference_mode():
            out = model(torch.tensor([ids]), output_attentions=True, use_cache=False)
        patterns = {f"pattern.{i}": pattern[0].float().numpy() for i, pattern in enumerate(out.attentions)}
        yield {"logits": out.logits[0].float().numpy(), **patterns}


def in_bfloat16(model):
    """The rotary frequencies stay float32, as transformers keeps them when it opens a checkpoint in bfloat16."""
    half = copy.deepcopy(model).to(torch.bfloat16)
    half.model.rotary_emb.inv_freq = model.model.rotary_emb.inv_freq.clone()
    return half


def by_llama(path, texts):
    import llama
    engine = llama.Engine(path, 256, torch.get_num_threads())
    yield from map(engine.run, texts)
    engine.close()


def distances(path, folder, texts, kinds):
    """{who: Distance} from PyTorch's float32 on the file's own values, which headscope's f32 equals within rounding
    (test_parity_real.py); transformers reads them from a folder much faster than from GGUF."""
    plain = folder / "plain"
    common.headscope("convert", "-m", path, "--dtype", "f32", "--force", "-o", plain)
    model = make.open_with_transformers(plain)
    exact = list(by_pytorch(model, texts))
    found = {f"headscope {kind}": by_headscope(path, folder, texts, kind) for kind in kinds}
    found[PYTORCH] = by_pytorch(in_bfloat16(model), texts)
    if importlib.util.find_spec("llama_cpp"):
        found[LLAMA] = by_llama(path, texts)
    sums = {who: Distance() for who in found}
    for who, results in found.items():
        for got, want in zip(results, exact, strict=True):
            sums[who].add(got, want)
    return sums


def judge(file, kind, peers, sums):
    """What is past MARGIN times a peer's figure. The largest difference hangs on a single row and is only shown."""
    ours = sums[f"headscope {kind}"]
    for who in (who for who in peers if who in sums):
        for figure in ("logits", "patterns"):
            mine, theirs = getattr(ours, figure), getattr(sums[who], figure)
            if not mine <= MARGIN * theirs:
                yield f"{file} in {kind}: {figure} are {mine:.2e} from f32, {who}'s {theirs:.2e}"


def test_kinds():
    make.use_threads()
    failures, packed = [], common.smollm2()
    tokenizer = AutoTokenizer.from_pretrained(packed.parent, gguf_file=packed.name)
    texts = [tokenizer(text)["input_ids"] for text in TEXTS]
    print(f"{'file':6} {'arithmetic':16} {'logits':>9} {'patterns':>9} {'largest':>9}", flush=True)
    with common.scratch() as folder:
        for file, kinds in CASES.items():
            path = packed
            if file != "q4_1":
                path = folder / f"smollm2-{file}.gguf"
                common.headscope("convert", "-m", packed, "--dtype", file, "-o", path)
            sums = distances(path, folder, texts, kinds)
            for who, d in sums.items():
                print(f"{file.upper():6} {who:16} {d.logits:9.2e} {d.patterns:9.2e} {d.largest:9.2e}", flush=True)
            for kind, peers in kinds.items():
                failures += judge(file, kind, peers, sums)
    assert not failures, "\n  ".join(["", *failures])


if __name__ == "__main__":
    common.main(globals())
