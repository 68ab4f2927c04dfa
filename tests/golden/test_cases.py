"""Inputs that broke comparable programs, as tiny checkpoints written here, each with the value that is right by the
definition. One class a case; B.. and X.. are the numbers by which the cases are known."""
import json
import math
import os
import sys
import unittest

import toys
from toys import filled

E = 1e-6  # slack for values given to six or seven decimals


class Case(unittest.TestCase):
    def setUp(self):
        context = toys.scratch()
        self.folder = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)

    def model(self, config, tensors, name="model"):
        return toys.write_folder(self.folder / name, config, tensors)

    def run_sites(self, model, sites, ids, extra=()):
        return toys.run(model, self.folder, sites, ids, extra)

    def refused(self, model, *words, ids=(1, 2), status=1):
        """`run` ends with the status, says all the words in its first line, and leaves no file."""
        out = self.folder / "refused.safetensors"
        done = toys.headscope("run", "-m", model, "--ids", ",".join(map(str, ids)), "--sites", "logits", "-o", out)
        self.assertEqual(done.returncode, status, done.stderr)
        line = done.stderr.splitlines()[0]
        for word in words:
            self.assertIn(str(word), line)
        self.assertFalse(out.exists())
        self.assertEqual(done.stdout, "")

    def assertNear(self, got, want, slack=E):
        self.assertEqual(len(got), len(want))
        for a, b in zip(got, want):
            self.assertLessEqual(abs(a - b), slack, f"{list(got)} is not {list(want)}")


def silent_gpt2(**sizes):
    """A GPT-2 whose blocks add nothing: every matrix and bias 0, every gain 1."""
    config, tensors = toys.gpt2(**sizes)
    for name, (shape, _) in list(tensors.items()):
        tensors[name] = filled(shape, 1.0 if "ln_" in name and name.endswith("weight") else 0.0)
    return config, tensors


class B15_VeryNegativeScores(Case):
    def test_the_first_row_is_one_and_exactly_zero(self):
        config, tensors = silent_gpt2(n_embd=2, n_head=1, n_layer=1, scale_attn_weights=False)
        # q = 200 and k = -100 on the first component: every score is -20000.
        tensors["h.0.attn.c_attn.bias"] = ([6], [200.0, 0.0, -100.0, 0.0, 1.0, 2.0])
        got = self.run_sites(self.model(config, tensors), "attn_scores,pattern,z", [1, 2])
        self.assertEqual(got["attn_scores.0"][1].tolist(), [-20000.0, -math.inf, -20000.0, -20000.0])
        self.assertEqual(got["pattern.0"][1].tolist(), [1.0, 0.0, 0.5, 0.5])
        self.assertEqual(got["z.0"][1].tolist(), [1.0, 2.0, 1.0, 2.0])


class B16_LookingChangesNothing(Case):
    def test_same_bits(self):
        ids = [3, 1, 4, 1]
        for config, tensors in (toys.gpt2(n_layer=3, vocab_size=40), toys.llama(vocab_size=40)):
            model = self.model(config, tensors, config["model_type"])
            plain = self.run_sites(model, "logits", ids)["logits"]
            for extra in (("-t", 1), ("-t", 2)):
                for sites in ("logits", "logits,pattern,attn_scores", "logits,resid_post,z,mlp_post"):
                    got = self.run_sites(model, sites, ids, extra)
                    self.assertEqual(got["logits"][1].tobytes(), plain[1].tobytes(), (sites, extra))
            pattern = self.run_sites(model, "pattern", ids)
            for layer in range(config.get("n_layer", 2)):
                (n_heads, n, _), weights = pattern[f"pattern.{layer}"]
                for head in range(n_heads):
                    table = [weights[(head * n + q) * n : (head * n + q + 1) * n].tolist() for q in range(n)]
                    self.assertEqual(table[0], [1.0, 0.0, 0.0, 0.0])
                    for q, row in enumerate(table):
                        self.assertAlmostEqual(sum(row), 1.0, delta=E)
                        self.assertEqual(row[q + 1 :], [0.0] * (n - 1 - q))

    def test_later_tokens_change_nothing(self):
        config, tensors = toys.gpt2()
        model = self.model(config, tensors)
        short, long = (self.run_sites(model, "logits,resid_post,pattern", [5, 6, 7, 8, 9][:n]) for n in (3, 5))
        for name in ("logits", "resid_post.0", "resid_post.1"):
            self.assertEqual(short[name][1].tobytes(), long[name][1][: len(short[name][1])].tobytes(), name)


