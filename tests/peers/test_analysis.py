"""Lens, attribution, circuits and composition against TransformerLens, on random GPT-2 and Llama checkpoints that both
read. Layer norms are folded there (fold_ln) and the rest of its processing is off. A figure may differ by BAR."""
import common
import numpy as np
import torch

import checkpoints as make
from test_interventions import ask, bare, clean, compare, lens

FAMILIES = ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors))


def each(seed):
    """name, model folder, HookedTransformer with folded norms, ids."""
    for base, build in FAMILIES:
        with common.scratch() as folder:
            config, path, ids = bare(folder, base, build, seed)
            yield config["model_type"], path, lens(config, path, fold_ln=True), ids


def given(path, ids):
    return ["-m", path, "--ids", ",".join(map(str, ids))]


def test_lens():
    for name, path, model, ids in each(11):
        cache = clean(model, ids)[1]
        with torch.no_grad():
            stream, labels = cache.accumulated_resid(layer=-1, incl_mid=False, return_labels=True)
            logits = model.unembed(model.ln_final(stream[:, 0])).double()
        got = ask("lens", *given(path, ids), "--word", "#3", "--word", "#41", "--top", "1")["stages"]
        assert len(labels) == len(got)
        p, last = torch.log_softmax(logits, -1), torch.log_softmax(logits[-1], -1)
        compare(f"{name}: lens, logits of two words", [[[w["logit"] for w in c["words"]] for c in row] for row in got],
                logits[..., [3, 41]])
        compare(f"{name}: lens, divergence", [[c["kl"] for c in row] for row in got],
                (last.exp() * (last - p)).sum(-1))
        compare(f"{name}: lens, largest logit", [[c["top"][0]["logit"] for c in row] for row in got],
                logits.max(-1).values)


if __name__ == "__main__":
    common.main(globals())
