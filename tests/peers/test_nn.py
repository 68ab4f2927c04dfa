"""The layers of headscope/nn.h against torch: outputs, and every derivative against autograd's, in float64 where torch
computes and float32 here, on odd sizes. A figure is off by at most BAR of the largest magnitude of its tensor."""
import ctypes
import math

import common
import library
import numpy as np
import torch
from library import address, linear, linear_grad
from torch import nn
from torch.nn import functional as F

# Sums of a few hundred float32 products, in a handful of layers, each good to about 1e-6 of its largest value.
BAR = 1e-5
f32, f64 = np.float32, torch.float64


def nn_calls():
    return library.Layers(library.load())


def draw(*shape, scale=1.0):
    return (torch.randn(shape, dtype=f64) * scale).to(torch.float32)


def a(tensor):
    """A numpy copy in float32."""
    return np.ascontiguousarray(tensor.detach().numpy(), f32)


def leaf(tensor):
    return tensor.to(f64).requires_grad_()


def check(what, mine, theirs, bar=BAR, least=1e-3):
    """`least`: what a magnitude counts at least, where all of a small tensor may cancel."""
    theirs = theirs.detach().numpy().astype(np.float64).reshape(mine.shape)
    assert np.isfinite(mine).all(), f"{what}: not finite"
    size = np.abs(theirs).max(initial=0)
    off = np.abs(mine - theirs).max(initial=0)
    assert off <= bar * max(size, least), f"{what}: {off:.2e} away where the largest is {size:.2e}"


def test_linear():
    call = nn_calls()
    torch.manual_seed(1)
    for n_rows, n_in, n_out in ((1, 1, 1), (3, 5, 7), (17, 33, 9), (65, 300, 130), (2, 1000, 3)):
        for in_out in (False, True):
            x, w, b = leaf(draw(n_rows, n_in)), leaf(draw(n_out, n_in)), leaf(draw(n_out))
            dy = draw(n_rows, n_out)
            y = F.linear(x, w, b)
            y.backward(dy.to(f64))
            stored, dw_right = (w.T, w.grad.T) if in_out else (w, w.grad)
            wa, ba, xa, dya = a(stored), a(b), a(x), a(dy)
            mine, dx, dw, db = (np.zeros(s, f32) for s in (y.shape, x.shape, wa.shape, b.shape))
            map_, grad = linear(wa, ba, in_out), linear_grad(dw, db)
            call("linear_forward", map_, xa, n_rows, mine)
            call("linear_backward", map_, xa, dya, n_rows, dx, grad)
            for name, got, right in (("y", mine, y), ("dx", dx, x.grad), ("dw", dw, dw_right), ("db", db, b.grad)):
                check(f"linear {n_rows} {n_in} {n_out} {in_out} {name}", got, right)


def test_softmax_and_loss():
    call = nn_calls()
    torch.manual_seed(2)
    for n_rows, n in ((1, 1), (3, 7), (5, 65), (33, 1001)):
        x, dy = leaf(draw(n_rows, n, scale=4)), draw(n_rows, n)
        y = x.softmax(-1)
        y.backward(dy.to(f64))
        mine, dx = np.zeros((n_rows, n), f32), np.zeros((n_rows, n), f32)
        call("softmax_forward", a(x), n_rows, n, mine)
        call("softmax_backward", mine, a(dy), n_rows, n, dx)
        check("softmax", mine, y)
        check("softmax dx", dx, x.grad)
        x.grad = None
        targets = torch.randint(0, n, (n_rows,))
        losses = F.cross_entropy(x, targets, reduction="none")
        weights = draw(n_rows)
        losses.backward(weights.to(f64))
        got, dx = np.zeros(n_rows, f32), np.zeros((n_rows, n), f32)
        ids = targets.numpy().astype(np.int32)
        call("cross_entropy_forward", a(x), ids, n_rows, n, got)
        call("cross_entropy_backward", a(x), ids, a(weights), n_rows, n, dx)
        check("loss", got, losses)
        check("loss dx", dx, x.grad)


