"""cmake --install: another program is built against what lies there, by pkg-config, and runs."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from program import PROGRAM, ProgramTest, sanitized

BUILD = pathlib.Path(PROGRAM).parent
SOURCE = """#include <headscope.h>
#include <headscope/intervene.h>
#include <stdio.h>
int main(void) { puts(hsc_status_text(HSC_ENOTFOUND)); return 0; }
"""


class Install(ProgramTest):
    def test_pkg_config(self):
        prefix, source, program = (self.folder / name for name in ("elsewhere", "a.c", "a"))
        subprocess.run(["cmake", "--install", BUILD, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        (pc,) = prefix.rglob("headscope.pc")
        env = {**os.environ, "PKG_CONFIG_PATH": str(pc.parent), "LD_LIBRARY_PATH": str(pc.parent.parent)}
        source.write_text(SOURCE)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "headscope"], check=True, capture_output=True, text=True, env=env)
        subprocess.run(["cc", source, *flags.stdout.split(), "-o", program], check=True)
        said = subprocess.run([program], check=True, capture_output=True, text=True, env=env)
        self.assertEqual(said.stdout, "no such file, tensor, token or name\n")


if __name__ == "__main__":
    missing = [tool for tool in ("cmake", "pkg-config", "cc") if not shutil.which(tool)]
    if missing or sanitized() or not (BUILD / "libheadscope.so").exists():
        print("skipped: wants cmake, pkg-config, cc and a build that another program can link")
        sys.exit(77)
    unittest.main()
