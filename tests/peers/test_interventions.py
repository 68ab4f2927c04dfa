"""Interventions against TransformerLens, on random GPT-2 and Llama checkpoints that both read: every head, attention and
MLP ablated in turn (zero, mean, resampled), sets of heads, losses by position. All of TransformerLens's processing is
off. A figure may differ by BAR."""
import json
import shutil

import common
import numpy as np
import torch

import checkpoints as make

BAR = 1e-4  # logits and nats
TEXT = "When Mary and John went to the store, John gave a drink to"
DONOR = "When Lucy and Paul went to the farm, Paul gave a flower to"
CORPUS = ["The animal is tired because it ran.", "A street was too wide for them.", "Who sold the old house to Ann?"]


def lens(config, folder, **processing):
    """The checkpoint as a HookedTransformer."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained import weight_conversions as convert
    gpt2 = config["model_type"] == "gpt2"
    n_heads = config["n_head"] if gpt2 else config["num_attention_heads"]
    d = config["n_embd"] if gpt2 else config["hidden_size"]
    shape = {"n_layers": config["n_layer"] if gpt2 else config["num_hidden_layers"], "n_heads": n_heads, "d_model": d,
             "d_head": d // n_heads, "n_ctx": config["n_positions"] if gpt2 else config["max_position_embeddings"],
             "d_vocab": config["vocab_size"], "eps": 1e-5, "original_architecture": config["architectures"][0]}
    if gpt2:
        shape |= {"d_mlp": 4 * d, "act_fn": "gelu_new", "normalization_type": "LN"}
    else:
        shape |= {"d_mlp": config["intermediate_size"], "act_fn": "silu", "normalization_type": "RMS", "gated_mlp": True,
                  "n_key_value_heads": config["num_key_value_heads"], "positional_embedding_type": "rotary",
                  "rotary_dim": d // n_heads, "rotary_base": config["rope_theta"], "rotary_adjacent_pairs": False,
                  "final_rms": True}
    model = HookedTransformer(HookedTransformerConfig(**shape, device="cpu", default_prepend_bos=False))
    convert_weights = convert.convert_gpt2_weights if gpt2 else convert.convert_llama_weights
    weights = convert_weights(make.open_with_transformers(folder), model.cfg)
    off = {"fold_ln": False, "center_writing_weights": False, "center_unembed": False, "fold_value_biases": False}
    model.load_and_process_state_dict(weights, **{**off, **processing})
    return model.eval()


def with_tokenizer(folder, seed):
    """A random GPT-2 with GPT-2's tokenizer."""
    config = make.configuration(make.GPT2, vocab_size=50257)
    path = make.write_folder(folder / "gpt2", config, make.gpt2_tensors(config, seed))
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        source = common.require_data("tokenizers", "gpt2") / name
        if source.exists():
            shutil.copy(source, path)
    return config, path


def bare(folder, base, build, seed):
    config = make.configuration(base)
    tensors = build(config, seed)
    ids = make.token_ids(config["vocab_size"], 20, seed)
    make.calibrate(folder / "work", config, tensors, ids, seed)
    return config, make.write_folder(folder / config["model_type"], config, tensors), ids


def ask(*words):
    return json.loads(common.headscope(*words, "--json").stdout)



def ids_of(path, text):
    from tokenizers import Tokenizer
    return Tokenizer.from_file(str(path / "tokenizer.json")).encode(text).ids


def hooked(model, ids, hooks):
    with torch.no_grad():
        return model.run_with_hooks(torch.tensor([ids]), fwd_hooks=hooks, prepend_bos=False)[0].double()


def clean(model, ids):
    with torch.no_grad():
        logits, cache = model.run_with_cache(torch.tensor([ids]), prepend_bos=False)
    return logits[0].double(), cache


def head_hook(layer, head, value):
    """z of the head becomes value, which broadcasts over [n_pos][d_head]."""
    def hook(z, hook):
        z[0, :, head] = value
        return z
    return f"blocks.{layer}.attn.hook_z", hook


def site_hook(layer, site, value):
    def hook(x, hook):
        x[:] = value
        return x
    return f"blocks.{layer}.hook_{site}", hook


def neuron_hook(layer, neuron):
    def hook(x, hook):
        x[..., neuron] = 0
        return x
    return f"blocks.{layer}.mlp.hook_post", hook


def difference(logits, a, b):
    return float(logits[-1, a] - logits[-1, b])


def losses(logits, ids):
    return -torch.log_softmax(logits[:-1], -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]