def test_norms():
    call = nn_calls()
    torch.manual_seed(3)
    for shape in ((1, 1, 2), (2, 3, 7), (3, 5, 64), (1, 2, 999)):
        n, n_rows = shape[-1], math.prod(shape[:-1])
        for eps in (1e-5, 1e-12):
            x, g, b, dy = leaf(draw(*shape) + 3), leaf(draw(n)), leaf(draw(n)), draw(*shape)
            y = F.layer_norm(x, (n,), g, b, eps)
            y.backward(dy.to(f64))
            mine, dx, dg, db = (np.zeros(s, f32) for s in (shape, shape, n, n))
            e = ctypes.c_float(eps)
            call("layer_norm_forward", a(x), a(g), a(b), e, n_rows, n, mine)
            call("layer_norm_backward", a(x), a(g), e, a(dy), n_rows, n, dx, dg, db)
            bar = 1e-4 if n == 2 else BAR  # two values: mean and difference cancel
            for name, got, right in (("y", mine, y), ("dx", dx, x.grad), ("dgain", dg, g.grad), ("dbias", db, b.grad)):
                check(f"layer norm {shape} {eps} {name}", got, right, bar)
            x.grad = g.grad = None
            y = F.rms_norm(x, (n,), g, eps)
            y.backward(dy.to(f64))
            mine, dx, dg = (np.zeros(s, f32) for s in (shape, shape, n))
            call("rms_norm_forward", a(x), a(g), e, n_rows, n, mine)
            call("rms_norm_backward", a(x), a(g), e, a(dy), n_rows, n, dx, dg)
            for name, got, right in (("y", mine, y), ("dx", dx, x.grad), ("dgain", dg, g.grad)):
                check(f"RMS norm {shape} {eps} {name}", got, right)


def activation(name, x):
    return {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "silu": F.silu,
            "tanh": torch.tanh}[name](x)


def test_activations():
    call = nn_calls()
    torch.manual_seed(4)
    for n in (1, 5, 4097):
        for kind, name in enumerate(library.ACTIVATIONS):
            x, u, dy = leaf(draw(n, scale=3)), leaf(draw(n)), draw(n)
            y = activation(name, x)
            y.backward(dy.to(f64))
            mine, dx, du = (np.zeros(n, f32) for _ in range(3))
            call("activation_forward", kind, a(x), ctypes.c_size_t(n), mine)
            call("activation_backward", kind, a(x), a(dy), ctypes.c_size_t(n), dx)
            check(f"{name} y", mine, y, least=1)
            check(f"{name} dx", dx, x.grad, least=1)
            x.grad = None
            y = activation(name, x) * u
            y.backward(dy.to(f64))
            dx[:] = 0
            call("gate_forward", kind, a(x), a(u), ctypes.c_size_t(n), mine)
            call("gate_backward", kind, a(x), a(u), a(dy), ctypes.c_size_t(n), dx, du)
            for what, got, right in (("y", mine, y), ("dgate", dx, x.grad), ("dup", du, u.grad)):
                check(f"{name} gate {what}", got, right, least=1)


def rotate(x, positions, interleaved, n_rotated, base):
    """x [outer][pos][inner][d] by the definition, in float64 but for the angles, which are float32 at every step."""
    half = n_rotated // 2
    exponent = np.arange(0, n_rotated, 2, dtype=f32) / f32(n_rotated)
    frequency = f32(1) / (base ** exponent.astype(np.float64)).astype(f32)
    angle = torch.from_numpy(positions.numpy().astype(f32)[:, None] * frequency).to(f64)
    c, s = angle.cos()[:, None], angle.sin()[:, None]
    turned, rest = x[..., :n_rotated], x[..., n_rotated:]
    if interleaved:
        left, right = turned[..., 0::2], turned[..., 1::2]
        turned = torch.stack((left * c - right * s, right * c + left * s), -1).flatten(-2)
    else:
        left, right = turned[..., :half], turned[..., half:]
        turned = torch.cat((left * c - right * s, right * c + left * s), -1)
    return torch.cat((turned, rest), -1)


def test_rope():
    call = nn_calls()
    torch.manual_seed(5)
    for outer, n_pos, inner, d, n_rotated in ((1, 3, 1, 4, 0), (2, 5, 3, 6, 4), (3, 17, 2, 64, 64)):
        for interleaved in (0, 1):
            positions = torch.randint(0, 3000, (n_pos,))
            x, dy = leaf(draw(outer, n_pos, inner, d)), draw(outer, n_pos, inner, d)
            y = rotate(x, positions, interleaved, n_rotated or d, 10000.0)
            y.backward(dy.to(f64))
            rope, at = library.Rope(d, n_rotated, interleaved, 0.0), positions.numpy().astype(np.int32)
            mine, dx = np.zeros(x.shape, f32), np.zeros(x.shape, f32)
            call("rope_forward", rope, a(x), at, outer, n_pos, inner, mine)
            call("rope_backward", rope, a(dy), at, outer, n_pos, inner, dx)
            check("rope", mine, y)
            check("rope dx", dx, x.grad)


