"""tiktoken and tokenizers with GPT-2's vocabulary: a whole file in one piece, on one thread."""

import json
import os
import pathlib
import time
from importlib.metadata import version

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"

import peer


def bytes_of_characters():
    """GPT-2's spelling of bytes as printable characters, turned round."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(other)}}


def tiktoken_encoder(folder):
    import tiktoken
    from tiktoken_ext import openai_public
    table = bytes_of_characters()
    vocabulary = json.loads((folder / "vocab.json").read_text(encoding="utf-8"))
    end = "<|endoftext|>"
    ranks = {bytes(table[c] for c in token): rank for token, rank in vocabulary.items() if token != end}
    encoding = tiktoken.Encoding("gpt2", pat_str=openai_public.r50k_pat_str, mergeable_ranks=ranks,
                                 special_tokens={end: vocabulary[end]})
    return encoding.encode_ordinary


def tokenizers_encoder(folder):
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def prepare(spec):
    folder = pathlib.Path(spec["tokenizer"])
    text = pathlib.Path(spec["file"]).read_text(encoding="utf-8")
    encode = {"tiktoken": tiktoken_encoder, "tokenizers": tokenizers_encoder}[spec["kind"]](folder)

    def run():
        start = time.perf_counter()
        ids = encode(text)
        return {"seconds": time.perf_counter() - start, "n_tokens": len(ids)}

    return run, {"versions": {spec["kind"]: version(spec["kind"])}, "threads": 1}


if __name__ == "__main__":
    peer.serve(prepare)