def compare(name, got, want):
    got, want = np.array(got), np.array(want)
    off = float(np.abs(got - want).max())
    spread = float(np.ptp(want)) if len(want) > 1 else 1.0
    print(f"  {name:<44} {want.size:4} figures, off by {off:.1e} at most, spread {spread:.2f}")
    assert spread > 0.01, f"{name}: the figures hardly differ, this tests nothing"
    assert off <= BAR, f"{name}: {off} is over {BAR}"


def values(answer, kind="each"):
    return [target["value"] for target in answer["targets"] if target["kind"] == kind]


def sweep(model, ids, a, b, value_of):
    return [difference(hooked(model, ids, [head_hook(i, h, value_of(i, h))]), a, b)
            for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]


def test_zero():
    for base, build in ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors)):
        with common.scratch() as folder:
            config, path, ids = bare(folder, base, build, 5)
            model, given = lens(config, path), ["-m", path, "--ids", ",".join(map(str, ids))]
            name, metric = config["model_type"], ["--metric", "logit: #3 - #5"]
            got = ask("ablate", *given, *metric)
            compare(f"{name}: as it is", [got["clean"], 0], [difference(clean(model, ids)[0], 3, 5), 0])
            compare(f"{name}: every head zeroed", values(got), sweep(model, ids, 3, 5, lambda i, h: 0))
            for site in ("attn", "mlp"):
                want = [difference(hooked(model, ids, [site_hook(i, site + "_out", 0)]), 3, 5)
                        for i in range(model.cfg.n_layers)]
                compare(f"{name}: every {site} zeroed", values(ask("ablate", *given, *metric, "--sweep", site)), want)
            want = [difference(hooked(model, ids, [site_hook(i, "attn_out", 0), site_hook(i, "mlp_out", 0)]), 3, 5)
                    for i in range(model.cfg.n_layers)]
            compare(f"{name}: every layer zeroed", values(ask("ablate", *given, *metric, "--sweep", "layers")), want)
            want = [difference(hooked(model, ids, [neuron_hook(1, n)]), 3, 5) for n in range(model.cfg.d_mlp)]
            compare(f"{name}: every neuron of L1 zeroed",
                    values(ask("ablate", *given, *metric, "--sweep", "neurons", "--layer", "L1")), want)
            got = ask("ablate", *given, "--metric", "loss", "--heads", "L0H1,L1H2,L1H3", "--per-token")
            after = losses(hooked(model, ids, [head_hook(*at, 0) for at in ((0, 1), (1, 2), (1, 3))]), ids)
            compare(f"{name}: losses, three heads zeroed", got["losses"]["ablated"][1:], after)
            compare(f"{name}: losses as it is", got["losses"]["clean"][1:], losses(clean(model, ids)[0], ids))
            got = ask("ablate", *given, "--metric", "loss", "--positions", "5-9")
            want = [float(losses(hooked(model, ids, [head_hook(i, h, 0)]), ids)[4:9].mean())
                    for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]
            compare(f"{name}: loss at positions 5 to 9", values(got), want)
            got = ask("ablate", *given, *metric, "--heads", "L0H1", "--then", "L2H0,L1H1")
            want = [difference(hooked(model, ids, [head_hook(0, 1, 0), head_hook(*at, 0)]), 3, 5)
                    for at in ((2, 0), (1, 1))]
            compare(f"{name}: two heads after another", values(got, "after"), want)


def test_mean_and_resample():
    with common.scratch() as folder:
        config, path = with_tokenizer(folder, 7)
        model, ids = lens(config, path), ids_of(path, TEXT)
        a, b = ids_of(path, " Mary")[0], ids_of(path, " John")[0]
        corpus = folder / "corpus.txt"
        corpus.write_text("\n".join(CORPUS) + "\n")
        rows = [[] for _ in range(model.cfg.n_layers)]
        for text in CORPUS:
            cache = clean(model, ids_of(path, text))[1]
            for i in range(model.cfg.n_layers):
                rows[i].append(cache[f"blocks.{i}.attn.hook_z"][0, 1:])
        means = [torch.cat(layer).mean(0) for layer in rows]
        words = ["ablate", "-m", path, TEXT, "--metric", "logit: Mary - John"]
        got = ask(*words, "--how", "mean", "--corpus", corpus)
        compare("mean over a corpus", values(got), sweep(model, ids, a, b, lambda i, h: means[i][h]))
        donor = clean(model, ids_of(path, DONOR))[1]
        got = ask(*words, "--how", "resample", "--donor", DONOR)
        compare("resampled from a donor", values(got),
                sweep(model, ids, a, b, lambda i, h: donor[f"blocks.{i}.attn.hook_z"][0, :, h]))


