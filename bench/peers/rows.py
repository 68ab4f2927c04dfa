"""The comparison as a table: for each row what headscope does, what its peers do, and the bar.

Sides of a row take turns. The ratio is that of the fastest peer's time to headscope's, so more than 1 is faster.
"""

import dataclasses
import os
import sys

from sides import HERE, Bench, Encode, Peer, Process, Product

SENTENCE = "The animal didn't cross the street because it was too tired"  # 12 tokens of GPT-2
SPEED, MEMORY, COST, BANDWIDTH, PEAK = "speed", "memory", "cost", "bandwidth", "peak"


@dataclasses.dataclass
class Bar:
    """speed: peer's time over ours, at least. memory and cost: ours over the peer's, at most. bandwidth and peak: the
    part of the machine's limit, at least. `ours` picks the side, `against` a peer by name or role; else the fastest counts."""
    kind: str
    limit: float
    ours: int = 0
    against: str = ""

    def met(self, value):
        return value <= self.limit if self.kind in (MEMORY, COST) else value >= self.limit

    def __str__(self):
        share = f"1/{1 / self.limit:.0f}" if self.limit < 0.6 else f"{self.limit:.4g}x"
        beside = f" of {self.against}" if self.against else ""
        return {SPEED: f"speed >= {self.limit:.4g}x{beside}", MEMORY: f"memory <= {share}{beside}", COST: f"time <= {share}",
                BANDWIDTH: f">= {self.limit:.0%} of bandwidth", PEAK: f">= {self.limit:.0%} of peak"}[self.kind]


@dataclasses.dataclass
class Row:
    id: str
    what: str
    unit: str  # "ms", or "tok/s", "MB/s", "GFLOP/s" of `work` a run
    ours: list
    peers: list
    bars: list
    work: float = 1.0
    model: str = ""  # for bars of bandwidth: the checkpoint whose bytes are read once a token
    needs_mb: float = 0.0  # memory that must be free

    def show(self, seconds):
        value = 1e3 * seconds if self.unit == "ms" else self.work / seconds
        return f"{value:.{0 if value >= 1000 else 1 if value >= 100 else 2}f}"


def transformers(task, model, n, role=""):
    return Peer("transformers", "peer_torch.py", role, task=task, model="@" + model, n=n)


def llama(model, test, n, depth=0):
    return [Peer("llama.cpp", "peer_llama.py", f"flash {'on' if flash else 'off'}", model="@" + model, test=test, n=n,
                 depth=depth, flash=flash) for flash in (True, False)]


def lens(n):
    return [Peer("TransformerLens", "peer_lens.py", kind, model="@gpt2", n=n, kind=kind) for kind in ("hooked", "bridge")]


def gpt2_patterns(n, bar):
    return Row(f"gpt2-patterns-{n}", f"GPT-2 124M f32, {n:,} tokens, all patterns returned, no LM head", "ms",
               [Bench("gpt2", "pp", n, capture="patterns", logits="none")],
               [transformers("patterns", "gpt2", n, "eager, output_attentions")], [Bar(SPEED, bar)])


def gpt2_lens(n, bars):
    return Row(f"gpt2-lens-{n}", f"GPT-2 124M f32, {n:,} tokens, all patterns, with LM head", "ms",
               [Bench("gpt2", "pp", n, capture="patterns", logits="all")], lens(n), bars)


def gpt2_decode(n):
    return Row("gpt2-decode", f"GPT-2 124M f32, greedy decode of {n} tokens", "tok/s", [Bench("gpt2", "tg", n)],
               [transformers("decode", "gpt2", n, "generate"), transformers("decode-loop", "gpt2", n, "plain loop")],
               [Bar(SPEED, 2.3)], work=n)


