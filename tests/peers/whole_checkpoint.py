"""One random checkpoint of a decoder from end to end: calibrated, written, opened by both sides, every site compared."""
import common

import checkpoints as make
import reference


def check(report, name, config, tensors, lengths, seed, **how):
    """`how` is write_folder's. Sequences of these lengths, the longest first (its spread is asserted and its floors are
    the checkpoint's); a name with "wide" in it is compared at every instruction set too."""
    with common.scratch() as folder:
        longest = make.token_ids(config["vocab_size"], max(lengths), seed)
        make.calibrate(folder / "work", config, tensors, longest, seed)
        model = make.write_folder(folder / name, config, tensors, **how)
        peer = make.open_with_transformers(model)
        for n in sorted(lengths, reverse=True):
            f32, f64 = reference.both(peer, longest[:n])
            if n == max(lengths):
                make.assert_spread(f32, config["model_type"])
            report.run(name, model, folder, f32, f64, ids=longest[:n])
        for level in common.isa_levels() if "wide" in name else ():
            f32, f64 = reference.both(peer, longest)
            report.run(f"{name} {level}", model, folder, f32, f64, ids=longest, env={"HEADSCOPE_ISA": level})
