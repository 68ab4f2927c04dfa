"""headscope detect beside TransformerLens's detect_head, on a random GPT-2 that both read: previous, duplicate and induction by
its "mul" measure, on random sequences that PyTorch draws here by the rule of docs/detectors.md."""
import importlib.util
import json
import pathlib

import common
import checkpoints
import torch

BAR = 1e-4
SEQUENCES, LENGTH, SEED = 4, 20, 3


def draw(d_vocab):
    """Ids one by one, those that stand in the half already left out; from 0, since the vocabulary is small."""
    torch.manual_seed(SEED)
    for _ in range(SEQUENCES):
        half = []
        while len(half) < LENGTH:
            token = torch.randint(0, d_vocab, (1,)).item()
            if token not in half:
                half.append(token)
        yield torch.tensor([half + half])


def load(folder):
    """A HookedTransformer built from a config, all processing off, with the weights of a GPT-2 folder."""
    from transformer_lens import HookedTransformer, HookedTransformerConfig
    from transformer_lens.pretrained.weight_conversions import convert_gpt2_weights
    from transformers import GPT2LMHeadModel
    model = GPT2LMHeadModel.from_pretrained(folder, dtype=torch.float32).eval()
    c = model.config
    config = HookedTransformerConfig(
        n_layers=c.n_layer, d_model=c.n_embd, n_ctx=c.n_positions, d_head=c.n_embd // c.n_head, n_heads=c.n_head,
        d_vocab=c.vocab_size, act_fn="gelu_new", normalization_type="LN", eps=c.layer_norm_epsilon, device="cpu")
    hooked = HookedTransformer(config)
    hooked.load_state_dict(convert_gpt2_weights(model, config), strict=False)
    return hooked


def test_encoder():
    """Of an encoder-decoder the encoder's heads: mean weights on the token before, itself and after, on the random
    sequences."""
    import encdec
    import test_parity_encdec as parity
    for seed, base in enumerate((parity.T5, parity.BART), start=1210):
        with common.scratch() as folder:
            config = checkpoints.configuration(base, **({} if base is parity.T5 else parity.UNEVEN))
            model = encdec.make_model(config, seed)
            sequences = list(draw(config["vocab_size"]))
            encdec.calibrate(model, sequences[0][0].tolist(), [1, 2, 3], seed)
            path = encdec.save(model, pathlib.Path(folder) / base["model_type"], config)
            model = encdec.load(path)
            done = common.headscope("detect", "-m", path, "--sequences", SEQUENCES, "--length", LENGTH, "--seed", SEED, "--json")
            data = json.loads(done.stdout)
            assert data["side"] == "encoder" and b"heads of its encoder" in done.stderr, done.stderr
            offsets, want = {"previous": -1, "self": 0, "next": 1}, {}
            for tokens in sequences:
                with torch.no_grad():
                    patterns = torch.stack(model.get_encoder()(tokens, output_attentions=True).attentions)[:, 0].double()
                for name, offset in offsets.items():
                    mean = torch.diagonal(patterns, offset, 2, 3)[..., offset >= 0 :].mean(-1)  # row 0 is left out
                    want[name] = want.get(name, 0) + mean / SEQUENCES
            worst = max(abs(head["scores"][name]["score"] - float(want[name][head["layer"], head["head"]]))
                        for head in data["heads"] for name in offsets)
            print(f"{base['model_type']}: {len(data['heads'])} heads, at most {worst:.1e} from transformers")
            assert len(data["heads"]) == want["self"].numel() and worst < BAR


def test_gpt2():
    common.require(importlib.util.find_spec("transformer_lens"), "TransformerLens is not here")
    from transformer_lens import head_detector
    with common.scratch() as folder:
        config = checkpoints.configuration(checkpoints.GPT2)
        path = pathlib.Path(folder) / "model"
        tensors = checkpoints.random_tensors(config, SEED)
        checkpoints.calibrate(pathlib.Path(folder) / "scratch", config, tensors, next(draw(config["vocab_size"]))[0].tolist(),
                              SEED)
        checkpoints.write_folder(path, config, tensors)
        hooked = load(path)
        done = common.headscope("detect", "-m", path, "--sequences", SEQUENCES, "--length", LENGTH, "--seed", SEED, "--json")
        heads = json.loads(done.stdout)["heads"]
        names = {"previous": "previous_token_head", "duplicate": "duplicate_token_head", "induction": "induction_head"}
        want = {name: torch.zeros(config["n_layer"], config["n_head"]) for name in names}
        for tokens in draw(config["vocab_size"]):
            _, cache = hooked.run_with_cache(tokens)
            for name, tl_name in names.items():
                pattern = getattr(head_detector, f"get_{tl_name}_detection_pattern")(tokens)
                for layer in range(config["n_layer"]):
                    for head in range(config["n_head"]):
                        want[name][layer, head] += head_detector.compute_head_attention_similarity_score(
                            cache["pattern", layer][0, head], detection_pattern=pattern, exclude_bos=False,
                            exclude_current_token=False, error_measure="mul") / SEQUENCES
        for name in names:
            worst = max(abs(h["scores"][name]["tl"] - want[name][h["layer"], h["head"]].item()) for h in heads)
            spread = want[name].max() - want[name].min()
            print(f"  {name}: {len(heads)} heads between {want[name].min():.3f} and {want[name].max():.3f}, "
                  f"at most {worst:.1e} from detect_head")
            assert worst <= BAR, (name, worst)
            assert spread > 10 * BAR, "heads that are all alike show nothing"


if __name__ == "__main__":
    common.main(globals())