def smollm2(kind, test, n, bars, depth=0):
    """headscope in f32, and in its fastest kind of arithmetic where there is another; the bar is for the last."""
    model = f"smollm2-{kind}.gguf"
    ours = [Bench(model, test, n, depth)]
    if kind != "f32":
        ours.append(Bench(model, test, n, depth, compute="auto"))
    at = f" at depth {depth:,}" if depth else ""
    name = f"smollm2-{'pp512' if test == 'pp' else 'tg128'}" + (f"-d{depth}" if depth else "") + f"-{kind}"
    for bar in bars:
        bar.ours = len(ours) - 1
    return Row(name, f"SmolLM2 {test}{n}{at}, {kind.upper()}", "tok/s", ours, llama(model, test, n, depth), bars,
               work=n, model=model)


def smollm2_stats(n):
    kept = 30 * 9 * n * n * 4e-6
    return Row("smollm2-stats-4096", f"SmolLM2 f32, {n:,} tokens, statistics of all 270 heads, no LM head", "ms",
               [Bench("smollm2", "pp", n, capture="stats", logits="none"),
                Bench("smollm2", "pp", n, capture="stats", logits="none", compute="bf16")],
               [transformers("patterns", "smollm2", n, "eager, output_attentions: the patterns, no statistics yet")],
               [Bar(SPEED, 6), Bar(SPEED, 8.5, ours=1), Bar(MEMORY, 1 / 20)], needs_mb=1.02 * kept + 1500)


def cost(name, what, model, n, capture, bars):
    """headscope beside itself: what looking costs."""
    ours = Bench(model, "pp", n, capture=capture, role=capture)
    return Row(name, what, "ms", [ours], [Bench(model, "pp", n, role="nothing kept")], bars)


def whole_process():
    ours = Process("headscope", lambda c: [c.program, "look", "-m", c.models.path("gpt2"), SENTENCE])
    python = Process("Python", lambda c: [sys.executable, os.path.join(HERE, "whole_process.py"), c.models.path("gpt2"),
                                          SENTENCE])
    return Row("whole-process", "one look at 12 tokens on a 124M model, start to end", "ms", [ours], [python],
               [Bar(COST, 1 / 20)])


def scan():
    """headscope's side is the whole program: it opens the model, runs, tests and prints; the peer's passes alone count."""
    def words(*more):
        return lambda c: [c.program, "scan", "-m", c.models.path("smollm2-q4_1.gguf"), c.models.path("ioi.jsonl"), "-t",
                          c.threads, "--json", *more]
    ours = [Process("headscope", words()), Process("headscope", words("--compute", "auto"))]
    peers = [Peer("transformers", "peer_scan.py", kind, model="@smollm2", tokenizer="@smollm2-q4_1.gguf",
                  pairs="@ioi.jsonl", kind=kind) for kind in ("loop", "batches")]
    return Row("scan", "SmolLM2 f32 and auto, head search over 200 sentences of the IOI task", "ms", ours, peers,
               [Bar(SPEED, 5, against="loop"), Bar(SPEED, 2, against="batches")])


def embed():
    """headscope's side is the whole program: it opens the model and writes the vectors; the peer's work alone counts.
    The sentences stand in the file twice, so that opening, which is no throughput, weighs less."""
    ours = Process("headscope", lambda c: [c.program, "embed", "-m", c.models.path("minilm"), "--file",
                                           c.models.path("winogender.txt"), "-t", c.threads, "-o",
                                           os.path.join(c.cache, "vectors.npy")])
    peer = Peer("transformers", "peer_embed.py", "batches of 32", model="@minilm", texts="@winogender.txt")
    return Row("embed-minilm", "MiniLM-L6 f32, 1,428 sentences as vectors, texts to vectors", "ms", [ours], [peer],
               [Bar(SPEED, 1.6)])