def masks(n_batch, n_heads, n_query, n_key):
    """(mask struct, what it keeps alive, boolean tensor for torch) of each kind."""
    yield None, None, None
    square = n_query == n_key
    for shape in ((n_query, n_key), (n_batch, 1, n_query, n_key), (n_heads, n_query, n_key),
                  (n_batch, n_heads, n_query, n_key)):
        allowed = torch.rand(shape) < 0.7
        allowed[..., 0, :] = False  # one query that sees nothing
        table = np.ascontiguousarray(allowed.numpy().astype(np.uint8))
        yield library.Mask(address(table), len(shape) == 4, shape[-3] == n_heads if len(shape) > 2 else 0), table, allowed
    rows, cols = torch.arange(n_query)[:, None] + n_key - n_query, torch.arange(n_key)
    if n_query <= n_key:
        yield library.Mask(None, 0, 0, 1, 0), None, cols <= rows
        yield library.Mask(None, 0, 0, 1, 3), None, (cols <= rows) & (cols > rows - 3)
    if square:
        allowed = torch.rand(n_query, n_key) < 0.8
        table = np.ascontiguousarray(allowed.numpy().astype(np.uint8))
        yield library.Mask(address(table), 0, 0, 1, 2), table, allowed & (cols <= rows) & (cols > rows - 2)


