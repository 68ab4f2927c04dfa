"""Interventions on encoder-decoders against transformers with hooks, on random T5, BART and Marian: every head, attention
and MLP of the encoder, the decoder and cross-attention ablated in turn; means over a corpus of pairs and other texts'
activations put in. A figure may differ by BAR."""
import itertools
import json

import common
import torch

import checkpoints as make
import encdec
import families
import test_parity_encdec as parity

BAR = 1e-4  # logits and nats
SIDES = ("encoder", "decoder", "cross")
SOURCE, TARGET = ">>fra<< It was too wide for them.", "Das Tier ging nicht"
CORPUS = ["The animal is tired.\tDas Tier ist alt", "A street was wide.\tUne rue", "Who sold it?\tQui le sait donc"]


class Hooks:
    """Changes or keeps what some modules put out, or read. what: (rows of one text [n][d]) -> rows or None."""

    def __init__(self, model):
        self.model, self.handles = model, []

    def output(self, module, change):
        def hook(_, __, out):
            new = change(out[0])
            return None if new is None else new[None]
        self.handles.append(self.model.get_submodule(module).register_forward_hook(hook))

    def input(self, module, change):
        def hook(_, args):
            new = change(args[0][0])
            return None if new is None else (new[None],)
        self.handles.append(self.model.get_submodule(module).register_forward_pre_hook(hook))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for handle in self.handles:
            handle.remove()


def place(model, side, site, layer):
    """(how to hook, module, width of a head) of z, attn_out, mlp_out or mlp_post on a side."""
    names, (_, _, d) = families.stack_of(model.config, "encoder" if side == "encoder" else "decoder"), encdec.sizes_of(
        model.config, "encoder" if side == "encoder" else "decoder")
    at = (names.cross if side == "cross" else names.attention).format(i=layer)
    return {"z": ("input", f"{at}.{names.o}", d), "attn_out": ("output", f"{at}.{names.o}", None),
            "mlp_out": ("output", names.w_out.format(i=layer), None),
            "mlp_post": ("input", names.w_out.format(i=layer), 1)}[site]


def plain_site(unit):
    return unit["site"].removeprefix("enc_").removeprefix("cross_")


def put_in(unit, width, fill):
    """The rows with a unit's part exchanged: for zeros, or for rows of fill [n or 1][row]."""
    def change(rows):
        rows = rows.clone()
        index = unit.get("head", unit.get("neuron"))
        part = slice(None) if index is None else slice(index * width, (index + 1) * width)
        rows[:, part] = 0 if fill is None else fill[unit["layer"]][: len(rows), part]
        return rows
    return change


def logits(model, source, target):
    with torch.no_grad():
        return model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target])).logits[0].double()


def loss(model, source, target):
    table = torch.log_softmax(logits(model, source, target[:-1]), -1)
    return -float(table[range(len(target) - 1), target[1:]].mean())


def ask(path, *words):
    return json.loads(common.headscope("ablate", "-m", path, "--json", "--no-controls", *words).stdout)


def check(name, model, side, got, measure, fill=None):
    """Every target of an ablation against the same by hooks. fill: {site: [layers] of rows}."""
    worst, moved, clean = abs(got["clean"] - measure()), 0, measure()
    for target in got["targets"]:
        with Hooks(model) as hooks:
            for unit in target["ablated"]:
                how, module, width = place(model, side, plain_site(unit), unit["layer"])
                getattr(hooks, how)(module, put_in(unit, width, fill and fill[plain_site(unit)]))
            want = measure()
        worst, moved = max(worst, abs(target["value"] - want)), moved + (abs(want - clean) > 1e-3)
    assert worst < BAR, f"{name} {side}: {worst} away"
    assert moved > len(got["targets"]) / 2, f"{name} {side}: {moved} of {len(got['targets'])} ablations do anything"
    return len(got["targets"]), worst


