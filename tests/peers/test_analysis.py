"""Lens, attribution, circuits and composition against TransformerLens, on random GPT-2 and Llama checkpoints that both
read. Layer norms are folded there (fold_ln) and the rest of its processing is off. A figure may differ by BAR."""
import common
import numpy as np
import torch

import checkpoints as make
import reference
from test_interventions import BAR, ask, bare, clean, compare, difference, hooked, ids_of, lens, with_tokenizer

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


def parts(answer, kind):
    return [p["value"] for p in answer["parts"] if p["kind"] == kind]


def test_attribution():
    """Components over the cached final scale, dot W_U[3] - W_U[5]."""
    for name, path, model, ids in each(13):
        logits, cache = clean(model, ids)
        with torch.no_grad():
            rows, labels = cache.get_full_resid_decomposition(expand_neurons=False, return_labels=True)
            rows = cache.apply_ln_to_stack(rows, layer=-1, pos_slice=-1)[:, 0, -1].double()
        u = (model.W_U[:, 3] - model.W_U[:, 5]).double()
        want = dict(zip(labels, (rows @ u).tolist()))
        got = ask("attribute", *given(path, ids), "--metric", "logit: #3 - #5", "--sources")
        heads = [want[f"L{i}H{h}"] for i in range(model.cfg.n_layers) for h in range(model.cfg.n_heads)]
        compare(f"{name}: attribution, heads", parts(got, "head"), heads)
        compare(f"{name}: attribution, MLPs", parts(got, "mlp"),
                [want[f"{i}_mlp_out"] for i in range(model.cfg.n_layers)])
        bias = float((model.b_U[3] - model.b_U[5]).detach())
        compare(f"{name}: attribution, the rest",
                [got["value"], sum(parts(got, "embed")), sum(parts(got, "pos_embed")), sum(parts(got, "attn_bias")),
                 sum(parts(got, "norm_bias") + parts(got, "unembed_bias"))],
                [float(logits[-1, 3] - logits[-1, 5]), want["embed"], want.get("pos_embed", 0), want["bias"], bias])
        value_mix = []
        for i in range(model.cfg.n_layers):
            v, pattern = cache[f"blocks.{i}.attn.hook_v"][0], cache[f"blocks.{i}.attn.hook_pattern"][0]
            v = v.repeat_interleave(model.cfg.n_heads // v.shape[1], 1)
            each_source = torch.einsum("hk,khd,hdm->hkm", pattern[:, -1], v, model.W_O[i])
            scale = cache["ln_final.hook_scale"][0, -1]
            if model.cfg.normalization_type == "LNPre":
                each_source = each_source - each_source.mean(-1, keepdim=True)
            value_mix.append((each_source / scale).double() @ u)
        compare(f"{name}: attribution, heads by source", [p["sources"] for p in got["parts"] if p["kind"] == "head"],
                torch.cat(value_mix).detach())


def attribution_by_definition(model, ids, a, b):
    """Parts of the logit of a minus that of b at the last token, of a model with norms behind its branches (Gemma), in
    float64 from transformers' weights: every norm's scale is held at what it is in this run."""
    sites, config = reference.exact(model, ids), model.config
    w = {name: value.double().numpy() for name, value in model.state_dict().items()}

    def held(x, name):
        return (1 + w[name + ".weight"]) / np.sqrt((x * x).mean() + config.rms_norm_eps)

    u = w["lm_head.weight"][a] - w["lm_head.weight"][b]
    last = config.num_hidden_layers - 1
    d = u * held(sites[f"resid_post.{last}"][-1], "model.norm")
    heads, sources, mlps, group = [], [], [], config.num_attention_heads // config.num_key_value_heads
    for i in range(config.num_hidden_layers):
        at = f"model.layers.{i}."
        z, w_o = sites[f"z.{i}"][-1], w[at + "self_attn.o_proj.weight"]
        e = d * held(w_o @ z.ravel(), at + "post_attention_layernorm")
        by_head = (e @ w_o).reshape(z.shape)
        heads += (by_head * z).sum(1).tolist()
        v = np.repeat(sites[f"v.{i}"], group, 1)
        sources += np.einsum("hk,khd,hd->hk", sites[f"pattern.{i}"][:, -1], v, by_head).tolist()
        mlps.append(sites[f"mlp_out.{i}"][-1] @ d)
    return {"value": sites["ln_final"][-1] @ u, "embed": [sites["resid_pre.0"][-1] @ d], "head": heads, "mlp": mlps,
            "sources": sources}


def test_attribution_behind_norms():
    """Gemma 2 and 3, whose branches have a norm behind them; the cap of Gemma 2's logits stays out."""
    for base in (make.GEMMA2, make.GEMMA3):
        with common.scratch() as folder:
            config = make.configuration(base)
            tensors, ids = make.tensors_of(config, 37), make.token_ids(config["vocab_size"], 20, 37)
            make.calibrate(folder / "work", config, tensors, ids, 37)
            path = make.write_folder(folder / config["model_type"], config, tensors)
            want = attribution_by_definition(make.open_with_transformers(path), ids, 3, 5)
            got = ask("attribute", *given(path, ids), "--metric", "logit: #3 - #5", "--sources")
        name = config["model_type"]
        for kind in ("embed", "head", "mlp"):
            off = np.abs(np.array(parts(got, kind)) - want[kind]).max()
            print(f"  {name}: {kind}, off by {off:.1e} at most")
            assert off <= BAR, (name, kind, off)
        compare(f"{name}: attribution, heads by source", [p["sources"] for p in got["parts"] if p["kind"] == "head"],
                want["sources"])
        total = sum(part["value"] for part in got["parts"])
        print(f"  {name}: {got['value']:.4f}, off by {got['value'] - want['value']:.1e}, the parts by "
              f"{total - want['value']:.1e}")
        assert abs(want["value"]) > 0.1 and abs(got["value"] - want["value"]) <= BAR
        assert abs(total - want["value"]) <= BAR


def word_stream(model, layer):
    """What a head of this layer reads of every word: the embedding, with the first MLP from layer 1 on."""
    x, first = model.W_E[None], model.blocks[0]
    return model.blocks[layer].ln1(x + first.mlp(first.ln2(x)) if layer else x)[0]


def circuit_of(model, layer, head):
    """OV logits [v][v] and QK scores [v][v], both in float64 from float32 weights."""
    attn, kv = model.blocks[layer].attn, head * model.cfg.n_key_value_heads // model.cfg.n_heads \
        if model.cfg.n_key_value_heads else head
    w_k, w_v, b_k, b_v = (getattr(attn, ("_" if model.cfg.n_key_value_heads else "") + name)
                          for name in ("W_K", "W_V", "b_K", "b_V"))
    x = word_stream(model, layer)
    out = (x @ w_v[kv] + b_v[kv]) @ attn.W_O[head]
    scores = (x @ attn.W_Q[head] + attn.b_Q[head]) @ (x @ w_k[kv] + b_k[kv]).T / model.cfg.d_head ** 0.5
    return model.unembed(model.ln_final(out[None]))[0].double(), scores.double()


def ranks(rows, signs):
    """Of each word in its own row, by size, turned where signs is -1."""
    rows = rows * signs
    return (rows > rows.diagonal()[:, None]).sum(1)


def test_circuits():
    for name, path, model, ids in each(17):
        v = model.cfg.d_vocab
        with common.scratch() as folder, torch.no_grad():
            names = folder / "names.txt"
            names.write_text("".join(f"#{i}\n" for i in range(v)))
            words = ["circuit", "-m", path, "--names", names]
            for layer, head in ((0, 1), (1, 3), (2, 0)):
                logits, scores = circuit_of(model, layer, head)
                got = ask(*words, f"L{layer}H{head}", "--all", "--top", v)
                for kind, rows in (("ov", logits), ("qk", scores), ("ov_against", -logits)):
                    best = rows.max(1).values.sort(descending=True).values
                    sign = -1 if kind == "ov_against" else 1
                    compare(f"{name}: L{layer}H{head} {kind}", [sign * p["value"] for p in got[kind]], best)
                for word in ask(*words, f"L{layer}H{head}", "--all", "--word", "#7", "--word", "#90")["words"]:
                    compare(f"{name}: L{layer}H{head} looks from {word['id']}", [w["value"] for w in word["keys"]],
                            scores[word["id"]].topk(5).values)
                    compare(f"{name}: L{layer}H{head} writes for {word['id']}", [w["value"] for w in word["writes"]],
                            logits[word["id"]].topk(5).values)
                    assert word["own_rank"] == ranks(logits, 1)[word["id"]]
            scores = ask(*words)["heads"]
            for place in scores[model.cfg.n_heads:]:
                logits, _ = circuit_of(model, place["layer"], place["head"])
                for kind, sign in (("copying", 1), ("against", -1)):
                    want = float((ranks(logits, sign) < 5).double().mean())
                    assert abs(place[kind] - want) < 1e-9, (place, kind, want)
            assert all(place["copying"] is None for place in scores[:model.cfg.n_heads])


def turned(x, distance, base):
    """Rows [n][d] rotated by `distance` positions, halves together, in float64."""
    half = x.shape[1] // 2
    angle = distance * base ** (-torch.arange(half).double() / half)
    a, b = x.double()[:, :half], x.double()[:, half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], 1)