def test_attention():
    call = nn_calls()
    torch.manual_seed(6)
    for b, h, kv, n_query, n_key, d_k, d_v in ((1, 1, 1, 1, 1, 1, 1), (2, 3, 3, 5, 5, 4, 4), (2, 4, 2, 7, 9, 5, 3),
                                               (1, 2, 1, 33, 33, 8, 16), (1, 1, 1, 3, 600, 64, 64), (2, 2, 2, 300, 300, 7, 7)):
        for mask, table, allowed in masks(b, h, n_query, n_key):
            what = f"attention {(b, h, kv, n_query, n_key, d_k, d_v)} {mask and (mask.per_batch, mask.per_head, mask.causal, mask.window)}"
            q, k, v = leaf(draw(b, h, n_query, d_k)), leaf(draw(b, kv, n_key, d_k)), leaf(draw(b, kv, n_key, d_v))
            dout = draw(b, h, n_query, d_v)
            scores = q @ k.repeat_interleave(h // kv, 1).transpose(-2, -1) / math.sqrt(d_k)
            if allowed is not None:
                scores = scores.masked_fill(~allowed, float("-inf"))
            w = scores.softmax(-1)
            if allowed is not None:
                w = torch.where(allowed.expand(w.shape).any(-1, keepdim=True), w, torch.zeros((), dtype=f64))
            out = w @ v.repeat_interleave(h // kv, 1)
            out.backward(dout.to(f64))
            shape = library.AttentionShape(b, h, kv, n_query, n_key, d_k, d_v)
            mine, weights = np.zeros(out.shape, f32), np.zeros(w.shape, f32)
            call("attention_forward", shape, mask, a(q), a(k), a(v), mine, weights)
            check(f"{what} out", mine, out)
            check(f"{what} weights", weights, w)
            if allowed is not None:
                assert not weights[~allowed.expand(w.shape).numpy()].any(), f"{what}: weight on a masked key"
            without = np.zeros(out.shape, f32)
            call("attention_forward", shape, mask, a(q), a(k), a(v), without, None)
            assert np.array_equal(mine, without), f"{what}: the weights change the output"
            for given in (weights, None):
                dq, dk, dv = (np.zeros(t.shape, f32) for t in (q, k, v))
                call("attention_backward", shape, mask, a(q), a(k), a(v), given, a(dout), dq, dk, dv)
                for name, got, t in (("dq", dq, q), ("dk", dk, k), ("dv", dv, v)):
                    right = torch.nan_to_num(t.grad)  # torch's own softmax of a row without any key
                    check(f"{what} {name}", got, right)


def test_scaled_dot_product_attention():
    """torch's own function, float32 here and there, with the mask the same way round."""
    call = nn_calls()
    torch.manual_seed(7)
    q, k, v = draw(2, 3, 20, 16), draw(2, 3, 20, 16), draw(2, 3, 20, 16)
    allowed = torch.rand(2, 3, 20, 20) < 0.5
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    table, mine = np.ascontiguousarray(allowed.numpy().astype(np.uint8)), np.zeros(out.shape, f32)
    call("attention_forward", library.AttentionShape(2, 3, 3, 20, 20, 16, 16), library.Mask(address(table), 1, 1), a(q),
         a(k), a(v), mine, None)
    check("scaled_dot_product_attention", mine, out)


def test_multihead_attention():
    """nn.MultiheadAttention with its masks turned round."""
    call = nn_calls()
    torch.manual_seed(8)
    b, n, d, h = 2, 9, 12, 3
    module = nn.MultiheadAttention(d, h, batch_first=True).to(f64)
    with torch.no_grad():
        module.in_proj_bias.normal_()
        module.out_proj.bias.normal_()
    x, dy = leaf(draw(b, n, d)), draw(b, n, d)
    blocked = torch.rand(n, n) < 0.3
    blocked.fill_diagonal_(False)
    y, w = module(x, x, x, attn_mask=blocked, average_attn_weights=False)
    y.backward(dy.to(f64))
    table = blocked.numpy().astype(np.uint8)
    call.lib.hsc_nn_mask_invert(call.argument(table), ctypes.c_size_t(table.size), call.argument(table))
    in_w, in_b, out_w, out_b = (a(t) for t in (module.in_proj_weight, module.in_proj_bias, module.out_proj.weight,
                                               module.out_proj.bias))
    q, k, v = (linear(in_w[i * d : (i + 1) * d], in_b[i * d : (i + 1) * d]) for i in range(3))
    heads, mask = library.Heads(h, q, k, v, linear(out_w, out_b)), library.Mask(address(table))
    mine, weights, kept = np.zeros(y.shape, f32), np.zeros(w.shape, f32), call.kept("heads", heads, b, n)
    call("heads_forward", heads, mask, a(x), b, n, mine, weights, kept)
    check("MultiheadAttention y", mine, y)
    check("MultiheadAttention weights", weights, w)
    dx, d_in_w, d_in_b, d_out_w, d_out_b = (np.zeros(t.shape, f32) for t in (x, in_w, in_b, out_w, out_b))
    parts = [linear_grad(d_in_w[i * d : (i + 1) * d], d_in_b[i * d : (i + 1) * d]) for i in range(3)]
    call("heads_backward", heads, mask, a(x), kept, a(dy), b, n, dx, library.HeadsGrad(*parts, linear_grad(d_out_w, d_out_b)))
    for name, got, right in (("dx", dx, x.grad), ("in_proj_weight", d_in_w, module.in_proj_weight.grad),
                             ("in_proj_bias", d_in_b, module.in_proj_bias.grad),
                             ("out_proj.weight", d_out_w, module.out_proj.weight.grad),
                             ("out_proj.bias", d_out_b, module.out_proj.bias.grad)):
        check(f"MultiheadAttention {name}", got, right)


def test_feed_forward():
    call = nn_calls()
    torch.manual_seed(9)
    for kind, name in enumerate(library.ACTIVATIONS):
        for gated in (False, True):
            n, d, f = 7, 5, 11
            x, dy = leaf(draw(n, d)), draw(n, d)
            w1, b1, wg, bg, w2, b2 = (leaf(draw(*s)) for s in ((f, d), (f,), (f, d), (f,), (d, f), (d,)))
            inner = activation(name, F.linear(x, wg, bg)) * F.linear(x, w1, b1) if gated else activation(name, F.linear(x, w1, b1))
            y = F.linear(inner, w2, b2)
            y.backward(dy.to(f64))
            arrays = [a(t) for t in (w1, b1, wg, bg, w2, b2)]
            grads = [np.zeros_like(t) for t in arrays]
            ff = library.FeedForward(linear(*arrays[:2]), linear(*arrays[2:4]) if gated else library.Linear(),
                                     linear(*arrays[4:]), kind)
            grad = library.FeedForwardGrad(linear_grad(*grads[:2]), linear_grad(*grads[2:4]), linear_grad(*grads[4:]))
            mine, dx, kept = np.zeros(y.shape, f32), np.zeros(x.shape, f32), call.kept("feed_forward", ff, n)
            call("feed_forward_forward", ff, a(x), n, mine, kept)
            call("feed_forward_backward", ff, a(x), kept, a(dy), n, dx, grad)
            check(f"{name} feed-forward y", mine, y)
            check(f"{name} feed-forward dx", dx, x.grad)
            for got, t in zip(grads, (w1, b1, wg, bg, w2, b2)):
                check(f"{name} feed-forward", got, t.grad if t.grad is not None else torch.zeros(t.shape))


class PreNorm(nn.Module):
    """The block in PyTorch's own modules, which draw their values in this order; names as in HSC_NN_BLOCK_LIST."""

    def __init__(self, width, heads, hidden):
        super().__init__()
        self.add_module("attn", nn.MultiheadAttention(width, heads, batch_first=True))
        self.add_module("ff", nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, width)))
        for name in ("norm1", "norm2"):
            self.add_module(name, nn.LayerNorm(width))

    def forward(self, x, blocked=None):
        a = self.norm1(x)
        mid = x + self.attn(a, a, a, attn_mask=blocked, need_weights=False)[0]
        return mid + self.ff(self.norm2(mid))


