"""Sequences packed end to end against transformers' way with several prompts: left padding and a mask (case B17). Both
must give each prompt what it gives alone."""
import json
import sys

import common
import torch

import checkpoints as make
import reference

sys.path.insert(0, str(common.SOURCE / "tests" / "golden"))
import toys  # noqa: E402

LINES = ["because it was too tired", "The cat", "a", "The cat sat"]
SITES = ["pattern", "resid_post", "q", "k", "logits"]


def padded(model, prompts):
    """Patterns and logits of left-padded prompts, cut back to each prompt's own tokens."""
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    with torch.no_grad():
        out = model(ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0), output_attentions=True)
    for b, prompt in enumerate(prompts):
        pad = longest - len(prompt)
        sites = {f"pattern.{i}": layer[b, :, pad:, pad:].numpy() for i, layer in enumerate(out.attentions)}
        yield {**sites, "logits": out.logits[b, pad:].numpy()}


def test_packed_and_padded():
    report = common.Report()
    for base, build in ((make.GPT2, make.gpt2_tensors), (make.LLAMA, make.llama_tensors)):
        config = make.configuration(base, vocab_size=256)
        tensors = build(config, 31)
        prompts = [list(line.encode()) for line in LINES]
        with common.scratch() as folder:
            make.calibrate(folder / "work", config, tensors, max(prompts, key=len), 31)
            model = make.write_folder(folder / config["model_type"], config, tensors)
            (model / "tokenizer.json").write_text(json.dumps(toys.byte_tokenizer()))
            text = folder / "lines.txt"
            text.write_text("".join(line + "\n" for line in LINES))
            packed = common.run_sites(model, folder, SITES, source=["--file", text])
            peer = make.open_with_transformers(model)
            for s, (prompt, batch) in enumerate(zip(prompts, padded(peer, prompts))):
                mine = {name.removesuffix(f".seq{s}"): value for name, value in packed.items()
                        if name.endswith(f".seq{s}")}
                f32, f64 = reference.both(peer, prompt)
                wanted = {name: value for name, value in f32.items() if name.split(".")[0] in SITES}
                report.compare(f"{config['model_type']} packed", mine, wanted, f64)
                for name, value in batch.items():
                    site = name.split(".")[0]
                    off = common.deviation(site, mine[name], value)
                    assert off <= (common.PATTERN_BAR if site == "pattern" else common.ROW_BAR), \
                        f"sequence {s}: {name} is {off:.1e} from transformers' padded batch"
    report.finish()


if __name__ == "__main__":
    common.main(globals())