class B17_PackedSequences(Case):
    def test_each_equals_itself_alone(self):
        for config, tensors in (toys.gpt2(vocab_size=256), toys.llama(vocab_size=256, n_heads=2, n_kv=1)):
            model = self.model(config, tensors, config["model_type"])
            (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
            lines = ["Ae", "bcdA", "x", "Ae"]
            text = self.folder / "lines.txt"
            text.write_text("".join(line + "\n" for line in lines))
            sites = "pattern,attn_scores,resid_post,q,k,logits"
            packed = self.run_sites(model, sites, None, ("--file", text))
            for s, line in enumerate(lines):
                alone = self.run_sites(model, sites, list(line.encode()))
                for name, (shape, numbers) in alone.items():
                    other = packed[f"{name}.seq{s}"]
                    self.assertEqual(list(other[0]), list(shape), name)
                    self.assertEqual(other[1].tobytes(), numbers.tobytes(), (line, name))


class B19_EndOfTheContext(Case):
    def test_the_last_position_is_legal_and_the_next_is_not(self):
        for config, tensors in (toys.gpt2(n_positions=8, vocab_size=17), toys.llama(n_positions=8, vocab_size=17)):
            model = self.model(config, tensors, config["model_type"])
            got = self.run_sites(model, "logits", [1, 2, 3, 4, 5, 6, 7, 16])
            self.assertEqual(got["logits"][0], [8, 17])
            self.refused(model, 8, 9, ids=range(9))
            self.refused(model, 17, "id", ids=[1, 17])

    def test_a_negative_id(self):
        model = self.model(*toys.gpt2())
        done = toys.headscope("run", "-m", model, "--ids=-1,2", "--sites", "logits", "-o", self.folder / "o.npz")
        self.assertIn(done.returncode, (1, 2))
        self.assertIn("-1", done.stderr)


class B20_SlidingWindow(Case):
    def seen(self, name, window):
        """For each query of six the keys that have weight, first to last."""
        config, tensors = toys.llama(n_positions=16, n_layer=1)
        config.update(model_type="mistral", sliding_window=window)
        shape, weights = self.run_sites(self.model(config, tensors, name), "pattern", [1, 2, 3, 4, 5, 6])["pattern.0"]
        self.assertEqual(list(shape), [2, 6, 6])
        return [[k for k in range(6) if weights[6 * q + k] > 0] for q in range(6)]

    def test_a_window_of_four(self):
        self.assertEqual(self.seen("four", 4), [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]])

    def test_none_and_one_that_is_wide_enough(self):
        everything = [list(range(q + 1)) for q in range(6)]
        for name, window in (("none", None), ("six", 6), ("wide", 100)):
            self.assertEqual(self.seen(name, window), everything, name)

    def test_zero_is_refused(self):
        config, tensors = toys.llama()
        config.update(model_type="mistral", sliding_window=0)
        self.refused(self.model(config, tensors), "sliding_window", 0)


