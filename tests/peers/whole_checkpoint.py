"""One random checkpoint from end to end: calibrated, written, opened by both sides, every site compared."""
import common

import checkpoints as make
import reference


def compare(report, name, model, folder, lengths, both, source, assert_spread):
    """Texts of these lengths (numbers, or pairs of them), the longest first: its spread is asserted and its floors are the
    checkpoint's. both(length): the sites in float32 and float64; source(length): what report.run reads. A name with "wide"
    in it is compared at every instruction set too."""
    for length in sorted(lengths, reverse=True):
        f32, f64 = both(length)
        if length == max(lengths):
            assert_spread(f32)
        report.run(name, model, folder, f32, f64, **source(length))
    for level in common.isa_levels() if "wide" in name else ():
        f32, f64 = both(max(lengths))
        report.run(f"{name} {level}", model, folder, f32, f64, **source(max(lengths)), env={"HEADSCOPE_ISA": level})


def check(report, name, config, tensors, lengths, seed, ids=None, types=None, source=None, **how):
    """A stack of blocks. `how` is write_folder's; ids and their segments, where they are not any of the vocabulary, and
    how the program is given the first n of them."""
    with common.scratch() as folder:
        ids = ids or make.token_ids(config["vocab_size"], max(lengths), seed)
        make.calibrate(folder / "work", config, tensors, ids, seed, types)
        model = make.write_folder(folder / name, config, tensors, **how)
        peer = make.open_with_transformers(model)
        compare(report, name, model, folder, lengths, lambda n: reference.both(peer, ids[:n], types and types[:n]),
                source or (lambda n: {"ids": ids[:n]}), lambda f32: make.assert_spread(f32, config["model_type"]))