def ablate(n):
    """headscope's side is the whole program, opening the model included; the peer's runs alone count."""
    ids = ",".join(str(37 * i % 50257) for i in range(1, n + 1))
    ours = [Process("headscope", lambda c: [c.program, "ablate", "-m", c.models.path("gpt2"), "--metric", "logit: #3 - #5",
                                            "--ids", ids, "-t", c.threads, "--json"])]
    peers = [Peer("TransformerLens", "peer_ablate.py", kind, model="@gpt2", n=n, kind=kind) for kind in ("one by one", "batched")]
    return Row("ablate", f"GPT-2 124M f32, each of 144 heads zeroed in turn at {n} tokens, from its layer on", "ms", ours,
               peers, [Bar(SPEED, 5, against="one by one")])


def product():
    rows, n_out, n_in = 1024, 768, 3072
    peers = [Peer("OpenBLAS", "peer_numpy.py", f"weight {layout}", shape=[rows, n_out, n_in], layout=layout)
             for layout in ("out-in", "in-out")]
    return Row("product", f"matrix product {rows} x {n_out} x {n_in}, f32", "GFLOP/s", [Product(rows, n_out, n_in)],
               peers, [Bar(PEAK, 0.85), Bar(SPEED, 0.97)], work=2e-9 * rows * n_out * n_in)


def tokens(name, what, text, megabytes):
    peers = [Peer(kind, "peer_tokens.py", kind=kind, tokenizer="@gpt2-tokenizer", file="@" + text)
             for kind in ("tiktoken", "tokenizers")]
    return Row(name, what, "MB/s", [Encode("gpt2-tokenizer", text)], peers, [Bar(SPEED, 1.5, against="tiktoken")],
               work=megabytes)


def table(quick):
    """The rows in their order. Quick: shorter texts, to see that everything works; its figures are no result."""
    made, long, mega = (16, 1024, 1) if quick else (128, 4096, 5)
    return [
        gpt2_patterns(1024, 1.8), gpt2_patterns(64, 2.0), gpt2_patterns(11, 3.0), gpt2_decode(made),
        smollm2("f32", "pp", 512, [Bar(SPEED, 1.5)]), smollm2("bf16", "pp", 512, [Bar(SPEED, 1.35)]),
        smollm2("q8_0", "pp", 512, [Bar(SPEED, 1.9)]), smollm2("q4_1", "pp", 512, [Bar(SPEED, 4)]),
        smollm2("f32", "tg", made, [Bar(SPEED, 0.97), Bar(BANDWIDTH, 0.85)]),
        smollm2("bf16", "tg", made, [Bar(SPEED, 1.0), Bar(BANDWIDTH, 0.85)]),
        smollm2("q8_0", "tg", made, [Bar(SPEED, 1.35)]), smollm2("q4_1", "tg", made, [Bar(SPEED, 2.0)]),
        smollm2("q4_1", "pp", 512, [Bar(SPEED, 3)], depth=2048),
        smollm2_stats(long),
        gpt2_lens(12, [Bar(SPEED, 7, against="hooked"), Bar(SPEED, 1, against="bridge")]),
        gpt2_lens(1024, [Bar(SPEED, 2.5, against="hooked"), Bar(SPEED, 1, against="bridge"),
                         Bar(MEMORY, 1 / 2, against="hooked")]),
        cost("patterns-kept-gpt2", "GPT-2 f32, 512 tokens, patterns kept or not", "gpt2", 512, "patterns",
             [Bar(COST, 1.10)]),
        cost("patterns-kept-smollm2", "SmolLM2 f32, 512 tokens, patterns kept or not", "smollm2", 512, "patterns",
             [Bar(COST, 1.10)]),
        cost("stats-cost-4096", f"SmolLM2 f32, {long:,} tokens, statistics taken or not", "smollm2", long, "stats",
             [Bar(COST, 1.15), Bar(MEMORY, 1.1)]),
        whole_process(), scan(), ablate(15), embed(), product(),
        tokens("tokens-prose", f"byte-level BPE, one thread, {mega} MB of prose in one piece", "prose.txt", mega),
        tokens("tokens-words", f"byte-level BPE, one thread, {mega} MB of words that never repeat", "words.txt", mega),
    ]