class B23_GroupedHeads(Case):
    def test_heads_share_their_neighbour(self):
        config, tensors = toys.llama(d=8, n_heads=4, n_kv=2, n_layer=1, attention_bias=True)
        at = "model.layers.0.self_attn."
        for name, n in (("q_proj", 8), ("k_proj", 4), ("v_proj", 4), ("o_proj", 8)):
            tensors[f"{at}{name}.bias"] = filled([n])
        tensors[f"{at}v_proj.weight"] = filled([4, 8])
        tensors[f"{at}v_proj.bias"] = ([4], [0.0, 0.0, 1.0, 1.0])
        z = self.run_sites(self.model(config, tensors), "z", [1, 2, 3])["z.0"]
        self.assertEqual(z[0], [3, 4, 2])
        for row in toys.rows(z):
            self.assertNear(row, [0, 0, 0, 0, 1, 1, 1, 1])

    def test_heads_that_do_not_divide(self):
        config, tensors = toys.llama(d=8, n_heads=4, n_kv=2)
        self.refused(self.model({**config, "num_key_value_heads": 3}, tensors), "num_key_value_heads", 3, 4)


class B24_ScaleOfTheScores(Case):
    def test_four_settings(self):
        right = {(True, True): [0.268941, 0.731059], (True, False): [0.119203, 0.880797],
                 (False, False): [0.017986, 0.982014], (False, True): [0.119203, 0.880797]}
        for (scale, by_layer), want in right.items():
            config, tensors = silent_gpt2(n_embd=4, n_head=1, n_layer=2, layer_norm_epsilon=1e-12,
                                          scale_attn_weights=scale, scale_attn_by_inverse_layer_idx=by_layer)
            # Token 0 normalises to (-1, 1, -1, 1) and token 1 to (1, -1, 1, -1). In layer 1, q is (1, 0, 0, 0) and
            # k's first component is twice the token's plus 2: the raw products are 0 and 4.
            tensors["wte.weight"][1][:8] = [-1.0, 1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0]
            weight, bias = tensors["h.1.attn.c_attn.weight"][1], tensors["h.1.attn.c_attn.bias"][1]
            weight[0 * 12 + 4], bias[0], bias[4] = 2.0, 1.0, 2.0
            got = self.run_sites(self.model(config, tensors, f"{scale}{by_layer}"), "pattern", [0, 1])
            self.assertNear(got["pattern.1"][1][2:], want)

    def test_the_default_is_scaled_and_not_by_layer(self):
        config, tensors = toys.gpt2()
        plain = self.run_sites(self.model(config, tensors, "a"), "attn_scores", [1, 2, 3])
        spelt = {**config, "scale_attn_weights": True, "scale_attn_by_inverse_layer_idx": False,
                 "reorder_and_upcast_attn": True}
        same = self.run_sites(self.model(spelt, tensors, "b"), "attn_scores", [1, 2, 3])
        for name in ("attn_scores.0", "attn_scores.1"):
            self.assertEqual(plain[name][1].tobytes(), same[name][1].tobytes())


class B26_TiedOutput(Case):
    def logits_are(self, model, matrix, note=None):
        """Logits are ln_final times the matrix; `note` must be told on standard error."""
        out = self.folder / "tied.safetensors"
        done = toys.headscope("run", "-m", model, "--ids", "1,2,3", "--sites", "ln_final,logits", "-o", out)
        self.assertEqual(done.returncode, 0, done.stderr)
        if note:
            self.assertIn(note, done.stderr)
        got = toys.read_safetensors(out)
        shape, _ = got["logits"]
        want = [math.fsum(a * b for a, b in zip(h, e)) for h in toys.rows(got["ln_final"]) for e in toys.rows(matrix)]
        self.assertLessEqual(toys.deviation("logits", got["logits"], (shape, want)), 2e-6)

    def test_five_files(self):
        other = toys.Random(99).normal([17, 8])
        for (config, tensors), wte in ((toys.gpt2(prefix="transformer."), "transformer.wte.weight"),
                                       (toys.llama(), "model.embed_tokens.weight")):
            matrix = tensors.pop(wte)
            tie, apart = {**config, "tie_word_embeddings": True}, {**config, "tie_word_embeddings": False}
            files = {
                "embedding": (tie, {wte: matrix}, matrix, None),
                "head": (tie, {"lm_head.weight": matrix}, matrix, None),
                "equal": (tie, {wte: matrix, "lm_head.weight": matrix}, matrix, None),
                "different": (tie, {wte: matrix, "lm_head.weight": other}, other, "tie_word_embeddings"),
                "apart": (apart, {wte: matrix, "lm_head.weight": other}, other, None),
                "no-head": (apart, {wte: matrix}, matrix, "lm_head.weight"),
            }
            for name, (settings, ends, right, note) in files.items():
                with self.subTest(model=config["model_type"], file=name):
                    model = self.model(settings, {**tensors, **ends}, f"{config['model_type']}-{name}")
                    self.logits_are(model, right, note)


