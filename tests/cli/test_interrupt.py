"""Ctrl-C inside the commands that work through pair files and corpora: it ends them at once with 130 and one line that
says where, nothing half-written stays, and what --db keeps goes on."""

import os
import re
import signal
import subprocess
import time

from program import DATA, PATIENCE, PROGRAM, ProgramTest, catches_interrupt, environment, main, wait_for

STORIES = DATA / "models" / "stories260K" / "stories260K.f32.gguf"  # 5 layers of 8 heads
PAIR = "[a:Tom] met [b:Ben] at {n}. Then {{Ben|Tom}} gave a ball [q:to]\n"
STOPPED = re.compile(r"headscope: stopped \(([^\n]+)\)([^\n]*)\n")


class Interrupt(ProgramTest):
    def setUp(self):
        super().setUp()
        self.pairs, self.few, self.corpus = (self.folder / name for name in ("pairs.txt", "few.txt", "corpus.txt"))
        self.pairs.write_text("".join(PAIR.format(n=n) for n in range(20000)))
        self.few.write_text("".join(PAIR.format(n=n) for n in range(6)))
        self.away = self.folder / "away.txt"
        self.away.write_text("Once upon a time\n")
        self.corpus.write_text("Once upon a time there was a dog. Tom had a big red ball and a cat.\n" * 20000)
        self.picture = self.folder / "map.png"
        self.before = sorted(os.listdir(self.folder))

    def commands(self, pairs):
        toward, metric = ("--toward", self.few, "--away", self.away), ("--metric", "logit: a")
        return (("ablate", "--pairs", pairs), ("ablate", "--pairs", pairs, "--how", "resample", "--heads", "L1H1"),
                ("patch", "--pairs", pairs), ("attribute", "--pairs", pairs), ("lens", "--pairs", pairs),
                ("steer", *toward, "--pairs", pairs), ("score", "--pairs", pairs), ("scan", pairs))

    def plot(self, words):
        return () if words[0] == "score" or "--heads" in words else ("--plot", self.picture)

    def interrupt(self, words, moment):
        """The status, standard output and standard error of a run that gets Ctrl-C at the moment, in seconds after it
        can take one."""
        process = subprocess.Popen([PROGRAM, words[0], "-m", STORIES, *map(str, words[1:])], env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertTrue(wait_for(lambda: catches_interrupt(process)))
        time.sleep(moment)
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=100 * PATIENCE)
        self.assertLess(time.monotonic() - start, 10 * PATIENCE)
        return process.returncode, out.decode(), err.decode()

    def check_stopped(self, words, moment):
        status, out, err = self.interrupt(words, moment)
        self.assertEqual((status, out), (130, ""), (words, moment, err))
        self.assertTrue(err == "" or STOPPED.fullmatch(err), (words, moment, err))
        self.assertEqual(sorted(os.listdir(self.folder)), self.before, words)
        return err

    def test_in_the_middle(self):
        """Before the first text and while texts go by. Nothing tells from outside when they do: the wait grows."""
        for words in self.commands(self.pairs):
            self.check_stopped(words, 0)
            for moment in (0.3, 1, 4, 16):
                if self.check_stopped((*words, "--json", *self.plot(words)), moment):
                    break
            else:
                self.fail(f"{words[0]} does not say where it stopped")

    def test_near_the_end(self):
        """A picture is whole or not there, and what was printed is a whole answer or none."""
        for words in (*self.commands(self.few), ("circuit",)):
            if not self.plot(words):
                continue
            words = (*words, "--csv", *self.plot(words))
            start = time.monotonic()
            whole = self.good(words[0], "-m", STORIES, *words[1:])
            took = time.monotonic() - start
            for part in (0.3, 0.6, 0.8, 0.9, 1):
                self.picture.unlink(missing_ok=True)
                status, out, err = self.interrupt(words, part * took)
                self.assertIn((status, out), ((130, ""), (130, whole), (0, whole)), words)
                if self.picture.exists():
                    self.assertTrue(self.picture.read_bytes().endswith(b"IEND\xaeB`\x82"), words)
                self.picture.unlink(missing_ok=True)
                self.assertEqual(sorted(os.listdir(self.folder)), self.before, words)

    def test_what_goes_on(self):
        """With --db the line says so, and so it is."""
        for words, n_all in ((("scan", self.pairs), 20000), (("detect", self.corpus), None)):
            for moment in (0.5, 1, 4, 16):
                db = self.folder / "kept.sqlite"
                status, out, err = self.interrupt((*words, "--db", db), moment)
                self.assertEqual((status, out), (130, ""), err)
                said = STOPPED.fullmatch(err)
                if said:
                    break
            self.assertEqual(said[2], "; the same command goes on from there")
            done = int(re.search(r" (\d+)(?: of \d+)?$", said[1])[1])
            again = STOPPED.fullmatch(self.interrupt((*words, "--db", db), 2 * moment)[2])
            self.assertGreaterEqual(int(re.search(r" (\d+)(?: of \d+)?$", again[1])[1]), done // 2)
            self.assertIn(n_all and f" of {n_all}" or "window", said[1])


if __name__ == "__main__":
    main("models/stories260K")
