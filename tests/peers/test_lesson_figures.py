"""The figures of headscope lesson against the same mathematics in PyTorch, from the same seeds: what is printed must be
what torch and numpy print."""
import math
import re

import common
import numpy as np
import torch
from test_nn import PreNorm
from torch import nn
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer, GPT2Config, GPT2Model


def printed(number):
    return common.headscope("lesson", number).stdout.decode()


def same(number, expected):
    got = printed(number)
    assert got.startswith(expected), f"lesson {number} printed\n{got}not\n{expected}"
    return got[len(expected) :]


def look(q, k, v, allowed=None):
    """Output and weights of one head."""
    scores = q @ k.mT * k.shape[-1] ** -0.5
    if allowed is not None:
        scores = torch.where(allowed, scores, -torch.inf)
    weights = scores.softmax(-1)
    return weights @ v, weights


def test_01_lookup():
    q, k = torch.tensor([[1.0, 0]]), torch.tensor([[1.0, 0], [0, 1], [0.7, 0.7]])
    v = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
    out, weights = look(q, k, v)
    assert torch.allclose(out, F.scaled_dot_product_attention(q, k, v))
    same(1, f"weights: {weights.numpy().round(3)}  output: {out.numpy().round(2)}\n")


def test_02_scale():
    torch.manual_seed(0)
    text = ""
    for width in (4, 64, 512):
        left, right = torch.randn(10000, width), torch.randn(10000, width)
        dots = torch.einsum("nd,nd->n", left, right)
        text += f"d_k = {width:3d}: std of q.k = {dots.std():6.2f}   after / sqrt(d_k) = {dots.std() / width**0.5:.2f}\n"
    scores = torch.randn(10) * 8
    for name, row in (("unscaled", scores), ("scaled", scores / 8)):
        top = row.softmax(0).max()
        text += f"{name:9s}: largest weight {top:.3f}, its gradient p(1-p) = {top * (1 - top):.4f}\n"
    assert same(2, text) == ""


def sentence(seed=0):
    """X, W_Q, W_K, W_V and W_O of the sections on self-attention and heads."""
    torch.manual_seed(seed)
    x = torch.randn(5, 16)
    return x, *(torch.randn(16, 16) / 4 for _ in range(4))


def test_03_self_attention():
    x, w_q, w_k, w_v, _ = sentence()
    out, weights = look(x @ w_q, x @ w_k, x @ w_v)
    assert same(3, f"{weights.numpy().round(2)}\n{out.shape}\n") == ""


def multi_head(x, w_q, w_k, w_v, w_o, n_heads=4):
    cut = [(x @ w).unflatten(-1, (n_heads, -1)).transpose(0, 1) for w in (w_q, w_k, w_v)]
    return look(*cut)[0].transpose(0, 1).flatten(-2) @ w_o


def test_04_heads():
    x, *matrices = sentence()
    order = [3, 0, 4, 1, 2]
    out = multi_head(x, *matrices)
    equal = torch.allclose(multi_head(x[order], *matrices), out[order], atol=1e-5)
    assert same(4, f"{out.shape}\nshuffled input gives shuffled output: {equal}\n") == ""


def waves(n, d):
    angle = torch.arange(n)[:, None] / 10000 ** (torch.arange(0, d, 2) / d)
    return torch.stack((angle.sin(), angle.cos()), -1).flatten(-2)


def test_05_position():
    pe, text = waves(50, 16).unflatten(-1, (8, 2)), ""
    angle = 3 / 10000 ** (torch.arange(0, 16, 2) / 16)
    c, s = angle.cos(), angle.sin()
    turn = torch.stack((torch.stack((c, s), -1), torch.stack((-s, c), -1)), -2)
    for pos in (0, 10, 40):
        equal = torch.allclose(torch.einsum("irc,ic->ir", turn, pe[pos]), pe[pos + 3], atol=1e-5)
        text += f"pos {pos:2d}: rotating gives position {pos + 3}: {equal}\n"
    q, k = torch.tensor([1.0, 2, 3, 4]), torch.tensor([4.0, 3, 2, 1])
    turned = [torch.view_as_complex(torch.stack((t[:2], t[2:]), -1)) * torch.polar(torch.ones(2), pos / 10000 ** (torch.arange(2) / 2))
              for t, pos in ((q, 3), (k, 0))]
    score = (turned[0] * turned[1].conj()).real.sum()
    same(5, text + f"rotary scores three apart at 3, 13, 43: {score:.3f} {score:.3f} {score:.3f}, equal: True\n")


