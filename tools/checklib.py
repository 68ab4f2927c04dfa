"""What the checks share: which files there are, and how a failure is shown.

Every check is a function from the folder of a checkout to a list of complaints, so that tests can run it on a folder
that they made themselves. It prints the complaints and exits 1 when there are any.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
C_FOLDERS = ("include", "src", "tests", "fuzz", "bench", "examples")


def files(root, *endings):
    """Tracked and new files of the checkout, sorted, '/'-separated; without git every file that no build made."""
    try:
        command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, capture_output=True, check=True).stdout
        names = sorted(set(os.fsdecode(listing).split("\0")) - {""})
    except (OSError, subprocess.CalledProcessError):
        names = sorted(walk(root))
    return [n for n in names if n.endswith(endings or "") and os.path.isfile(os.path.join(root, n))]


def walk(root):
    for folder, folders, names in os.walk(root):
        folders[:] = [f for f in folders if not re.match(r"build|\.git$|\.venv|\.cache$|__pycache__$", f)]
        for name in names:
            yield os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")


def c_files(root, folders=C_FOLDERS):
    return [n for n in files(root, ".c", ".h") if n.split("/")[0] in folders]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def without_comments(text, keep_strings=True):
    """C text with comments, and on request strings, blanked out; lines stay where they are."""
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'"

    def blank(match):
        found = match.group()
        if found[0] in "\"'":
            return found if keep_strings else found[0] + " " * (len(found) - 2) + found[0]
        return re.sub(r"[^\n]", " ", found)

    return re.sub(pattern, blank, text, flags=re.S)


def main(check, what):
    root = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    complaints = check(root)
    for complaint in complaints:
        print(complaint)
    print(f"{what}: {len(complaints)} to mend" if complaints else f"{what}: fine")
    sys.exit(1 if complaints else 0)
