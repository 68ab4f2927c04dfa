"""The lesson's table on the real GPT-2, to the byte. It needs openai-community/gpt2 in the Hub's cache and is skipped
without it; the values are the lesson's own, by PyTorch."""

import os
import subprocess
import sys

from program import PATIENCE, PROGRAM, environment

SENTENCE = "The animal didn't cross the street because it was too tired"
TABLE = """\
12 layers; 12 heads per layer
head  0: ' it' attends most to ' it'        (0.10)
head  1: ' it' attends most to ' because'   (0.73)
head  2: ' it' attends most to ' because'   (0.06)
head  3: ' it' attends most to ' animal'    (0.85)
head  4: ' it' attends most to ' it'        (0.06)
head  5: ' it' attends most to "'t"         (0.06)
head  6: ' it' attends most to ' animal'    (0.16)
head  7: ' it' attends most to ' it'        (0.53)
head  8: ' it' attends most to ' because'   (0.04)
head  9: ' it' attends most to "'t"         (0.27)
head 10: ' it' attends most to ' because'   (0.05)
head 11: ' it' attends most to ' because'   (1.00)
"""


def headscope(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, env=environment(), timeout=120 * PATIENCE)


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        print(f"skipped: no program at {PROGRAM}")
        sys.exit(77)
    if "headscope pull gpt2" in headscope("info", "gpt2").stderr:
        print("skipped: gpt2 not in the cache")
        sys.exit(77)
    done = headscope("look", "-m", "gpt2", SENTENCE, "--layer", "5", "--token", " it")
    print(done.stdout, done.stderr, sep="")
    sys.exit(done.returncode != 0 or done.stdout != TABLE)
