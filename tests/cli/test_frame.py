"""The program's frame: help, docs/cli.md, errors and exit statuses, closed pipes, full disks, colours, Ctrl-C."""

import os
import re
import signal
import subprocess
import unittest

from program import (COMMANDS, PATIENCE, PROGRAM, SOURCE, ProgramTest, catches_interrupt, environment, main, on_terminal,
                     wait_for)


class Help(ProgramTest):
    def test_overview(self):
        text = self.good("--help")
        self.assertEqual(text, self.good())
        self.assertEqual(text, self.good("help"))
        self.assertEqual(text, self.good("-h"))
        for command in COMMANDS:
            self.assertRegex(text, rf"\n  {command} +[a-z]")

    def test_every_command(self):
        for command in COMMANDS:
            text = self.good(command, "--help")
            self.assertTrue(text.startswith(f"Usage: headscope {command} "), text)
            self.assertEqual(text, self.good("help", command))
            self.assertEqual(text, self.good(command, "-h"))
            self.assertIn("\nExamples:\n", text)
            self.assertIn("  -h, --help", text)
            body = text[: text.index("\nExamples:\n")]
            self.assertLessEqual(max(map(len, body.splitlines())), 80)
            self.assertFalse(re.search(r"[ \t]$", text, re.M), f"{command}: blanks at the end of a line")

    def test_help_comes_before_errors_that_follow(self):
        self.assertTrue(self.good("look", "--help", "--nonsense").startswith("Usage:"))

    def test_page_is_current(self):
        page = (SOURCE / "docs" / "cli.md").read_text()
        self.assertEqual(page, self.good("help", "--markdown"), "docs/cli.md: headscope help --markdown > docs/cli.md")

    def test_version(self):
        self.assertRegex(self.good("--version"), r"^headscope \d+\.\d+\.\d+\nkernels: \w+\ncompute: f32, bf16, q8\n$")
        self.assertIn("kernels: ref\n", self.good("--version", env={"HEADSCOPE_ISA": "ref"}))