# Marked pairs, both prompts and answers. Twins differ in length in the last three: from position `seam` on the second has
# `more` tokens without a counterpart, and what follows is aligned from the end: Victor with "ne" of Ire|ne, frightened with
# "usted" of dist|r|usted, nephew with the "s" of nephew|s. GPT-2's tokens, counted by hand.
PAIRS = [("When [a:Mary] and [b:John] ran, {John|Mary} gave a cup [q:to]",
          "When Mary and John ran, %s gave a cup to", ("John", "Mary"), (" Mary", " John"), 0, 0),
         ("Then [a:Tom] and [b:Paul] sat and {Paul|Tom} sent a book [q:to]",
          "Then Tom and Paul sat and %s sent a book to", ("Paul", "Tom"), (" Tom", " Paul"), 0, 0),
         ("When [a:Irene] and [b:Victor] ran, {Victor|Irene} gave a cup [q:to]",
          "When Irene and Victor ran, %s gave a cup to", ("Victor", "Irene"), (" Irene", " Victor"), 7, 1),
         ("Then [a:Mary] and [b:John] were {frightened|distrusted} when sent [q:to]",
          "Then Mary and John were %s when sent to", ("frightened", "distrusted"), (" Mary", " John"), 5, 2),
         ("Then [a:Tom] met [b:Paul] and the {nephew|nephews} ran [q:to]",
          "Then Tom met Paul and the %s ran to", ("nephew", "nephews"), (" Tom", " Paul"), 6, 1)]


def wordings(path):
    """Of each prompt of PAIRS its answers, its tokens, its twin's, and which positions take from which."""
    for _, text, words, names, seam, more in PAIRS:
        ids, answers = [ids_of(path, text % word) for word in words], [ids_of(path, name)[0] for name in names]
        assert len(ids[1]) == len(ids[0]) + more
        shorter = list(range(len(ids[0])))
        longer = [i for i in range(len(ids[1])) if not seam <= i < seam + more]
        yield (*answers, ids[0], ids[1], shorter, longer)
        yield (*answers[::-1], ids[1], ids[0], longer, shorter)


def take_hook(layer, head, donor, to, back):
    """z of the head at positions `to` becomes the donor's at `back`; elsewhere it stays what it is in this run."""
    def hook(z, hook):
        z[0, to, head] = donor[hook.name][0, back, head]
        return z
    return f"blocks.{layer}.attn.hook_z", hook


def take_each(model, ids, a, b, donor, to, back):
    return np.array([difference(hooked(model, ids, [take_hook(i, h, donor, to, back)]), a, b)
                     for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)])


def write_pairs(folder):
    (folder / "pairs.txt").write_text("".join(pair[0] + "\n" for pair in PAIRS))
    return folder / "pairs.txt"


def test_resample_over_pairs():
    """Every head, and heads of several layers together, take what they are in the twin."""
    with common.scratch() as folder:
        config, path = with_tokenizer(folder, 8)
        model, pairs, heads = lens(config, path), write_pairs(folder), ((0, 1), (1, 2), (2, 0), (2, 3))
        want, together, n = 0, 0, 2 * len(PAIRS)
        for a, b, ids, other, to, back in wordings(path):
            donor = clean(model, other)[1]
            want = want + take_each(model, ids, a, b, donor, to, back) / n
            together += difference(hooked(model, ids, [take_hook(*at, donor, to, back) for at in heads]), a, b) / n
        words = ["ablate", "-m", path, "--pairs", pairs, "--how", "resample"]
        got = ask(*words)
        assert (got["n_texts"], got["n_aligned"], got["skipped"]) == (10, 6, []), got
        compare("resampled from the twin", values(got), want)
        got = ask(*words, "--no-controls", "--heads", ",".join(f"L{i}H{h}" for i, h in heads))
        compare("heads together resampled from the twin", [values(got, "set")[0], 0], [together, 0])


def test_resample_from_a_donor_of_another_length():
    with common.scratch() as folder:
        config, path = with_tokenizer(folder, 7)
        model = lens(config, path)
        for text, word, other, seam, more in ((PAIRS[2][1], "Victor", "Irene", 7, 1), (PAIRS[3][1], "frightened", "distrusted", 5, 2)):
            x, y = ids_of(path, text % word), ids_of(path, text % other)
            longer = [i for i in range(len(y)) if not seam <= i < seam + more]
            for ids, donor, at, to, back in ((x, y, (word, other), list(range(len(x))), longer),
                                             (y, x, (other, word), longer, list(range(len(x))))):
                got = ask("ablate", "-m", path, text % at[0], "--metric", "logit: Mary - John", "--how", "resample",
                          "--donor", text % at[1])
                a, b = ids_of(path, " Mary")[0], ids_of(path, " John")[0]
                compare(f"resampled, {at[0]} from {at[1]}", values(got),
                        take_each(model, ids, a, b, clean(model, donor)[1], to, back))