class B27_NamesAndOrientation(Case):
    def test_prefix_and_buffers(self):
        ids, results = [1, 2, 3, 4], []
        for prefix in ("", "transformer."):
            for kind in (None, "F32", "U8", "BOOL"):
                config, tensors = toys.gpt2(prefix=prefix)
                if kind:
                    for i in range(2):
                        mask = [1 if k <= q else 0 for q in range(8) for k in range(8)]
                        tensors[f"{prefix}h.{i}.attn.bias"] = ([1, 1, 8, 8], mask, kind)
                        tensors[f"{prefix}h.{i}.attn.masked_bias"] = ([], [-1e4])
                model = self.model(config, tensors, f"{prefix}{kind}")
                results.append(self.run_sites(model, "logits", ids)["logits"][1].tobytes())
        self.assertEqual(len(set(results)), 1)

    def test_a_square_matrix_is_read_in_by_out(self):
        config, tensors = silent_gpt2(n_embd=2, n_head=1, n_layer=1)
        tensors["h.0.attn.c_attn.bias"] = ([6], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0])  # v, and so z, is (1, 0)
        tensors["h.0.attn.c_proj.weight"] = ([2, 2], [1.0, 2.0, 3.0, 4.0])
        tensors["h.0.attn.c_proj.bias"] = ([2], [10.0, 20.0])
        got = self.run_sites(self.model(config, tensors), "z,attn_out", [1, 2])
        for row in toys.rows(got["z.0"]):
            self.assertNear(row, [1.0, 0.0])
        for row in toys.rows(got["attn_out.0"]):
            self.assertNear(row, [11.0, 22.0], 1e-5)

    def test_a_matrix_the_wrong_way_round(self):
        config, tensors = toys.gpt2()
        shape, numbers = tensors["h.1.attn.c_attn.weight"]
        tensors["h.1.attn.c_attn.weight"] = (shape[::-1], numbers)
        self.refused(self.model(config, tensors), "h.1.attn.c_attn.weight", 24, 8)

    def test_a_missing_weight_is_named(self):
        for make, name in ((toys.gpt2, "h.1.mlp.c_fc.bias"), (toys.gpt2, "wpe.weight"), (toys.gpt2, "ln_f.bias"),
                           (toys.llama, "model.layers.1.self_attn.k_proj.weight"), (toys.llama, "model.norm.weight")):
            config, tensors = make()
            del tensors[name]
            self.refused(self.model(config, tensors, name), name)

    def test_an_unknown_weight_is_named(self):
        for make, name in ((toys.gpt2, "h.0.attn.q_norm.weight"), (toys.llama, "model.layers.0.self_attn.q_norm.weight")):
            config, tensors = make()
            model = self.model(config, {**tensors, name: filled([8], 1.0)}, name)
            done = toys.headscope("run", "-m", model, "--ids", "1", "--sites", "logits", "-o", self.folder / "o.npz")
            self.assertIn(name, done.stderr)