class Arguments(ProgramTest):
    def test_instruction_set_that_is_not_there(self):
        for wanted in ("bogus", "AVX2"):
            self.bad(2, "info", "-m", "x", env={"HEADSCOPE_ISA": wanted}, says=["HEADSCOPE_ISA", wanted, "ref"])
        self.good("--version", env={"HEADSCOPE_ISA": ""})

    def test_unknown_command(self):
        self.bad(2, "lok", says=["unknown command 'lok'", "did you mean look?"])
        self.assertNotIn("did you mean", self.bad(2, "xyzzy", says=["unknown command 'xyzzy'"]))
        self.bad(2, "help", "tokenise", says=["did you mean tokenize?"])
        self.bad(2, "--verson", says=["unknown command '--verson'"])

    def test_unknown_option(self):
        self.bad(2, "look", "--layr", "5", says=["look: unknown option --layr; did you mean --layer?"])
        self.bad(2, "run", "--layesr=5", says=["run: unknown option --layesr; did you mean --layers?"])
        self.bad(2, "look", "--toekn", "x", says=["did you mean --token?"])
        self.bad(2, "look", "--tom", "x", says=["did you mean --to?"])  # --top is as near: the first of equals
        self.assertNotIn("did you mean", self.bad(2, "look", "--xyzzy", says=["look: unknown option --xyzzy"]))
        self.bad(2, "look", "-x", says=["unknown option -x"])

    def test_missing_values(self):
        self.bad(2, "look", "-m", says=["--model wants a value: --model MODEL"])
        self.bad(2, "look", "text", "--layer", says=["--layer wants a value"])
        self.bad(2, "look", "--json=1", says=["--json takes no value"])

    def test_values(self):
        for option, value, says in (
                ("--layer", "0", "5 (counted from 1)"), ("--layer", "L3-L1", "L0-L11"), ("--layer", "L", "'L'"),
                ("--layer", "3,,4", "'3,,4'"), ("--layer", "99999999999", "99999999999"), ("--layer", "", "''"),
                ("--head", "3", "L4H3"), ("--head", "L4", "L4H3"), ("--head", "L4H3x", "L4H3x"),
                ("--top", "0", "from 1 to 1000"), ("--top", "1001", "from 1 to 1000"), ("--top", "-1", "'-1'"),
                ("--pos", "x", "whole number"), ("--pos", "1.5", "'1.5'"), ("--pos", "3000000000", "3000000000"),
                ("--ids", "1,x", "1,2,3"), ("--ids", "", "''"), ("--ids", "-1,2", "-1"), ("--ids", "1,", "'1,'"),
                ("--threads", "0", "from 1"), ("--scale", "cubic", "fixed|max|row|log")):
            with self.subTest(option=option, value=value):
                self.bad(2, "look", "-m", "nowhere", "text", f"{option}={value}", says=[option, says])
                self.bad(2, "look", "-m", "nowhere", "text", option, value, says=[says])

    def test_values_that_are_fine(self):
        """The parser lets them pass: what is missed next is the model."""
        for words in (["--layer", "5"], ["--layer=L4"], ["--layer", "L0-L11,12,3-4"], ["--head", "L4H3"], ["-k5"],
                      ["-k", "5"], ["-l", "1-2"], ["--top=1000"], ["--pos", "0"], ["-t", "2"], ["--scale", "log"]):
            with self.subTest(words=words):
                self.bad(1, "look", "-m", "/no/such/model", "text", *words, says=["/no/such/model"])
        self.bad(1, "look", "-m", "/no/such/model", "--ids", "[1, 2 ,3]", says=["/no/such/model"])
        self.bad(1, "look", "-m", "/no/such/model", "--json", "--", "--text", says=["/no/such/model"])
        self.bad(1, "look", "--", "-m", env={"HEADSCOPE_MODEL": "/no/such/model"}, says=["/no/such/model"])

    def test_arguments_that_contradict(self):
        model = ["-m", "/no/such/model"]
        for words, says in (
                ([], "no text"), (["a", "b"], "one argument too many: 'b'"), (["a", "--ids", "1"], "more than one of"),
                (["a", "--file", "f"], "more than one of"), (["a", "--token", "x", "--pos", "1"], "--token and --pos"),
                (["a", "--to", "x", "--to-pos", "1"], "--to and --to-pos"), (["a", "--json", "--csv"], "--json and --csv"),
                (["a", "--vs", "b", "--to", "x"], "--vs"), (["a", "--vs", "b", "--plot", "x.png"], "--vs"),
                (["a", "--plot", "x.jpg"], ".png, .svg or .pdf"), (["a", "--heatmap"], "--head or --layer"),
                (["a", "--heatmap", "--layer", "1", "--json"], "--heatmap"),
                (["a", "--head", "L4H3", "--layer", "1"], "--head L4H3")):
            with self.subTest(words=words):
                self.bad(2, "look", *model, *words, says=[says])
        for words, says in ((["--text", "a", "-o", "a.npz"], "no sites"), (["--text", "a", "--sites", "pattern"], "no output"),
                            (["--sites", "pattern", "-o", "a.npz"], "exactly one of"),
                            (["--text", "a", "--ids", "1", "--sites", "q", "-o", "a.npz"], "exactly one of"),
                            (["--text", "a", "--sites", "patern", "-o", "a.npz"], "did you mean pattern?"),
                            (["--text", "a", "--sites", "q,", "-o", "a.npz"], "unknown site ''"),
                            (["--text", "a", "--sites", "q", "-o", "a.txt"], ".safetensors or .npz"),
                            (["x", "--text", "a", "--sites", "q", "-o", "a.npz"], "'x'")):
            with self.subTest(words=words):
                self.bad(2, "run", *model, *words, says=[says])
        self.bad(2, "tokenize", *model, says=["no text"])
        self.bad(2, "tokenize", *model, "a", "--decode", "1", says=["more than one of"])
        self.bad(2, "info", *model, "other", says=["two models"])
        self.bad(2, "pull", says=["missing"])

    def test_no_model(self):
        for words in (["look", "text"], ["info"], ["tokenize", "text"],
                      ["run", "--text", "a", "--sites", "pattern", "-o", "a.npz"]):
            self.bad(2, *words, says=["no model: -m MODEL", "HEADSCOPE_MODEL"])
            self.bad(2, *words, env={"HEADSCOPE_MODEL": ""}, says=["no model"])
        self.bad(2, "tokenize", "--file", self.folder / "none", says=["no model"])

    def test_no_model_is_told_before_standard_input_is_read(self):
        read, write = os.pipe()
        self.addCleanup(os.close, write)  # it stays open: whoever reads, waits
        self.addCleanup(os.close, read)
        done = subprocess.run([PROGRAM, "tokenize", "-"], stdin=read, capture_output=True, timeout=60 * PATIENCE, env=environment())
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_control_characters_stay_out_of_messages(self):
        text = self.bad(2, "look", "--lay\033[31m\nr")
        self.assertNotIn("\033", text)
        self.assertEqual(len(text.splitlines()), 2)