def test_zero():
    for seed, base in enumerate((parity.T5, parity.BART, parity.MARIAN), start=1100):
        config = make.configuration(base, **({"num_decoder_layers": 2} if base is parity.T5 else parity.UNEVEN))
        with common.scratch() as folder:
            source, target = parity.ids_of(config, 17, seed), parity.ids_of(config, 11, seed + 1)
            model = encdec.make_model(config, seed)
            encdec.calibrate(model, source, target, seed)
            path = encdec.save(model, folder / base["model_type"], config)
            model, ids = encdec.load(path), ["--ids", ",".join(map(str, source)), "--target-ids", ",".join(map(str, target))]
            for side in SIDES:
                n, worst = 0, 0
                for sweep in ("heads", "attn", "mlp", "layers"):
                    for metric, measure in (("loss", lambda: loss(model, source, target)), ("logit: #5 - #9", lambda: float(
                            logits(model, source, target)[-1] @ torch.eye(config["vocab_size"], dtype=torch.float64)[5]
                            - logits(model, source, target)[-1, 9]))):
                        got = ask(path, "--side", side, "--sweep", sweep, "--metric", metric, *ids)
                        more, off = check(path.name, model, side, got, measure)
                        n, worst = n + more, max(worst, off)
                print(f"{path.name} {side}: {n} ablations within {worst:.1e}", flush=True)


def patched(rows, held, index, width):
    """A head's part of every row, or one whole row, from the other run."""
    rows = rows.clone()
    part = (slice(None), slice(index * width, (index + 1) * width)) if width else index
    rows[part] = held[part]
    return rows


def test_patch():
    """What one source's run holds put into another's, head by head and position by position."""
    prefix = {"encoder": "enc_", "decoder": "", "cross": "cross_"}
    for seed, base in enumerate((parity.T5, parity.BART, parity.MARIAN), start=1120):
        config = make.configuration(base, **({"num_decoder_layers": 2} if base is parity.T5 else parity.UNEVEN))
        with common.scratch() as folder:
            clean, target = parity.ids_of(config, 9, seed), parity.ids_of(config, 6, seed + 1)
            other = clean[:4] + [(clean[4] + 7) % 90 + 1] + clean[5:]
            model = encdec.make_model(config, seed)
            encdec.calibrate(model, clean, target, seed)
            path = encdec.save(model, folder / base["model_type"], config)
            model = encdec.load(path)
            def measure(source):
                row = logits(model, source, target)[-1]
                return float(row[5] - row[9])
            words = ["--json", "--metric", "logit: #5 - #9", "--ids", ",".join(map(str, clean)), "--corrupted-ids",
                     ",".join(map(str, other)), "--target-ids", ",".join(map(str, target))]
            n, worst = 0, 0
            for side in SIDES:
                for site in ("z", "attn_out", "mlp_out")[: 2 if side == "cross" else 3]:
                    got = json.loads(common.headscope("patch", "-m", path, "--site", prefix[side] + site, *words).stdout)
                    span = measure(clean) - measure(other)
                    assert abs(got["clean"] - measure(clean)) < BAR and abs(got["corrupted"] - measure(other)) < BAR
                    for layer, cells in enumerate(got["cells"]):
                        how, module, width = place(model, side, site, layer)
                        held = {}
                        with Hooks(model) as hooks:
                            getattr(hooks, how)(module, lambda rows: held.__setitem__(0, rows))
                            measure(clean)
                        for index, cell in enumerate(cells):
                            with Hooks(model) as hooks:
                                getattr(hooks, how)(module, lambda rows: patched(rows, held[0], index, width))
                                want = (measure(other) - got["corrupted"]) / span
                            worst, n = max(worst, abs(cell - want) * abs(span)), n + (abs(want) > 1e-3)
            assert worst < BAR and n > 40, (path.name, worst, n)
            print(f"{path.name}: patches within {worst:.1e}, {n} of them move the logits", flush=True)