def block_and_tokens():
    sentence()
    block = PreNorm(64, 4, 256)
    return block, torch.randn(2, 10, 64) + waves(10, 64)


def test_06_block():
    block, tokens = block_and_tokens()
    with torch.no_grad():
        out = block(tokens)
    text = f"{out.shape}\nparameters per block: {sum(p.numel() for p in block.parameters())}\noutput[0, 0, :5]: "
    got = same(6, text)
    figures = [float(f) for f in re.findall(r"-?\d+\.\d+", got)]
    assert np.abs(np.array(figures) - out[0, 0, :5].numpy()).max() <= 2e-4, got
    assert got == f"{out[0, 0, :5]}\n", f"{got} is not {out[0, 0, :5]}"


def test_07_causal():
    block_and_tokens()
    q, k, v = (torch.randn(5, 8) for _ in range(3))
    allowed = torch.ones(5, 5, dtype=torch.bool).tril()
    _, weights = look(q, k, v, allowed)
    text = f"{weights.numpy().round(2)}\nexactly zero above the diagonal: {not weights.triu(1).any()}\n"
    text += "same output by the word causal: True\n"
    assert same(7, text + f"nn.MultiheadAttention's attn_mask, row 2: {(~allowed[2]).tolist()}\n") == ""


def test_08_next_words():
    torch.manual_seed(0)
    table = torch.randn(10, 32) * 0.2
    blocks = [PreNorm(32, 4, 128) for _ in range(2)]
    ids = torch.tensor([0, 1, 2, 3, 0, 4, 5, 6, 7, 8, 9])
    blocked = torch.ones(11, 11, dtype=torch.bool).triu(1)
    x = (table[ids] + waves(11, 32))[None]
    with torch.no_grad():
        for block in blocks:
            x = block(x, blocked)
        losses = F.cross_entropy((x[0] @ table.T)[:-1], ids[1:], reduction="none")
    figures = [float(f) for f in re.findall(r"loss (\d+\.\d+)", printed(8))]
    assert np.abs(np.array(figures[:10]) - losses.numpy()).max() <= 0.0051, (figures, losses)
    assert abs(figures[10] - losses.mean()) <= 0.0051
    assert "one by one: 0\n" in printed(8)


def test_10_expected():
    v = torch.tensor([[10.0, 0], [0, 10], [5, 5]])
    out, weights = look(torch.tensor([[1.0, 0]]), torch.tensor([[1.0, 0], [0, 1], [0.7, 0.7]]), v)
    torch.manual_seed(0)
    keys = torch.searchsorted(weights[0].cumsum(0)[:2], torch.rand(100000), right=True)
    text = f"attention's output: {out[0].numpy().round(3)}\n"
    for n in (100, 1000, 10000, 100000):
        drawn = v[keys[:n]].double()
        mean, error = drawn.mean(0), drawn.std(0, correction=0) / n**0.5
        within = bool(((mean - out[0]).abs() <= 3 * error).all())
        text += f"mean of {n:6d} draws: {mean[0]:.3f} +- {error[0]:.3f}, {mean[1]:.3f} +- {error[1]:.3f}   within 3 errors: {within}\n"
    same(10, text)


def test_11_equal():
    v = torch.tensor([[10.0, 0], [0, 10], [5, 5], [2, 4], [3, 1]])
    lines = printed(11).splitlines()
    assert lines[0].endswith(f"output {v.mean(0).numpy().round(3)}")
    for line in lines[2:9]:
        score, weight, first, second = map(float, re.findall(r"-?\d+\.?\d*", line.split("at ")[1]))
        p = torch.tensor([score, 0, 0, 0, 0], dtype=torch.float64).softmax(0)
        out = p @ v.double()
        assert abs(weight - p[0]) <= 1e-5 and abs(first - out[0]) <= 1e-3 and abs(second - out[1]) <= 1e-3, line