class B32_Configuration(Case):
    def test_width_of_the_feed_forward(self):
        for n_inner, width in ((None, 32), (24, 24), ("absent", 32)):
            config, tensors = toys.gpt2(n_embd=8, n_inner=24 if n_inner == 24 else None)
            config.update({} if n_inner == "absent" else {"n_inner": n_inner})
            got = self.run_sites(self.model(config, tensors, str(n_inner)), "mlp_pre", [1])
            self.assertEqual(got["mlp_pre.0"][0], [1, width])

    def activation(self, x, **settings):
        config, tensors = silent_gpt2(n_embd=2, n_head=1, n_layer=1, **settings)
        tensors["h.0.mlp.c_fc.bias"] = filled([8], x)
        got = self.run_sites(self.model(config, tensors), "mlp_pre,mlp_post", [1])
        self.assertEqual(got["mlp_pre.0"][1][0], x)
        return got["mlp_post.0"][1][0]

    def test_activations(self):
        tanh, erf = {1.0: 0.8411920, -3.0: -0.0036374}, {1.0: 0.8413447, -3.0: -0.0040497}
        right = {"gelu_new": tanh, "gelu_pytorch_tanh": tanh, "gelu_fast": tanh, "gelu": erf,
                 "relu": {1.0: 1.0, -3.0: 0.0}, "silu": {1.0: 0.7310586, -3.0: -3 / (1 + math.exp(3))}}
        for name, values in right.items():
            for x, want in values.items():
                self.assertNear([self.activation(x, activation_function=name)], [want], 2e-7)
        self.assertNear([self.activation(-3.0)], [tanh[-3.0]], 2e-7)

    def test_an_unknown_activation(self):
        config, tensors = toys.gpt2(activation_function="bogus")
        self.refused(self.model(config, tensors), "activation_function", "bogus")

    def test_the_default_epsilon(self):
        config, tensors = silent_gpt2(n_embd=2, n_head=1, n_layer=1)
        tensors["wte.weight"] = filled([17, 2])
        tensors["wte.weight"][1][2:4] = [0.003, -0.003]  # a variance of 9e-6 beside an epsilon of 1e-5
        got = self.run_sites(self.model(config, tensors), "ln1", [1])["ln1.0"][1]
        self.assertNear(got, [0.003 / math.sqrt(1.9e-5), -0.003 / math.sqrt(1.9e-5)])

    def test_ways_to_write_a_configuration(self):
        config, tensors = toys.gpt2(layer_norm_epsilon=1e-5)
        model = self.model(config, tensors)
        plain, path = self.run_sites(model, "logits", [1, 2])["logits"][1].tobytes(), model / "config.json"
        text = json.dumps(config, indent=1)
        self.assertIn("1e-05", text)
        for same in (text.replace("\n", "\r\n"), text.replace("1e-05", "0.00001"), text.replace("1e-05", "1E-5")):
            path.write_bytes(same.encode())
            self.assertEqual(self.run_sites(model, "logits", [1, 2])["logits"][1].tobytes(), plain)
        # A byte order mark and 8.0 for 8 are either read or refused by name, a key given twice is refused.
        for odd, word in ((b"\xef\xbb\xbf" + text.encode(), "config.json"),
                          (text.replace('"n_embd": 8', '"n_embd": 8.0').encode(), "n_embd")):
            path.write_bytes(odd)
            out = self.folder / "odd.safetensors"
            done = toys.headscope("run", "-m", model, "--ids", "1,2", "--sites", "logits", "-o", out)
            if done.returncode == 0:
                self.assertEqual(toys.read_safetensors(out)["logits"][1].tobytes(), plain)
            else:
                self.assertEqual(done.returncode, 1)
                self.assertIn(word, done.stderr)
        path.write_text(text.replace('"n_embd": 8', '"n_embd": 8, "n_embd": 8'))
        self.refused(model, "config.json", "n_embd")


class RotarySettings(Case):
    def test_what_is_not_computed_is_refused(self):
        nested = {"full_attention": {"rope_theta": 1e6}, "rope_type": "default"}
        for changes, word in (({"rope_parameters": nested}, "full_attention"), ({"rope_theta": 1e308}, "rope_theta")):
            config, tensors = toys.llama()
            if "rope_theta" in changes:
                config.pop("rope_parameters", None)
            self.refused(self.model({**config, **changes}, tensors, word), word)