class Paths(ProgramTest):
    """B57: each fault has a line of its own that names the path and the reason."""

    def test_model_paths(self):
        empty = self.folder / "empty"
        empty.mkdir()
        (self.folder / "zero.gguf").touch()
        (self.folder / "text").write_text("hello")
        for path, says in ((self.folder / "none", "none"), (empty, "config.json"), (self.folder / "zero.gguf", "zero.gguf"),
                           (self.folder / "text", "text"), (self.folder / "text" / "below", "below")):
            for command in (["look", "-m", path, "a"], ["info", path],
                            ["run", "-m", path, "--ids", "1", "--sites", "q", "-o", self.folder / "o.npz"]):
                with self.subTest(path=path, command=command[0]):
                    self.bad(1, *command, says=[says])
        self.assertFalse((self.folder / "o.npz").exists())

    def test_text_paths(self):
        for command in (["look"], ["tokenize"]):
            model = ["-m", self.folder]
            (self.folder / "config.json").write_text("{}")
            if command == ["tokenize"]:
                self.bad(1, *command, *model, "--file", self.folder / "none", says=["none", "No such file"])
                self.bad(1, *command, *model, "--file", self.folder, says=["Is a directory"])

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_no_permission(self):
        path = self.folder / "secret.gguf"
        path.touch(0)
        self.bad(1, "info", path, says=["secret.gguf", "Permission denied"])


class Output(ProgramTest):
    """B55."""

    def test_closed_pipe(self):
        for command in (["look", "--help"], ["help", "--markdown"], ["run", "--sites", "help"]):
            read, write = os.pipe()
            os.close(read)
            done = subprocess.run([PROGRAM, *command], stdout=write, stderr=subprocess.PIPE, env=environment())
            os.close(write)
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)

    def test_head_takes_one_line(self):
        done = subprocess.run(["bash", "-c", '"$0" help --markdown | head -1; exit ${PIPESTATUS[0]}', PROGRAM],
                              capture_output=True, env=environment())
        self.assertIn(done.returncode, (0, 141))
        self.assertEqual((done.stdout, done.stderr), (b"# The program\n", b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full")
    def test_full_disk(self):
        for command in (["look", "--help"], ["help", "--markdown"], ["--version"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM, *command], stdout=full, stderr=subprocess.PIPE, env=environment())
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr.decode(), r"^headscope: cannot write to standard output(: No space left on device)?\n$")

    def test_closed_standard_output(self):
        done = subprocess.run(["bash", "-c", '"$0" --version >&-', PROGRAM], capture_output=True, env=environment())
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write to standard output", done.stderr)

    def test_errors_on_a_terminal_have_no_escapes_for_the_dumb(self):
        for more in ({"TERM": "dumb"}, {"NO_COLOR": "1"}):
            output, status = on_terminal(["look", "--layr"], environment(**more))
            self.assertEqual(status, 2)
            self.assertNotIn(b"\033", output)


class Interrupt(ProgramTest):
    def test_ctrl_c(self):
        """While it waits for standard input."""
        process = subprocess.Popen([PROGRAM, "tokenize", "-m", self.folder, "-"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.assertTrue(wait_for(lambda: catches_interrupt(process)))
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30 * PATIENCE)
        self.assertEqual((process.returncode, out, err), (130, b"", b""))


if __name__ == "__main__":
    main()