def parameters_of(call, block):
    """{name: (offset, shape)} and how many there are in all."""
    count, found = ctypes.c_int64(), {}
    call("block_count", block, ctypes.byref(count))
    for i in range(12):
        p = library.Parameter()
        call("block_parameter", block, i, p)
        found[p.name.decode()] = (p.offset, tuple(p.shape[: p.n_dims]))
    return found, count.value


def test_block():
    call = nn_calls()
    for d, h, f, b, n in ((64, 4, 256, 2, 10), (6, 3, 7, 3, 5), (8, 1, 8, 1, 1)):
        block, seed = library.Block(d, h, f), 11
        torch.manual_seed(seed)
        module = PreNorm(d, h, f)
        random = library.Random(call.lib, seed)
        found, count = parameters_of(call, block)
        assert [name for name, _ in module.named_parameters()] == list(found)
        assert count == sum(p.numel() for p in module.parameters())
        mine = np.zeros(count, f32)
        call("block_init", block, random.state, mine)
        for name, p in module.named_parameters():
            offset, shape = found[name]
            assert shape == tuple(p.shape), name
            assert np.array_equal(mine[offset : offset + p.numel()], p.detach().numpy().reshape(-1)), f"{name} begins otherwise"
        assert np.array_equal(random.uniform(0, 1, 3), torch.rand(3).numpy()), "the generators are apart"
        with torch.no_grad():
            for p in module.parameters():
                p.add_(torch.randn(p.shape) * 0.1)
        module = module.to(f64)
        for name, p in module.named_parameters():
            offset, _ = found[name]
            mine[offset : offset + p.numel()] = a(p).reshape(-1)
        for causal in (False, True):
            module.zero_grad()
            x, dy = leaf(draw(b, n, d)), draw(b, n, d)
            blocked = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else None
            y = module(x, blocked)
            y.backward(dy.to(f64))
            mask = library.Mask(None, 0, 0, causal, 0)
            out, kept, dx, g = (np.zeros(y.shape, f32), call.kept("block", block, b, n), np.zeros(x.shape, f32),
                                np.zeros(count, f32))
            call("block_forward", block, mine, mask, a(x), b, n, out, None, kept)
            call("block_backward", block, mine, mask, a(x), kept, a(dy), b, n, dx, g)
            check(f"block {d} y", out, y)
            check(f"block {d} dx", dx, x.grad)
            for name, p in module.named_parameters():
                offset, _ = found[name]
                check(f"block {d} {name}", g[offset : offset + p.numel()], p.grad.reshape(-1))


def test_positional_encoding():
    call = nn_calls()
    for n, d in ((50, 16), (7, 2), (1000, 64)):
        pos, omega = torch.arange(n, dtype=f64)[:, None], 1 / 10000 ** (torch.arange(0, d, 2, dtype=f64) / d)
        pe = torch.zeros(n, d, dtype=f64)
        pe[:, 0::2], pe[:, 1::2] = torch.sin(pos * omega), torch.cos(pos * omega)
        mine = np.zeros((n, d), f32)
        call("sinusoid", n, d, ctypes.c_double(10000), mine)
        check("positional encoding", mine, pe, 1e-7)


def test_embedding():
    call = nn_calls()
    torch.manual_seed(12)
    table, ids = leaf(draw(11, 5)), torch.tensor([3, 0, 10, 3, 3])
    y, dy = F.embedding(ids, table), draw(5, 5)
    y.backward(dy.to(f64))
    mine, dtable = np.zeros(y.shape, f32), np.zeros(table.shape, f32)
    at = ids.numpy().astype(np.int32)
    call("embedding_forward", a(table), 11, 5, at, 5, mine)
    call("embedding_backward", at, 5, 11, 5, a(dy), dtable)
    check("embedding", mine, y, 0)
    check("embedding dtable", dtable, table.grad)


if __name__ == "__main__":
    common.main(globals())