class X4_SoftCaps(Case):
    def test_honoured_or_refused_by_name(self):
        for field in ("attn_logit_softcapping", "final_logit_softcapping"):
            config, tensors = toys.llama(**{field: 30.0})
            self.refused(self.model(config, tensors, field), field)
            config, tensors = toys.llama(**{field: None})
            self.run_sites(self.model(config, tensors, field + "-null"), "logits", [1])

    def test_score_and_logit(self):
        config, at = {"model_type": "gemma2", "vocab_size": 3, "hidden_size": 2, "num_hidden_layers": 1,
                      "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 2,
                      "max_position_embeddings": 4, "query_pre_attn_scalar": 1, "attention_bias": True,
                      "tie_word_embeddings": False}, "model.layers.0."
        tensors = {f"{at}self_attn.{n}_proj.{kind}": filled([2, 2] if kind == "weight" else [2])
                   for n in "qkvo" for kind in ("weight", "bias")}
        tensors.update({f"{at}mlp.{n}_proj.weight": filled([2, 2]) for n in ("gate", "up", "down")})
        norms = [f"{at}{n}_layernorm" for n in ("input", "post_attention", "pre_feedforward", "post_feedforward")]
        tensors.update({f"{n}.weight": filled([2]) for n in (*norms, "model.norm")})
        tensors[f"{at}self_attn.q_proj.bias"] = ([2], [100.0, 0.0])
        tensors[f"{at}self_attn.k_proj.bias"] = ([2], [1.0, 0.0])
        # The one token normalises to (sqrt 2, 0), which makes the logits 60, 0 and -60.
        tensors["model.embed_tokens.weight"] = ([3, 2], [1.0, 0.0] * 3)
        tensors["lm_head.weight"] = ([3, 2], [60 / math.sqrt(2), 0.0, 0.0, 0.0, -60 / math.sqrt(2), 0.0])
        capped = self.run_sites(self.model(config, tensors, "capped"), "attn_scores,logits", [1])
        self.assertNear(capped["attn_scores.0"][1], [48.201379], 1e-5)
        self.assertNear(capped["logits"][1], [28.920827, 0.0, -28.920827], 1e-5)
        free = {**config, "attn_logit_softcapping": None, "final_logit_softcapping": None}
        plain = self.run_sites(self.model(free, tensors, "free"), "attn_scores,logits", [1])
        self.assertNear(plain["attn_scores.0"][1], [100.0], 1e-5)
        self.assertNear(plain["logits"][1], [60.0, 0.0, -60.0], 1e-4)


