"""Makes tests/golden/kquants.bin: random blocks of every type with quantised scales and what the `gguf` package reads in
them. Run it with the Python of the peers; it writes the same bytes again. tests/unit/test_kernels_kquants.c needs neither.

For each type, in the order below: u32 n_blocks, u32 values a block, u32 bytes a block; the blocks; their values as float32.
"""
import pathlib
import struct

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

N_BLOCKS = 4  # of 256 values
# Where the half-precision scales lie in a block.
SCALES = {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}


def random_blocks(rng, name, n_blocks):
    """All bits random; scales are any finite half, subnormal and negative ones among them."""
    _, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (n_blocks, size), dtype=np.uint8)
    for at in SCALES[name]:
        halves = (rng.integers(0, 31, n_blocks) << 10 | rng.integers(0, 1024, n_blocks)
                  | rng.integers(0, 2, n_blocks) << 15).astype("<u2")
        halves[0] &= 0x83FF
        blocks[:, at : at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks


def main():
    rng = np.random.default_rng(4)
    with open(pathlib.Path(__file__).parent / "kquants.bin", "wb") as out:
        for name in SCALES:
            kind = GGMLQuantizationType[name]
            block, size = GGML_QUANT_SIZES[kind]
            blocks = random_blocks(rng, name, N_BLOCKS * 256 // block)
            values = quants.dequantize(blocks, kind).astype("<f4")
            out.write(struct.pack("<III", len(blocks), block, size) + blocks.tobytes() + values.tobytes())


if __name__ == "__main__":
    main()
