#!/usr/bin/env python3
"""The marked sentence pairs of this folder: checks them, shows their balance against the simple rules, writes controls.

    data/pairs/pairs.py              one line a file: how often each rule that looks at positions alone is right
    data/pairs/pairs.py --controls   writes NAME.control.txt beside every NAME.txt

A line is one pair: [a:..] and [b:..] are the candidates, [q:..] the query (absent: the swapped word), {x|y} the swapped
word; with x the answer is a, with y it is b. A backslash before [ ] { } | makes them literal.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = re.compile(r"\\[\[\]{}|]|\[([abq]):((?:\\.|[^\]\\])*)\]|\{((?:\\.|[^|}\\])*)\|((?:\\.|[^|}\\])*)\}(!?)|[^\\\[{]+")


def literal(text):
    return re.sub(r"\\(.)", r"\1", text)


def parse(line):
    """(words between marks and the marks, in order): [(kind, text)], kind in 'a', 'b', 'q', 'swap', 'text'."""
    parts, at = [], 0
    while at < len(line):
        match = TOKEN.match(line, at)
        if not match:
            raise ValueError(f"cannot be read from column {at + 1}: {line[at:at + 20]!r}")
        if match[1]:
            parts.append((match[1], literal(match[2])))
        elif match[4] is not None:
            pair = literal(match[3]), literal(match[4])
            parts.append(("swap", pair[::-1] if match[5] else pair))
        else:
            parts.append(("text", literal(match[0])))
        at = match.end()
    for kind in ("a", "b", "swap"):
        if sum(k == kind for k, _ in parts) != 1:
            raise ValueError(f"needs exactly one {kind}")
    if sum(k == "q" for k, _ in parts) > 1:
        raise ValueError("has more than one q")
    return parts


def lines(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line and not line.startswith("#"):
            try:
                yield parse(line)
            except ValueError as fault:
                sys.exit(f"{path.name}:{number}: {fault}")


def sources():
    return sorted(p for p in HERE.glob("*.txt") if not p.name.endswith(".control.txt"))


def place(parts, kind):
    return next((i for i, (k, _) in enumerate(parts) if k == kind), None)


def balance(path):
    """Counts over the pairs of a file. Both wordings of a pair have their candidates at the same places, so a rule that
    looks at places alone is right in exactly one of two wordings, and never in both; what can lean is which answer goes
    with the first wording."""
    n = first = nearest = longer = causal = 0
    for parts in lines(path):
        a, b, swap = (place(parts, k) for k in ("a", "b", "swap"))
        query = place(parts, "q")
        text_a, text_b = parts[a][1], parts[b][1]
        n += 1
        first += a < b
        nearest += a > b
        longer += (len(text_a) > len(text_b)) + 0.5 * (len(text_a) == len(text_b))
        causal += swap < (query if query is not None else swap + 1)
    return n, first / n, nearest / n, longer / n, causal


def control(parts):
    """The same words in the same order, without the relation."""
    shown = []
    for kind, text in parts:
        if kind == "swap":
            x, y = (re.sub(r"([\[\]{}|\\])", r"\\\1", t) for t in text)
            shown.append(f"{{{x}|{y}}}")
        elif kind != "text":
            shown.append(f"[{kind}:" + re.sub(r"([\[\]{}|\\])", r"\\\1", text) + "]")
    return "The words are: " + ", ".join(shown) + "."


def controls(path):
    head = f"# The words of {path.name} in their order, without the relation (pairs.py --controls).\n"
    return head + "".join(control(parts) + "\n" for parts in lines(path))


def main():
    if sys.argv[1:] == ["--controls"]:
        for path in sources():
            path.with_name(path.stem + ".control.txt").write_text(controls(path))
        return
    if sys.argv[1:]:
        sys.exit(__doc__)
    print(f"{'file':18} {'pairs':>5}  {'a first':>8} {'a nearest':>9} {'a longer':>8}  {'swap before query':>17}")
    total = 0
    for path in sources():
        n, first, nearest, longer, causal = balance(path)
        total += n
        print(f"{path.name:18} {n:5}  {first:8.2f} {nearest:9.2f} {longer:8.2f}  {causal:10} of {n}")
    print(f"{'':18} {total:5}  over both wordings every rule of place is right in exactly half")


if __name__ == "__main__":
    main()