def test_circuits_at_a_distance():
    """QK of a query that stands some tokens behind the key, in a model that rotates; one that does not refuses."""
    for name, path, model, ids in each(29):
        names = path / "names.txt"
        names.write_text("#3\n")
        words = ["circuit", "-m", path, "--names", names, "L1H3", "--all", "--word", "#7", "--word", "#90", "--distance"]
        if not model.cfg.rotary_dim:
            assert b"does not rotate" in common.headscope(*words, 3, status=1).stderr
            continue
        attn, group = model.blocks[1].attn, model.cfg.n_heads // model.cfg.n_key_value_heads
        with torch.no_grad():
            x = word_stream(model, 1)
            q, k = x @ attn.W_Q[3] + attn.b_Q[3], x @ attn._W_K[3 // group] + attn._b_K[3 // group]
        for distance in (0, 1, 3, 17):
            rows = turned(q, distance, model.cfg.rotary_base) @ k.double().T / model.cfg.d_head ** 0.5
            for word in ask(*words, distance)["words"]:
                compare(f"{name}: {word['id']} looks {distance} tokens back", [w["value"] for w in word["keys"]],
                        rows[word["id"]].topk(5).values)


def test_eigenvalue_scores():
    """Sum of the eigenvalues of W_E W_V W_O W_U over the sum of their sizes, from TransformerLens's factored matrix; its
    output matrix is centred, as a number that all logits share says nothing."""
    from transformer_lens import FactoredMatrix
    for base, build in FAMILIES:
        with common.scratch() as folder, torch.no_grad():
            config, path, _ = bare(folder, base, build, 31)
            model = lens(config, path, fold_ln=True, center_unembed=True)
            want = []
            for layer in range(model.cfg.n_layers):
                attn = model.blocks[layer].attn
                w_v = attn._W_V if model.cfg.n_key_value_heads else attn.W_V
                group = model.cfg.n_heads // len(w_v)
                for head in range(model.cfg.n_heads):
                    ov = FactoredMatrix((model.W_E @ w_v[head // group]).double(), (attn.W_O[head] @ model.W_U).double())
                    want.append(float(ov.eigenvalues.sum().real / ov.eigenvalues.abs().sum()))
            got = [head["eigen"] for head in ask("circuit", "-m", path, "--eigen")["heads"]]
            compare(f"{config['model_type']}: eigenvalue scores", got, want)


def test_composition():
    for name, path, model, ids in each(19):
        got = ask("compose", "-m", path)
        n = model.cfg.n_heads
        later = np.triu(np.ones((model.cfg.n_layers,) * 2), 1).repeat(n, 0).repeat(n, 1).astype(bool)
        for kind in "qkv":
            with torch.no_grad():
                want = model.all_composition_scores(kind.upper())  # [layer][head][layer][head]
            rows = np.array(got[kind], dtype=float)
            assert np.array_equal(np.isnan(rows), ~later)
            compare(f"{name}: composition, {kind}", rows[later], want.reshape(rows.shape).double().numpy()[later])


def test_attention_through_layers():
    """Rollout from TransformerLens's patterns; flow by networkx's maximum flow; sizes from its values and W_O."""
    import networkx
    for name, path, model, ids in each(23):
        cache = clean(model, ids)[1]
        n, mixed, rolled = len(ids), [], torch.eye(len(ids)).double()
        for i in range(model.cfg.n_layers):
            mean = cache[f"blocks.{i}.attn.hook_pattern"][0].double().mean(0)
            mixed.append((mean + torch.eye(n)) / 2)
            rolled = mixed[-1] @ rolled
        got = ask("rollout", *given(path, ids))
        compare(f"{name}: rollout", got["rollout"], rolled)
        graph = networkx.DiGraph()
        for i, matrix in enumerate(mixed):
            for q in range(n):
                for k in range(q + 1):
                    graph.add_edge((i + 1, q), (i, k), capacity=float(matrix[q, k]))
        want = [networkx.maximum_flow_value(graph, (model.cfg.n_layers, n - 1), (0, k)) for k in range(n)]
        compare(f"{name}: flow", got["flow"], want)
        sizes = []
        for i in range(model.cfg.n_layers):
            v = cache[f"blocks.{i}.attn.hook_v"][0]
            v = v.repeat_interleave(model.cfg.n_heads // v.shape[1], 1)
            sizes.append(torch.einsum("khd,hdm->hkm", v, model.W_O[i]).norm(dim=-1).detach())
        heads = ask("values", *given(path, ids))["heads"]
        compare(f"{name}: sizes of what is moved", [h["sizes"] for h in heads], torch.cat(sizes))


def test_steering():
    """The mean difference of two sets at every layer, added in doses at every position but the first."""
    toward, away = ["The day was warm and bright.", "She sang a happy song."], ["The night was cold.", "He wept alone there."]
    text = "When Mary and John went to the store"
    with common.scratch() as folder:
        config, path = with_tokenizer(folder, 29)
        model = lens(config, path)
        for name, lines in (("toward", toward), ("away", away)):
            (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
        a, b, ids = ids_of(path, " Mary")[0], ids_of(path, " John")[0], ids_of(path, text)
        for at, rows in (("mean", slice(1, None)), ("last", slice(-1, None))):
            means = []
            for lines in (toward, away):
                caches = [clean(model, ids_of(path, line))[1] for line in lines]
                means.append([torch.cat([c[f"blocks.{i}.hook_resid_post"][0, rows] for c in caches]).mean(0)
                              for i in range(model.cfg.n_layers)])
            want = []
            for i in range(model.cfg.n_layers):
                for dose in (-1.5, 2):
                    def hook(x, hook, i=i, dose=dose):
                        x[0, 1:] += dose * (means[0][i] - means[1][i])
                        return x
                    want.append(difference(hooked(model, ids, [(f"blocks.{i}.hook_resid_post", hook)]), a, b))
            got = ask("steer", "-m", path, "--toward", folder / "toward.txt", "--away", folder / "away.txt", "--at", at,
                      "--dose", "-1.5,2", "--metric", "logit: Mary - John", text, "--no-controls")
            compare(f"steering by the {at} difference", [p["value"] for p in got["points"]], want)


if __name__ == "__main__":
    common.main(globals())
