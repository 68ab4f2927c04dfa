"""What a run prints, and the result that is kept: rows as JSON, so that a single row can be measured again, and the page
made from them."""

import json
import os
import time

import machine
import rows as table

FOLDER = os.path.join(machine.ROOT, "bench", "results")


def value_text(bar):
    value = bar["value"]
    if value is None:
        return "not measured"
    form = {table.BANDWIDTH: "{:.0%}", table.PEAK: "{:.0%}", table.MEMORY: "{:.3f}x"}.get(bar["kind"], "{:.2f}x")
    if bar["kind"] == table.COST and bar["limit"] < 0.1:
        form = "{:.4f}x"
    text = form.format(value["median"])
    if value["least"] != value["most"]:
        text += f" ({form.format(value['least'])}..{form.format(value['most'])})"
    return text


def verdict(bar):
    return {True: "met", False: "MISSED", None: "open"}[bar["met"]]


def side_text(side, unit):
    return f"{side['shown']} {unit} ({side['least']}..{side['most']})"


def memory_text(side):
    return f", {side['peak_mb']:.0f} MB" if side["peak_mb"] else ""


def label(side):
    kind = f" {side['compute']}" if side["compute"] else ""
    return side["name"] + kind + (f", {side['role']}" if side["role"] else "")


def print_row(result):
    print(f"\n{result['id']}: {result['what']}")
    if "skipped" in result:
        print(f"  not run: {result['skipped']}", flush=True)
        return
    for side in result["ours"] + result["peers"]:
        print(f"  {label(side):<44.44} {side_text(side, result['unit'])}{memory_text(side)}")
    for reason in result["missing"]:
        print(f"  left out: {reason}")
    counts = {n for side in result["ours"] + result["peers"] for n in side["more"].get("n_tokens", [])}
    if len(counts) > 1:
        print(f"  the sides do not agree on the number of tokens: {sorted(counts)}")
    for bar in result["bars"]:
        print(f"  {bar['bar']:<24} {value_text(bar):<28} {verdict(bar)}", flush=True)


class Store:
    """bench/results/<cpu>.json and the page beside it."""

    def __init__(self, folder):
        self.base = os.path.join(folder, machine.slug())
        self.data = {"conditions": {}, "versions": {}, "rows": {}}
        if os.path.exists(self.base + ".json"):
            with open(self.base + ".json", encoding="utf-8") as f:
                self.data = json.load(f)

    def add(self, result, context):
        result = {**result, "commit": machine.commit(), "date": time.strftime("%Y-%m-%d"), "isa": context.isa}
        for side in result.get("ours", []) + result.get("peers", []):
            self.data["versions"].update(side["facts"].pop("versions", {}))
        self.data["conditions"] = machine.conditions()
        self.data["rows"][result["id"]] = result
        self.write([row.id for row in table.table(False)])

    def write(self, order):
        os.makedirs(os.path.dirname(self.base), exist_ok=True)
        results = [self.data["rows"][name] for name in order if name in self.data["rows"]]
        self._replace(".json", json.dumps(self.data, indent=1, sort_keys=True) + "\n")
        self._replace(".md", page(self.data, results, os.path.basename(self.base), self._has_lengths()))

    def _has_lengths(self):
        return os.path.exists(self.base + "-length.png")

    def _replace(self, ending, text):
        with open(self.base + ending + ".part", "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(self.base + ending + ".part", self.base + ending)


def best_peer(result):
    """The peer that a row's bars were held against, else the first."""
    named = next((bar["peer"] for bar in result["bars"] if bar.get("peer")), None)
    return next((s for s in result["peers"] if f"{s['name']} {s['role']}".strip() == named), None)


def table_lines(results):
    lines = ["| work | headscope | fastest peer | ratio or part of the limit | bar | |", "|---|---|---|---|---|---|"]
    for result in results:
        if "skipped" in result:
            lines.append(f"| {result['what']} | not run: {result['skipped']} | | | | |")
            continue
        peer = best_peer(result)
        ours, theirs = ("<br>".join(f"{label(s)}: {side_text(s, result['unit'])}{memory_text(s)}" for s in some) or "not here"
                        for some in (result["ours"], [peer] if peer else []))
        lines.append(f"| {result['what']} | {ours} | {theirs} | " + "<br>".join(map(value_text, result["bars"])) + " | " +
                     "<br>".join(bar["bar"] for bar in result["bars"]) + " | " +
                     "<br>".join(map(verdict, result["bars"])) + " |")
    return lines


def command_lines(results):
    lines = []
    for result in results:
        if "skipped" in result:
            continue
        lines += [f"### {result['id']}", "", f"{result['what']}. {result['repeats']} turns, {result['date']}, commit "
                  f"{result['commit']}.", "", "```text"]
        for side in result["ours"] + result["peers"]:
            lines += [f"{label(side)}: {side_text(side, result['unit'])}{memory_text(side)}",
                      f"    {side['facts']['command']}"]
        lines += [f"left out: {reason}" for reason in result["missing"]] + ["```", ""]
    return lines


def page(data, results, base, has_lengths):
    c = data["conditions"]
    builds = {side["name"]: side["facts"]["build"] for r in results if "skipped" not in r for side in r["peers"]
              if side["facts"].get("build")}
    versions = ", ".join(f"{name} {version}" for name, version in sorted(data["versions"].items()))
    lines = [f"# {c['processor']}, {c['threads']} threads", "",
             "This page is written by `./dev bench --peers`; docs/performance.md says how and what limits each figure.", "",
             f"- processor: {c['processor']} ({c['family']}), {c['vectors']}; {c['threads']} threads on every side",
             f"- memory: {c['memory_gb']} GB; {c['system']}; {c['compiler']}",
             f"- versions: {versions}"]
    lines += [f"- {name}: {build}" for name, build in sorted(builds.items())]
    lines += ["", "Figures are medians (least..most). The sides of a row take turns in one run; a ratio is the median of "
              "the ratios of single turns. Memory is the peak of the process during the run, weights in use included.",
              "", *table_lines(results), ""]
    if has_lengths:
        lines += ["## Time and memory against length", "", f"![time and memory against length]({base}-length.png)", "",
                  f"The figures are in {base}-length.csv.", ""]
    return "\n".join(lines + ["## How each row was run", "", *command_lines(results)]).rstrip() + "\n"
