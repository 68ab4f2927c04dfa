"""Quantised types against the `gguf` package: every bit that is read, and the error of what is written, there also
against llama.cpp's own quantisers where llama_cpp is installed."""
import ctypes
import importlib.util
import pathlib

import gguf
import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

import checkpoints as make
import common
from common import headscope, run_sites, scratch

# Where the half-precision scales lie in a block of each type; any finite number will do there.
SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
          "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}
D, ROWS = 512, 97  # of the embedding that holds the blocks
WRITTEN = ("Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
SLACK = 1.02  # what is written may have this share of a peer's root mean square error


def random_rows(rng, name):
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (ROWS * D // block, size), dtype=np.uint8)
    for at in SCALES[name]:
        halves = (rng.integers(0, 31, len(blocks)) << 10 | rng.integers(0, 1024, len(blocks))
                  | rng.integers(0, 2, len(blocks)) << 15).astype("<u2")
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def llama(**more):
    return make.configuration(make.LLAMA, hidden_size=D, intermediate_size=256, num_hidden_layers=1, **more)


def write_embedding(path, name, rows):
    """A llama whose embedding is these rows of blocks; the rest is random."""
    config = llama()
    tensors, name_of = make.llama_tensors(config, 1), make.gguf_names(config)
    writer = gguf.GGUFWriter(path, "llama")
    make.gguf_keys(writer, config)
    for key, value in tensors.items():
        if key == "embed_tokens.weight":
            writer.add_tensor("token_embd.weight", rows, raw_dtype=GGMLQuantizationType[name])
        else:
            writer.add_tensor(name_of(key), make.in_gguf_order(key, value.numpy(), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_every_bit_that_is_read():
    rng = np.random.default_rng(5)
    with scratch() as folder:
        for name in SCALES:
            path, rows = folder / f"{name}.gguf", random_rows(rng, name)
            write_embedding(path, name, rows)
            want = quants.dequantize(rows, GGMLQuantizationType[name]).astype(np.float32)
            for level in common.isa_levels():
                ids = rng.permutation(ROWS)[:60]
                got = run_sites(path, folder, ["embed"], ids=ids.tolist(), env={"HEADSCOPE_ISA": level})["embed"]
                assert got.tobytes() == want[ids].tobytes(), f"{name} at level {level} differs from gguf"
            print(f"{name:7} {rows.size:7d} bytes of random blocks, every bit equal", flush=True)


def error(values, stored, name):
    """Root mean square of what is lost, as a share of the values'."""
    read = quants.dequantize(stored, GGMLQuantizationType[name]).astype(np.float64)
    return float(np.sqrt(np.mean((read - values) ** 2) / np.mean(values.astype(np.float64) ** 2)))


def ggml():
    """ggml's quantiser from the libraries of llama_cpp: (type, rows) -> blocks; None when it is not here."""
    package = importlib.util.find_spec("llama_cpp")
    found = sorted(pathlib.Path(package.origin).parent.glob("lib/libggml-base.*")) if package else []
    if not found:
        return None
    function = ctypes.CDLL(str(found[0])).ggml_quantize_chunk
    function.restype = ctypes.c_size_t
    function.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + 3 * [ctypes.c_int64] + [ctypes.c_void_p]

    def quantise(values, name):
        block, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
        out = np.zeros((values.shape[0], values.shape[1] // block * size), np.uint8)
        function(GGMLQuantizationType[name].value, values.ctypes.data, out.ctypes.data, 0, *values.shape, None)
        return out

    return quantise


def stored_by_headscope(folder, values, name):
    """The blocks that `convert` makes of these rows, as the feed-forward of a model."""
    import torch
    config = llama()
    config["intermediate_size"] = values.shape[0]
    tensors = make.llama_tensors(config, 2)
    tensors["layers.0.mlp.gate_proj.weight"] = torch.from_numpy(values)
    make.write_folder(folder / "source", config, tensors)
    out = folder / f"{name}.gguf"
    headscope("convert", "-m", folder / "source", "-o", out, "--dtype", name.lower(), "--force")
    tensor = next(t for t in gguf.GGUFReader(out).tensors if t.name == "blk.0.ffn_gate.weight")
    assert tensor.tensor_type == GGMLQuantizationType[name]
    return np.array(tensor.data).reshape(values.shape[0], -1)


def test_error_of_what_is_written():
    rng, peer = np.random.default_rng(6), ggml()
    kinds = {"normal": rng.standard_normal((256, D)), "heavy tails": rng.standard_t(4, (256, D)),
             "uniform": rng.uniform(-1, 1, (256, D)), "one sign": np.abs(rng.standard_normal((256, D)))}
    print(f"{'values':12} {'type':5} {'headscope':>9} {'gguf':>9} {'ggml':>9}")
    with scratch() as folder:
        for kind, values in kinds.items():
            values = np.ascontiguousarray(values.astype(np.float32) * 0.02)
            for name in WRITTEN:
                ours, theirs = error(values, stored_by_headscope(folder, values, name), name), {}
                try:
                    theirs["gguf"] = error(values, quants.quantize(values, GGMLQuantizationType[name]), name)
                except NotImplementedError:
                    pass
                if peer:
                    theirs["ggml"] = error(values, peer(values, name), name)
                shown = " ".join(f"{theirs[p]:9.5f}" if p in theirs else "        -" for p in ("gguf", "ggml"))
                print(f"{kind:12} {name:5} {ours:9.5f} {shown}", flush=True)
                for label, figure in theirs.items():
                    assert ours <= SLACK * figure, f"{kind}, {name}: error {ours:.5f}, {label} has {figure:.5f}"


if __name__ == "__main__":
    common.main(globals())