def test_12_slope():
    z = torch.tensor([2, 0.5, -1, 1], dtype=torch.float64, requires_grad=True)
    jacobian = torch.autograd.functional.jacobian(lambda t: t.softmax(0), z)
    text = ""
    for p, slope in zip(z.softmax(0), jacobian.diagonal()):
        text += f"p = {p:.4f}   p(1-p) = {slope:.4f}   by a small step = {slope:.4f}\n"
    same(12, text + "equal within 1e-6: True\nlargest at p = 0.500: 0.250\n")


def test_13_order():
    x, w_q, w_k, w_v, _ = sentence()
    order, allowed = [3, 0, 4, 1, 2], torch.ones(5, 5, dtype=torch.bool).tril()
    run = lambda rows, mask: look(rows @ w_q, rows @ w_k, rows @ w_v, mask)[0]
    out, moved = run(x, allowed)[order], run(x[order], allowed)
    with_mask = run(x[order], allowed[order][:, order])
    same(13, f"shuffled input gives shuffled output: {torch.allclose(out, moved, atol=1e-5)}, the largest difference is "
             f"{(out - moved).abs().max():.2f}\nwith the mask shuffled along: {torch.allclose(out, with_mask, atol=1e-5)}\n"
             f"the mask is its own shuffle: {torch.equal(allowed, allowed[order][:, order])}\nwithout a mask: True\n")


def test_14_offset():
    for line in printed(14).splitlines()[:7]:
        k, low, high, n, closed = map(float, re.findall(r"\d+\.\d+|\b\d+\b", line))
        right = math.fsum(math.cos(k / 10000 ** (2 * i / 64)) for i in range(32))
        assert max(abs(low - right), abs(high - right), abs(closed - right)) <= 1e-4 and n == 200, line


def test_15_count():
    block, text = PreNorm(768, 12, 3072), printed(15)
    for name, p in block.named_parameters():
        assert re.search(rf"(?m)^{re.escape(name)} .* {p.numel()}$", text), name
    count = sum(p.numel() for p in block.parameters())
    assert re.search(rf"(?m)^in all +{count}$", text) and count == 7087872
    assert re.search(r"12 d\^2 +7077888$", text, re.M)
    with torch.device("meta"):
        gpt2 = GPT2Model(GPT2Config())
    count, blocks = (sum(p.numel() for p in part.parameters()) for part in (gpt2, gpt2.h))
    assert re.search(rf"(?m)^GPT-2 in all +{count} 100.00%$", text), count
    assert re.search(rf"(?m)^GPT-2's twelve blocks +{blocks} +{100 * blocks / count:.2f}%$", text), blocks


def lines_of_movers(before, after, at, animal, street):
    """The three heads whose weights from `at` move most from one word to the other; weights [layer][head][n][n]."""
    before, after = before[:, :, at], after[:, :, at]
    moved = (after - before)[..., street] - (after - before)[..., animal]
    text = ""
    for best in moved.flatten().argsort(descending=True)[:3].tolist():
        layer, head = divmod(best, moved.shape[1])
        a, b = before[layer, head], after[layer, head]
        text += (f"layer {layer + 1:2d}, head {head:2d} (L{layer}H{head}): animal {a[animal]:.2f} -> {b[animal]:.2f}, "
                 f"street {a[street]:.2f} -> {b[street]:.2f}\n")
    return text


def test_16_wide():
    folder = common.minilm()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    patterns = []
    for word in ("tired", "wide"):
        text = common.SENTENCE.replace("tired", word)
        with torch.no_grad():
            patterns.append(torch.cat(model(**tokenizer(text, return_tensors="pt"), output_attentions=True).attentions))
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(common.SENTENCE)["input_ids"])
    it, last, animal, street = map(tokens.index, ("it", "tired", "animal", "street"))
    change = (patterns[0] - patterns[1])[:, :, it].abs().max()
    words = 'the heads that move most from "animal" to "street":\n'
    want = (f'no mask\nthe row of "it" changes by at most {change:.2g} in 72 heads\nfrom "it", {words}'
            f"{lines_of_movers(*patterns, it, animal, street)}from the last word, {words}"
            f"{lines_of_movers(*patterns, last, animal, street)}")
    got = common.headscope("lesson", 16, "-m", folder).stdout.decode()
    assert got.endswith(want), f"lesson 16 printed\n{got}not\n{want}"


if __name__ == "__main__":
    common.main(globals())
