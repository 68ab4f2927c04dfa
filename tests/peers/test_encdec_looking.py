"""Encoder-decoders: what `look --vs` says that heads did between two sources or two targets, and the logit lens of the
decoder, against transformers on random T5, BART and Marian."""
import json

import common
import torch

import checkpoints as make
import encdec
import families
import test_parity_encdec as parity

BAR = 1e-4  # logits, nats; shares of attention
SIDES = {"cross": ("cross_attentions", "source"), "decoder": ("decoder_attentions", "target"),
         "encoder": ("encoder_attentions", "source")}
V11 = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
BASES = ((parity.T5, {"num_decoder_layers": 2}), (parity.T5, V11), (parity.BART, parity.UNEVEN), (parity.MARIAN, parity.UNEVEN))


def models():
    """(path, model, source, target) of every family; T5 with its scaled and its own output matrix."""
    for seed, (base, changes) in enumerate(BASES, start=1200):
        config = make.configuration(base, **changes)
        with common.scratch() as folder:
            source, target = parity.ids_of(config, 17, seed), parity.ids_of(config, 11, seed + 1)
            model = encdec.make_model(config, seed)
            encdec.calibrate(model, source, target, seed)
            path = encdec.save(model, folder / base["model_type"], config)
            yield path, encdec.load(path), source, target


def ask(command, path, *words):
    return json.loads(common.headscope(command, "-m", path, "--json", *words).stdout)


def listed(ids):
    return ",".join(map(str, ids))


def other(ids, at):
    return ids[:at] + [(ids[at] + 7) % 90 + 1] + ids[at + 1:]


def matched(first, second):
    """{position in the first: in the second} from both ends, and one to one where the texts are as long."""
    if len(first) == len(second):
        return {i: i for i in range(len(first))}
    least, before, after = min(len(first), len(second)), 0, 0
    while before < least and first[before] == second[before]:
        before += 1
    while after < least - before and first[-1 - after] == second[-1 - after]:
        after += 1
    return {**{i: i for i in range(before)}, **{len(first) - 1 - i: len(second) - 1 - i for i in range(after)}}


def moves(first, second, pairs):
    """{(layer, head): share of the weight that went elsewhere} of rows [n_layers][n_heads][n_keys]."""
    out = {}
    for layer, (a, b) in enumerate(zip(first, second)):
        for head in range(len(a)):
            kept = sum(abs(float(a[head, i]) - float(b[head, k])) for i, k in pairs.items())
            gone = sum(float(a[head, i]) for i in range(a.shape[1]) if i not in pairs)
            come = sum(float(b[head, k]) for k in range(b.shape[1]) if k not in pairs.values())
            out[layer, head] = (kept + gone + come) / 2
    return out


def test_versus():
    for path, model, source, target in models():
        cases = (("source", other(source, 5), target), ("longer", source[:6] + [3, 4] + source[6:], target),
                 ("target", source, other(target, 4)), ("both", other(source, 5), other(target, 4)))
        for side, (name, kind) in SIDES.items():
            n, worst = 0, 0
            for what, source2, target2 in cases:
                if side == "encoder" and source2 == source:
                    continue
                texts = ((source, target), (source2, target2))
                with torch.no_grad():
                    ran = [model(input_ids=torch.tensor([s]), decoder_input_ids=torch.tensor([t]), output_attentions=True)
                           for s, t in texts]
                patterns = [[layer[0] for layer in getattr(out, name)] for out in ran]
                for pos in ((1, 2) if side == "encoder" else (4, 7)):
                    rows = [[layer[:, pos] for layer in pattern] for pattern in patterns]
                    keys = [text[kind == "target"] for text in texts]
                    want = moves(*rows, matched(*keys))
                    words = ["--ids", listed(source), "--side", side, "--pos", pos, "--top", 1000]
                    words += [] if side == "encoder" else ["--target-ids", listed(target)]
                    words += [] if source2 == source else ["--vs", listed(source2)]
                    words += [] if side == "encoder" or target2 == target else ["--vs-target", listed(target2)]
                    got = {(h["layer"], h["head"]): h["moved"] for h in ask("look", path, *words)["heads"]}
                    for head, moved in want.items():
                        n, worst = n + (moved > 0.01), max(worst, abs(moved - got.get(head, 0)))
            assert worst < BAR and n > 10, (path.name, side, worst, n)
            print(f"{path.name} {side}: {n} moved heads within {worst:.1e}", flush=True)


def lens_of(model, source, target):
    """[stages][positions][words]: the logits of the stream before every layer of the decoder and after the last."""
    out, post = [], model.config.model_type != "t5"
    names, last = families.stack_of(model.config, "decoder"), encdec.sizes_of(model.config, "decoder")[0] - 1
    sites = encdec.activations(model, source, target)
    stream = [sites[f"resid_pre.{i}"] for i in range(last + 1)] + [sites[f"ln2.{last}" if post else f"resid_post.{last}"]]
    with torch.no_grad():
        for rows in map(torch.tensor, stream):
            if not post:
                rows = model.get_submodule(names.ln_final)(rows)
                if model.config.scale_decoder_outputs:
                    rows = rows * model.config.d_model ** -0.5
            bias = getattr(model, "final_logits_bias", None)
            out.append(rows @ model.lm_head.weight.T + (0 if bias is None else bias[0]))
    return torch.stack(out).double()


def test_lens():
    for path, model, source, target in models():
        want = lens_of(model, source, target)
        with torch.no_grad():
            end = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0]
        assert (want[-1] - end).abs().max() < BAR, "the last stage is what the model says"
        logs = torch.log_softmax(want, -1)
        kl = (logs[-1:].exp() * (logs[-1:] - logs)).sum(-1)
        got = ask("lens", path, "--ids", listed(source), "--target-ids", listed(target), "--word", "#3", "--word", "#41",
                  "--top", 1)
        assert [token["id"] for token in got["source"]] == source and [token["id"] for token in got["tokens"]] == target
        worst = 0
        for stage, row in enumerate(got["stages"]):
            for pos, cell in enumerate(row):
                off = [abs(w["logit"] - float(want[stage, pos, w["id"]])) for w in cell["words"]]
                off += [abs(w["p"] - float(logs[stage, pos, w["id"]].exp())) for w in cell["words"]]
                off += [abs(cell["kl"] - float(kl[stage, pos])), abs(cell["top"][0]["logit"] - float(want[stage, pos].max()))]
                if pos + 1 < len(target):
                    off.append(abs(cell["loss"] + float(logs[stage, pos, target[pos + 1]])))
                worst = max(worst, *off)
        assert len(got["stages"]) == len(want) and worst < BAR, (path.name, worst)
        assert kl[:-1].min() > 0.01, "no stage says already what the model ends with"
        print(f"{path.name}: lens of {len(want)} stages within {worst:.1e}", flush=True)


if __name__ == "__main__":
    common.main(globals())
