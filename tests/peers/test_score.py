"""Log-probabilities and perplexity against PyTorch, over strided windows as in the perplexity guide of transformers."""
import json

import common
import torch

import checkpoints as make


def windows(model, ids, max_length, stride):
    """Each token's log-probability in the first window that holds it, and the guide's own perplexity."""
    scores, previous, total, counted = [None], 0, 0.0, 0
    for begin in range(0, len(ids), stride):
        end = min(begin + max_length, len(ids))
        part = torch.tensor([ids[begin:end]])
        target = part.clone()
        target[:, : -(end - previous)] = -100
        with torch.no_grad():
            out = model(part, labels=target)
        table = torch.log_softmax(out.logits[0].double(), -1)
        for at in range(max(previous, 1), end):
            scores.append(float(table[at - begin - 1, ids[at]]))
        # The loss is a mean over the targets behind the first token of the window.
        n = int((target[:, 1:] != -100).sum())
        total, counted, previous = total + float(out.loss) * n, counted + n, end
        if end == len(ids):
            break
    return scores, float(torch.exp(torch.tensor(total / counted)))


def judge(name, path, model, text, settings):
    make.use_threads()
    for max_length, stride in settings:
        data = json.loads(common.headscope("score", "-m", path, "--json", text, "--max-length", max_length, "--stride", stride).stdout)
        ids = [token["id"] for token in data["tokens"]]
        want, perplexity = windows(model, ids, max_length, stride)
        worst = max(abs(token["log_prob"] - score) for token, score in zip(data["tokens"][1:], want[1:]))
        assert len(want) == len(ids) and worst < 2e-4, f"{name}: {worst} nats away"
        assert abs(data["perplexity"] / perplexity - 1) < 1e-4, f"{name}: {data['perplexity']} is not {perplexity}"
        print(f"{name} {max_length}/{stride}: {len(ids)} tokens within {worst:.1e} nats, perplexity {perplexity:.4f}", flush=True)


def test_tinystories():
    home = common.require_data("models", "tinystories-656k")
    text = "Once upon a time, there was a little cat named Tom. Tom had a big red ball, and he loved it very much. " * 8
    judge("tinystories", home, make.open_with_transformers(home), text, ((64, 16), (100, 99), (512, 256)))


def test_smollm2():
    path = common.smollm2()
    judge("smollm2", path, make.open_gguf(path), common.SENTENCE + ". " + "It was too wide and it was late. " * 4, ((32, 16), (64, 48)))


if __name__ == "__main__":
    common.main(globals())