def kept(model, tokenizer, side, line):
    """{site: [layers] of rows} of the text of a line."""
    source, target = line.split("\t")
    start = model.config.decoder_start_token_id
    read, written = tokenizer(source)["input_ids"], [start, *tokenizer(text_target=target)["input_ids"][:-1]]
    n_layers, out = encdec.sizes_of(model.config, "encoder" if side == "encoder" else "decoder")[0], {}
    with Hooks(model) as hooks:
        for site in ("z", "attn_out", "mlp_out"):
            out[site] = [None] * n_layers
            for layer in range(n_layers):
                how, module, _ = place(model, side, site, layer)
                getattr(hooks, how)(module, lambda rows, site=site, layer=layer: out[site].__setitem__(layer, rows))
        logits(model, read, written)
    return out


def shuffled(text, count):
    """The words of a text in another order that has as many tokens."""
    for words in itertools.permutations(text.split(" ")):
        other = " ".join(words)
        if other != text and count(other) == count(text):
            return other
    raise AssertionError(f"no order of '{text}' has as many tokens")


def test_fills():
    """Means over a corpus of pairs (position 0 of each left out), and what other texts hold at each position."""
    for seed, (base, words) in enumerate(parity.WORDS, start=1110):
        with common.scratch() as folder:
            path, model, tokenizer = parity.with_words(folder, base, words, seed)
            (folder / "corpus.txt").write_text("\n".join(CORPUS) + "\n")
            read, labels = tokenizer(SOURCE)["input_ids"], tokenizer(text_target=TARGET)["input_ids"]
            target = [model.config.decoder_start_token_id, *labels]
            text = ["--metric", "loss", SOURCE, "--target", TARGET]
            for side in SIDES:
                rows = [kept(model, tokenizer, side, line) for line in CORPUS]
                mean = {site: [torch.cat([r[site][layer][1:] for r in rows]).double().mean(0, keepdim=True).float()
                               for layer in range(len(rows[0][site]))] for site in rows[0]}
                for sweep in ("heads", "layers"):
                    got = ask(path, "--side", side, "--sweep", sweep, "--how", "mean", "--corpus", folder / "corpus.txt", *text)
                    n, worst = check(f"{path.name} mean", model, side, got, lambda: loss(model, read, target), mean)
                donor = "\t".join((shuffled(SOURCE, lambda t: len(tokenizer(t)["input_ids"])),
                                   shuffled(TARGET, lambda t: len(tokenizer(text_target=t)["input_ids"]))))
                got = ask(path, "--side", side, "--sweep", "layers", "--how", "resample", "--donor", donor, *text)
                _, off = check(f"{path.name} donor", model, side, got, lambda: loss(model, read, target),
                               kept(model, tokenizer, side, donor))
                print(f"{path.name} {side}: {n} means put in within {worst:.1e}, a donor's within {off:.1e}", flush=True)


def first_word(tokenizer, prompt, word, start):
    """The token that a target so far goes on with."""
    before = [start, *tokenizer(text_target=prompt)["input_ids"][:-1]]
    after = [start, *tokenizer(text_target=f"{prompt} {word}".strip())["input_ids"][:-1]]
    assert after[: len(before)] == before, (prompt, word)
    return before, after[len(before)]


