"""Tokenizers in GGUF files against llama.cpp: each name of a pre-tokenizer over GPT-2's vocabulary, and SentencePiece's
two kinds. llama.cpp has tables and limits of its own, so the texts keep to characters that both have known for long.
It comes with the benchmark's peers (bench/README.md); without it this is skipped."""
import json
import pathlib
import re
import tempfile
import unicodedata

import common
from tokenizing import Ours, load_library, strings, lines

NAMES = """gpt-2 gpt-neox phi-2 mpt olmo jais trillion exaone4 jina-es jina-de jina-v1-en jina-v2-es jina-v2-de
jina-v2-code roberta-bpe gigachat a.x-4.0 mellum modern-bert smollm starcoder refact command-r codeshell exaone
minerva-7b llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 smaug-bpe dbrx glm4 chatglm-bpe qwen2
deepseek-r1-qwen stablelm2 megrez kormo hunyuan qwen35 gpt-4o llama4 tekken deepseek-v3 hunyuan-dense bailingmoe
bailingmoe2 llada-moe seed-coder bloom poro-chat gpt3-finnish viking falcon default deepseek-llm deepseek-coder""".split()


def old(text):
    """Without what llama.cpp's tables and Unicode 3.2 see differently: marks, unassigned and private characters."""
    table = unicodedata.ucd_3_2_0
    return "".join(c for c in text if table.category(c) not in ("Cn", "Co", "Mn", "Mc", "Me", "Cf") and c not in "\u017f")


def write_gguf(path, model, tokens, types, arch="llama", **keys):
    """A file without tensors."""
    import gguf
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(512)
    writer.add_embedding_length(64)
    writer.add_block_count(1)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    for name, value in keys.items():
        getattr(writer, f"add_{name}")(value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Theirs:
    def __init__(self, path):
        try:
            import llama_cpp
        except ImportError:
            raise common.Skip("llama-cpp-python is not here")
        self.llama = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)

    def encode(self, text):
        return self.llama.tokenize(text.encode(), add_bos=False, special=False)


def compare(library, name, path, texts):
    ours, theirs, wrong = Ours(library, path), Theirs(path), 0
    for text in texts:
        want, got = theirs.encode(text), ours.encode(text)
        wrong += want != got
        if want != got and wrong <= 3:
            print(f"  {name}: {text!r}\n    right {want}\n    ours  {got}")
    ours.close()
    print(f"{name:46} {len(texts):7} texts {wrong:6} wrong")
    return wrong


def test_names():
    library, wrong = load_library(), 0
    tree = json.loads(common.require_data("tokenizers", "gpt2", "tokenizer.json").read_text(encoding="utf-8"))
    vocab = sorted(tree["model"]["vocab"], key=tree["model"]["vocab"].get)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tree["model"]["merges"]]
    texts = [text for text in map(old, strings("names")[:400]) if text] + [text for text in lines()[::997] if text]
    types = [1] * (len(vocab) - 1) + [3]
    with tempfile.TemporaryDirectory() as folder:
        for name in NAMES:
            path = pathlib.Path(folder) / "vocab.gguf"
            write_gguf(path, "gpt2", vocab, types, token_merges=merges, tokenizer_pre=name, bos_token_id=50256)
            # DeepSeek's ranges of ideographs reach over blanks, which llama.cpp keeps out of every range.
            some = [text for text in texts if "deepseek-" not in name or not re.search(r"[\u1680\u2000-\u3000]", text)]
            try:
                wrong += compare(library, name, path, some)
            except ValueError: # names come and go
                print(f"{name:46} is not known to this llama.cpp")
    assert wrong == 0


def test_roberta():
    """RoBERTa's, as llama.cpp's converter writes it: BPE with bos and eos, beside the same tokenizer.json."""
    import tokenizing
    library, tree = load_library(), tokenizing.gpt2()
    vocab = tree["model"]["vocab"]
    names = ["<s>", "<pad>", "</s>", "<unk>"] + sorted(set(vocab) - {"<|endoftext|>"}, key=vocab.get) + ["<mask>"]
    tree["model"]["vocab"] = {name: i for i, name in enumerate(names)}
    special = [0, 1, 2, 3, len(names) - 1]
    tree["added_tokens"] = [tokenizing.added(names[i], i, special=True) for i in special]
    tree["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True,
                              "add_prefix_space": False}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in tree["model"]["merges"]]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        json_side, theirs = tokenizing.open_both(library, folder, tree)
        json_side.close()
        path = pathlib.Path(folder) / "roberta.gguf"
        write_gguf(path, "gpt2", names, [3 if i in special else 1 for i in range(len(names))], arch="bert",
                   token_merges=merges, tokenizer_pre="roberta-bpe", bos_token_id=0, eos_token_id=2, unk_token_id=3,
                   sep_token_id=2, pad_token_id=1, mask_token_id=len(names) - 1, add_bos_token=True,
                   add_eos_token=True)
        ours, texts = Ours(library, path), strings("roberta")[:600] + ["a <mask> b", ""]
        for text, other in zip(texts, texts[1:]):
            wrong += theirs.encode(text).ids != ours.encode(text, True, True)
            wrong += theirs.encode(text, other).ids != ours.encode_pair(text, other, True, True)
        ours.close()
    print(f"{'roberta-bpe beside tokenizer.json':46} {len(texts):7} texts {wrong:6} wrong")
    assert wrong == 0


def test_unigram():
    """T5's kind, with the compiled map that a SentencePiece model carries, also against SentencePiece itself."""
    import io
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    library, wrong, model = load_library(), 0, io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in lines()[:20000:7] if line), model_writer=model, vocab_size=900,
        hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, user_defined_symbols=["<x>", "th"],
        minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    # Of nothing but blanks llama.cpp leaves out the one in front.
    texts = [text for text in [*map(old, strings("unigram")), *lines()[::499]] if text.strip()]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "vocab.gguf"
        for extra in (True, False):
            write_gguf(path, "t5", [p.piece for p in proto.pieces], [p.type for p in proto.pieces], arch="t5",
                       token_scores=[p.score for p in proto.pieces], add_space_prefix=True, eos_token_id=1,
                       unk_token_id=2, pad_token_id=0, remove_extra_whitespaces=extra,
                       precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap)
            plain = [text for text in texts if "<x>" not in text and "th" not in text]
            wrong += compare(library, f"t5, extra blanks {'go' if extra else 'stay'}", path, texts if extra else plain)
            ours = Ours(library, path)
            if extra:
                bad = [text for text in plain if ours.encode(text) != processor.encode(text)]
                print(f"{'t5 beside SentencePiece':46} {len(plain):7} texts {len(bad):6} wrong")
                wrong += len(bad)
                print("".join(f"  {text!r}\n    right {processor.encode(text)}\n    ours  {ours.encode(text)}\n"
                              for text in bad[:3]), end="")
            ours.close()
    assert wrong == 0


if __name__ == "__main__":
    common.main(globals())
