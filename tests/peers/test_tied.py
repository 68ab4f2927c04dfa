"""Checkpoints that hold the token matrix, the output matrix, both or one of them twice: the same logits as transformers
makes of the same files (case B26)."""
import common
import torch

import checkpoints as make
import reference

FILES = {  # what the checkpoint holds, and what its configuration says of tying
    "embedding": (["embedding"], True),
    "head only": (["head"], True),
    "both equal": (["embedding", "same head"], True),
    "both differ": (["embedding", "other head"], True),
    "apart": (["embedding", "other head"], False),
}


def test_files():
    report = common.Report()
    for base, build, embedding in ((make.GPT2, make.gpt2_tensors, "wte.weight"),
                                   (make.LLAMA, make.llama_tensors, "embed_tokens.weight")):
        config = make.configuration(base, tie_word_embeddings=True)
        tensors = build(config, 21)
        ids = make.token_ids(config["vocab_size"], 20, 21)
        with common.scratch() as folder:
            make.calibrate(folder / "work", config, tensors, ids, 21)
            matrix = tensors.pop(embedding)
            other = torch.randn(matrix.shape, generator=torch.Generator().manual_seed(21))
            ends = {"embedding": (embedding, matrix), "head": ("lm_head.weight", matrix),
                    "same head": ("lm_head.weight", matrix.clone()), "other head": ("lm_head.weight", other)}
            for name, (held, tie) in FILES.items():
                model = make.write_folder(folder / name, {**config, "tie_word_embeddings": tie},
                                          {**tensors, **dict(ends[end] for end in held)})
                f32, f64 = reference.both(make.open_with_transformers(model), ids)
                report.run(f"{config['model_type']} {name}", model, folder, f32, f64, ids=ids)
    report.finish()


if __name__ == "__main__":
    common.main(globals())