def test_pairs():
    """A pair file of sources and targets: the answers' first tokens, every ablation, and what a twin holds put in."""
    for seed, (base, words) in enumerate(parity.WORDS, start=1130):
        with common.scratch() as folder:
            path, model, tokenizer = parity.with_words(folder, base, words, seed)
            start = model.config.decoder_start_token_id
            asked = [(">>fra<< It was too wide for them.", "Das Tier", "ging", "nicht"),
                     (">>fra<< It was too late for them.", "Das Tier", "nicht", "ging"), ("Who sold it?", "", "ging", "nicht")]
            lines = [{"id": f"p-{i}", "source": source, "prompt": prompt, "right": right, "wrong": wrong}
                     for i, (source, prompt, right, wrong) in enumerate(asked)]
            lines[0]["twin"], lines[1]["twin"] = "p-1", "p-0"
            (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
            texts = []
            for source, prompt, right, wrong in asked:
                (target, a), (_, b) = (first_word(tokenizer, prompt, word, start) for word in (right, wrong))
                texts.append((tokenizer(source)["input_ids"], target, a, b))
            def lead(source, target, a, b):
                row = logits(model, source, target)[-1]
                return float(row[a] - row[b])
            for side in SIDES:
                def means(which):
                    return sum(lead(*texts[i]) for i in which) / len(which)
                got = ask(path, "--side", side, "--pairs", folder / "pairs.jsonl")
                assert got["n_texts"] == 3 and not got["skipped"], got["skipped"]
                def over_clusters():  # ids that differ behind the last '-' are one cluster
                    return means([0, 1, 2])
                n, worst = check(path.name, model, side, got, over_clusters)
                print(f"{path.name} {side}: {n} ablations over pairs within {worst:.1e}", flush=True)
            rows = [len(texts[i][0]) for i in (0, 1)]
            if rows[0] == rows[1]:
                got = ask(path, "--side", "encoder", "--pairs", folder / "pairs.jsonl", "--how", "resample")
                assert got["n_texts"] == 2
                held = [kept(model, tokenizer, "encoder", f"{asked[i][0]}\t{asked[i][1]}") for i in (0, 1)]
                worst = 0
                for target in got["targets"]:
                    want = 0
                    for i in (0, 1):
                        with Hooks(model) as hooks:
                            for unit in target["ablated"]:
                                how, module, width = place(model, "encoder", plain_site(unit), unit["layer"])
                                getattr(hooks, how)(module, put_in(unit, width, held[1 - i][plain_site(unit)]))
                            want += lead(*texts[i]) / 2
                    worst = max(worst, abs(target["value"] - want))
                print(f"{path.name}: what twins hold put in within {worst:.1e}", flush=True)
                assert worst < BAR


def test_steer():
    """The mean difference of two sets of pairs added to the stream, in the decoder and in the encoder."""
    toward, away = CORPUS[:2], CORPUS[2:]
    for seed, (base, words) in enumerate(parity.WORDS, start=1140):
        with common.scratch() as folder:
            path, model, tokenizer = parity.with_words(folder, base, words, seed)
            read, labels = tokenizer(SOURCE)["input_ids"], tokenizer(text_target=TARGET)["input_ids"]
            target = [model.config.decoder_start_token_id, *labels]
            for side in ("decoder", "encoder"):
                names, (n_layers, _, _) = families.stack_of(model.config, side), encdec.sizes_of(model.config, side)
                for name, lines in (("toward", toward), ("away", away)):
                    cut = [line.split("\t")[0] if side == "encoder" else line for line in lines]
                    (folder / name).write_text("\n".join(cut) + "\n")
                got = json.loads(common.headscope("steer", "-m", path, "--json", "--toward", folder / "toward", "--away",
                    folder / "away", "--side", side, "--site", "mlp_out", "--metric", "loss", "--no-controls",
                    "--dose=-1,2", SOURCE, "--target", TARGET).stdout)
                mean = {}
                for name, lines in (("toward", toward), ("away", away)):
                    rows = [kept(model, tokenizer, side, line)["mlp_out"] for line in lines]
                    mean[name] = [torch.cat([r[layer][1:] for r in rows]).double().mean(0) for layer in range(n_layers)]
                worst, moved, clean = abs(got["clean"] - loss(model, read, target)), 0, loss(model, read, target)
                for point in got["points"]:
                    layer = point["layer"]
                    add = (point["dose"] * (mean["toward"][layer] - mean["away"][layer])).float()
                    def steered(rows, add=add):
                        rows = rows.clone()
                        rows[1:] += add
                        return rows
                    with Hooks(model) as hooks:
                        hooks.output(names.w_out.format(i=layer), steered)
                        want = loss(model, read, target)
                    worst, moved = max(worst, abs(point["value"] - want)), moved + (abs(want - clean) > 1e-3)
                assert worst < BAR and moved > n_layers, (path.name, side, worst, moved)
                print(f"{path.name} {side}: {len(got['points'])} doses within {worst:.1e}", flush=True)


if __name__ == "__main__":
    common.main(globals())