def patched(model, base, cache, places, a, b, ends):
    """(patched - corrupted) / (clean - corrupted) of each place: (hook name, index into the site's value)."""
    cells = []
    for name, index in places:
        def hook(x, hook, name=name, index=index):
            x[index] = cache[name][index]
            return x
        cells.append((difference(hooked(model, base, [(name, hook)]), a, b) - ends[1]) / (ends[0] - ends[1]))
    return cells


def test_patch():
    for base, build in ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors)):
        with common.scratch() as folder:
            config, path, ids = bare(folder, base, build, 9)
            model, other = lens(config, path), ids[:6] + [(ids[6] + 11) % 97] + ids[7:]
            ends = [difference(clean(model, x)[0], 3, 5) for x in (ids, other)]
            text = [",".join(map(str, x)) for x in (ids, other)]
            words = ["patch", "-m", path, "--metric", "logit: #3 - #5", "--ids", text[0], "--corrupted-ids", text[1]]
            for site in ("resid_pre", "resid_mid", "resid_post", "attn_out", "mlp_out", "mlp_pre", "mlp_post", "z", "q",
                         "k", "v", "rot_q", "rot_k", "pattern", "attn_scores"):
                if site in ("rot_q", "rot_k") and not model.cfg.rotary_dim:
                    continue
                for by in (None, "position", "layer"):
                    if by and site in ("pattern", "attn_scores"):
                        continue
                    if by == "layer" and site.startswith("resid"):  # all of the stream is all of the other run
                        continue
                    for noise in (False, True):
                        start, source = (ids, other) if noise else (other, ids)
                        got = ask(*words, "--site", site, *(["--by", by] if by else []), *(["--noise"] if noise else []))
                        places = list(patch_places(model, site, by, len(ids)))
                        want = patched(model, start, clean(model, source)[1], places, 3, 5, ends)
                        scale = abs(ends[0] - ends[1])
                        compare(f"{config['model_type']}: {site} patched by {got['columns']}, {got['direction']}",
                                np.array(got["cells"]).ravel() * scale, np.array(want) * scale)


def patch_places(model, site, by, n):
    """TransformerLens's name and index of every cell, layer by layer."""
    every = slice(None)
    names = {"mlp_pre": "mlp.hook_pre", "mlp_post": "mlp.hook_post", "resid_pre": "hook_resid_pre",
             "resid_mid": "hook_resid_mid", "resid_post": "hook_resid_post", "attn_out": "hook_attn_out",
             "mlp_out": "hook_mlp_out"}
    table = site in ("pattern", "attn_scores")
    n_heads = model.cfg.n_heads
    if site in ("k", "v", "rot_k"):
        n_heads = model.cfg.n_key_value_heads or n_heads
    for layer in range(model.cfg.n_layers):
        name = f"blocks.{layer}." + names.get(site, f"attn.hook_{site}")
        if by == "layer":
            yield name, (0,)
        elif by == "position" or site in names:
            yield from ((name, (0, i)) for i in range(n))
        elif table:
            yield from ((name, (0, h)) for h in range(n_heads))
        else:
            yield from ((name, (0, every, h)) for h in range(n_heads))


def path_hooks(cache, other, sender, n_layers):
    """Algorithm 1 of the IOI paper: the sender from the other run, every other head held."""
    hooks = []
    for i in range(n_layers):
        def hook(z, hook, i=i):
            z[:] = cache[f"blocks.{i}.attn.hook_z"]
            if i == sender[0]:
                z[0, :, sender[1]] = other[f"blocks.{i}.attn.hook_z"][0, :, sender[1]]
            return z
        hooks.append((f"blocks.{i}.attn.hook_z", hook))
    return hooks