class X5_LargeActivations(Case):
    def test_no_argmax_over_what_is_no_number(self):
        config, tensors = toys.gpt2()
        shape, _ = tensors["ln_f.bias"]
        tensors["ln_f.bias"] = filled(shape, math.nan)
        done = toys.headscope("bench", "-m", self.model(config, tensors), "-p", "0", "-n", "2", "-r", "1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("NaN", done.stderr)

    def test_past_the_reach_of_half_precision(self):
        config, tensors = silent_gpt2(n_embd=2, n_head=1, n_layer=1, activation_function="relu")
        tensors["h.0.mlp.c_fc.bias"] = ([8], [300.0] + [0.0] * 7)
        tensors["h.0.mlp.c_proj.weight"] = ([8, 2], [300.0, -300.0] + [0.0] * 14)
        tensors = {name: (shape, numbers, "F16") for name, (shape, numbers) in tensors.items()}
        got = self.run_sites(self.model(config, tensors), "mlp_out,resid_post,logits", [1])
        self.assertEqual(got["mlp_out.0"][1].tolist(), [90000.0, -90000.0])
        self.assertEqual(got["resid_post.0"][1].tolist(), [90000.0, -90000.0])
        self.assertTrue(all(map(math.isfinite, got["logits"][1])))

    def test_no_best_key_among_nan(self):
        config, tensors = toys.gpt2(vocab_size=256)
        tensors["wte.weight"][1][65 * 8] = math.nan
        model = self.model(config, tensors)
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        done = toys.headscope("look", "-m", model, "bcAd", "--layer", "1", "--pos", "3")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("finite", done.stderr)


class X13_TwoVocabularies(Case):
    def with_tokenizer(self, vocab_size):
        config, tensors = toys.gpt2(vocab_size=vocab_size)
        model = self.model(config, tensors, str(vocab_size))
        (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
        return model

    def test_more_rows_than_tokens(self):
        model = self.with_tokenizer(300)
        got = toys.run(model, self.folder, "logits", extra=("--text", "hi"))
        self.assertEqual(got["logits"][0], [2, 300])
        info = toys.headscope("info", "-m", model)
        self.assertEqual(info.returncode, 0, info.stderr)
        for number in ("300", "256"):
            self.assertIn(number, info.stdout + info.stderr)

    def test_fewer_rows_than_tokens(self):
        model = self.with_tokenizer(100)
        self.assertEqual(toys.run(model, self.folder, "logits", extra=("--text", "AB"))["logits"][0], [2, 100])
        out = self.folder / "past.safetensors"
        done = toys.headscope("run", "-m", model, "--text", "Az", "--sites", "logits", "-o", out)  # z is 122
        self.assertEqual(done.returncode, 1)
        for number in ("122", "100"):
            self.assertIn(number, done.stderr)
        self.assertFalse(out.exists())


class SentenceTransformers(Case):
    def test_the_folder_that_modules_names(self):
        config, tensors = toys.gpt2()
        self.model(config, tensors, "whole/0_Transformer")
        modules = self.folder / "whole" / "modules.json"
        kinds = ("sentence_transformers.models.Pooling", "sentence_transformers.models.Transformer")
        modules.write_text(json.dumps([{"idx": i, "path": path, "type": kind} for i, (path, kind) in
                                       enumerate(zip(("1_Pooling", "0_Transformer"), kinds))]))
        got = self.run_sites(self.folder / "whole", "logits", [1, 2])
        inner = self.run_sites(self.folder / "whole" / "0_Transformer", "logits", [1, 2])
        self.assertEqual(got["logits"][1].tobytes(), inner["logits"][1].tobytes())
        modules.write_text(json.dumps([{"path": "../other", "type": kinds[1]}]))
        self.refused(self.folder / "whole", "config.json")


class MoreRefusals(Case):
    """Settings that another family has, or that nothing here computes, are named and never ignored."""

    def test_of_llama_like_ones(self):
        config, tensors = toys.llama()
        for kind, changes, word in (
                ("llama", {"rope_scaling": {"rope_type": "foo", "factor": 2.0}}, "foo"),
                ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
                ("mistral", {"layer_types": ["full_attention"] * 2}, "layer_types"),
                ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "sliding_window"),
                ("qwen2", {"layer_types": ["linear_attention"] * 2}, "linear_attention"),
                ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
                ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping")):
            with self.subTest(kind=kind, word=word):
                extended = {**tensors, **{f"model.layers.{i}.self_attn.{n}_proj.bias": filled([d])
                                          for i in range(2) for n, d in (("q", 8), ("k", 4), ("v", 4))}}
                changed = {**config, "model_type": kind, "head_dim": 4, **changes}
                self.refused(self.model(changed, extended, kind + word), word)

    def test_of_encoders(self):
        for kind, changes, word in (("bert", {"is_decoder": True}, "is_decoder"),
                                    ("bert", {"position_embedding_type": "relative_key"}, "relative_key"),
                                    ("bert", {"hidden_act": "bogus"}, "bogus"),
                                    ("bert", {"hidden_size": 10, "num_attention_heads": 4}, "10")):
            self.refused(self.model({"model_type": kind, **changes}, {}, word), word)


if __name__ == "__main__":
    if not os.access(toys.PROGRAM, os.X_OK):
        print(f"skipped: no program at {toys.PROGRAM}")
        sys.exit(77)
    unittest.main()
