"""What `headscope look --json` says, against the same found from transformers' patterns: each head's best keys, what it
mostly does, and the strongest links, on SmolLM2 and on TinyStories-656K. Nothing can be looked up: two models, the
answers taken from the peer's own attention weights."""
import json

import common
import numpy as np
from transformers import AutoTokenizer

import checkpoints as make
import reference

N_LINKS = 10
BAR = common.PATTERN_BAR


def links(patterns):
    """(weight, layer, head, query, key), strongest first, that are not to the first token, itself or the one before."""
    found = []
    for layer, pattern in enumerate(patterns):
        for head, query, key in zip(*np.nonzero(pattern)):
            if key != 0 and key < query - 1:
                found.append((float(pattern[head, query, key]), layer, int(head), int(query), int(key)))
    return sorted(found, reverse=True)


def summary(pattern):
    """What one head's rows from 1 on put on the first token, the token itself, the one before and the rest; entropy."""
    n = len(pattern)
    sums = dict.fromkeys(("first", "self", "previous", "other", "entropy"), 0.0)
    for q in range(1, n):
        row = pattern[q].astype(np.float64)
        sums["first"] += row[0]
        sums["self"] += row[q]
        sums["previous"] += row[q - 1]  # for the row of position 1 that is the first token as well
        sums["other"] += row[1 : max(q - 1, 1)].sum()
        sums["entropy"] -= (row[row > 0] * np.log(row[row > 0])).sum()
    return {name: value / (n - 1) for name, value in sums.items()}


def check_overview(model, source, patterns):
    said = json.loads(common.headscope("look", "-m", model, *source, "--json").stdout)
    assert said["model"]["n_layers"] == len(patterns)
    for entry in said["heads"]:
        want = summary(patterns[entry["layer"]][entry["head"]])
        for name, value in want.items():
            slack = 20 * BAR if name == "entropy" else BAR
            assert abs(entry[name] - value) <= slack, f"{entry['name']}: {name} is {entry[name]}, not {value}"
    want = links(patterns)
    got = [(link["weight"], link["layer"], link["head"], link["query"]["pos"], link["key"]["pos"])
           for link in said["links"]]
    assert len(got) == min(N_LINKS, len(want)), f"{len(got)} links"
    for mine, theirs in zip(got, want):
        assert abs(mine[0] - theirs[0]) <= BAR, f"link {mine}, not {theirs}"
    known = {link[1:]: link[0] for link in want}
    for link in got:  # the same links, unless two weigh alike
        assert abs(known[link[1:]] - link[0]) <= BAR, f"link {link} weighs {known[link[1:]]}"


def check_query(model, source, patterns, query):
    """Every head's five best keys for one query, the first token left out."""
    said = json.loads(common.headscope("look", "-m", model, *source, "--pos", query, "--top", 5, "--json").stdout)
    assert said["query"]["pos"] == query and len(said["heads"]) == len(patterns) * len(patterns[0])
    for entry in said["heads"]:
        row = patterns[entry["layer"]][entry["head"], query]
        order = sorted(range(1, query + 1), key=lambda key: -row[key])[:5]
        assert entry["best"] == {key: entry["top"][0][key] for key in entry["best"]}
        assert len(entry["top"]) == len(order)
        for mine, key in zip(entry["top"], order):
            assert abs(mine["weight"] - row[key]) <= BAR, f"{entry['name']}: {mine}, not {row[key]} on {key}"
            assert abs(row[mine["pos"]] - row[key]) <= 2 * BAR, f"{entry['name']}: {mine}, not {key}"


def patterns_of(peer, ids):
    sites = reference.activations(peer, ids)
    return [sites[f"pattern.{i}"] for i in range(peer.config.num_hidden_layers)]


def test_tinystories():
    home = common.require_data("models", "tinystories-656k")
    text = "Once upon a time, there was a little cat named Tom. Tom had a big red ball. He loved the ball very much."
    ids = AutoTokenizer.from_pretrained(home)(text)["input_ids"]
    patterns = patterns_of(make.open_with_transformers(home), ids)
    source = ["--ids", ",".join(map(str, ids))]
    check_overview(home, source, patterns)
    check_query(home, source, patterns, len(ids) - 1)


def test_smollm2():
    path = common.smollm2()
    make.use_threads()
    ids = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)(common.SENTENCE)["input_ids"]
    patterns = patterns_of(make.open_gguf(path), ids)
    check_overview(path, [common.SENTENCE], patterns)
    check_query(path, [common.SENTENCE], patterns, 8)
    weight, layer, head, query, key = links(patterns)[0]
    print(f"strongest link: L{layer}H{head}, {query} -> {key} ({weight:.2f})")


if __name__ == "__main__":
    common.main(globals())