def path_value(model, base, cache, other, sender, receivers, site, a, b):
    hooks = path_hooks(cache, other, sender, model.cfg.n_layers)
    if not receivers:
        return difference(hooked(model, base, hooks), a, b)
    group, arrived = (1 if site == "q" else model.cfg.n_heads // (model.cfg.n_key_value_heads or model.cfg.n_heads)), {}
    for layer, head in receivers:
        def keep(x, hook, layer=layer, head=head):
            arrived[layer, head] = x[0, :, head // group].clone()
        hooks.append((f"blocks.{layer}.attn.hook_{site}", keep))
    hooked(model, base, hooks)
    put = []
    for layer, head in receivers:
        def set_input(x, hook, layer=layer, head=head):
            x[0, :, head // group] = arrived[layer, head]
            return x
        put.append((f"blocks.{layer}.attn.hook_{site}", set_input))
    return difference(hooked(model, base, put), a, b)


def test_paths():
    for base, build in ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors)):
        with common.scratch() as folder:
            config, path, ids = bare(folder, base, build, 9)
            model, other = lens(config, path), ids[:6] + [(ids[6] + 11) % 97] + ids[7:]
            caches = [clean(model, x)[1] for x in (ids, other)]
            ends = [difference(clean(model, x)[0], 3, 5) for x in (ids, other)]
            text = [",".join(map(str, x)) for x in (ids, other)]
            words = ["patch", "-m", path, "--metric", "logit: #3 - #5", "--ids", text[0], "--corrupted-ids", text[1]]
            heads = [(i, h) for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]
            for receivers, site, noise in (([], None, True), ([], None, False), ([(2, 0), (2, 1), (2, 2), (1, 0)], "q", True),
                                           ([(2, 1), (1, 3)], "k", True), ([(2, 0), (2, 3)], "v", False)):
                to = ",".join(f"L{i}H{h}" for i, h in receivers) or "end"
                got = ask(*words, "--path", to, *(["--input", site] if site else []), *(["--noise"] if noise else []))
                start, source = (0, 1) if noise else (1, 0)
                want = [path_value(model, (ids, other)[start], caches[start], caches[source], at, receivers, site, 3, 5)
                        for at in heads]
                scale = ends[0] - ends[1]
                compare(f"{config['model_type']}: paths to {site or ''} {to}, {got['direction']}",
                        np.array(got["cells"]).ravel() * scale + ends[1], want)


def test_cuts():
    """Edges cut before the softmax (the row sums to 1 again) and after it."""
    for base, build in ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors)):
        with common.scratch() as folder:
            config, path, ids = bare(folder, base, build, 10)
            model, words = lens(config, path), ["patch", "-m", path, "--metric", "logit: #3 - #5", "--ids", ",".join(map(str, ids))]
            heads = [(i, h) for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]
            before = difference(clean(model, ids)[0], 3, 5)
            for name, value, more in (("attn_scores", -torch.inf, []), ("pattern", 0.0, ["--no-renorm"])):
                def cut(layer, head, queries, keys):
                    def hook(x, hook):
                        x[0, head, queries, keys] = value
                        return x
                    return f"blocks.{layer}.attn.hook_{name}", hook
                queries, keys = slice(15, 20), slice(2, 6)
                want = [difference(hooked(model, ids, [cut(i, h, queries, keys)]), 3, 5) - before for i, h in heads]
                got = ask(*words, "--cut", "#2-5", "--query", "#15-19", *more)
                compare(f"{config['model_type']}: edges of {name} cut", np.array(got["cells"]).ravel(), want)
                want = [difference(hooked(model, ids, [cut(i, slice(None), slice(19, 20), slice(k, k + 1))]), 3, 5) - before
                        for i in range(model.cfg.n_layers) for k in range(20)]
                got = ask(*words, "--cut", "each", *more)
                compare(f"{config['model_type']}: each token hidden from the last, {name}", np.array(got["cells"]).ravel(), want)


def test_mediation():
    """Indirect and direct effects of every head over pairs, both orders of each, twins of unequal lengths among them."""
    with common.scratch() as folder:
        config, path = with_tokenizer(folder, 8)
        model, pairs = lens(config, path), write_pairs(folder)
        indirect, direct, total, n = 0, 0, 0, 2 * len(PAIRS)
        for a, b, x, y, at_x, at_y in wordings(path):
            (logits_x, z_x), (logits_y, z_y) = clean(model, x), clean(model, y)
            start = difference(logits_x, a, b)
            total += (difference(logits_y, a, b) - start) / n
            indirect = indirect + (take_each(model, x, a, b, z_y, at_x, at_y) - start) / n
            direct = direct + (take_each(model, y, a, b, z_x, at_y, at_x) - start) / n
        got = ask("patch", "-m", path, "--pairs", pairs)
        assert (got["n_texts"], got["n_aligned"], got["skipped"]) == (10, 6, []), got
        rows = {(h["layer"], h["head"]): h for h in got["heads"]}
        rows = [rows[i, h] for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]
        compare("total effect", [got["total"], 0], [total, 0])
        compare("indirect effects", [r["indirect"] for r in rows], indirect)
        compare("direct effects", [r["direct"] for r in rows], direct)


if __name__ == "__main__":
    common.main(globals())
