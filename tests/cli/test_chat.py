"""headscope chat: turns through a pipe and on a terminal, what is remembered, and Ctrl-C. The model is a small one that
was given a template; what it says makes no sense and is always the same."""

import json
import os
import pty
import select
import shutil
import signal
import subprocess
import time
import unittest

from program import DATA, PATIENCE, PROGRAM, ProgramTest, environment, main

TINY = DATA / "models" / "tinystories-656k"
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}{{ m.content }} {% elif m.role == 'user' %}"
            "Q:{{ m.content }}\nA:{% else %} {{ m.content }}\n{% endif %}{% endfor %}")


class Chat(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "model"
        self.model.mkdir()
        for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json"):
            shutil.copy(TINY / name, self.model / name)
        config = json.loads((TINY / "tokenizer_config.json").read_text())
        config["chat_template"] = TEMPLATE
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))

    def chat(self, text, *words):
        return self.good("chat", "-m", self.model, "-T", "0", "-n", "12", *words, input=text.encode())

    def reply(self, prompt):
        """What generate writes after this text: the template by hand."""
        (sample,) = self.json("generate", "-m", self.model, "-n", "12", "--no-special", "--parse-special",
                              "<|start_story|>" + prompt)["samples"]
        return sample["text"].lstrip()

    def test_a_conversation(self):
        first = self.reply("Q:Hello\nA:")
        second = self.reply(f"Q:Hello\nA: {first}\nQ:And then?\nA:")
        self.assertEqual([line for line in self.chat("Hello\nAnd then?\n").splitlines()], [*first.splitlines(), *second.splitlines()])
        self.assertEqual(self.chat("", "--once", "Hello").strip(), first)
        self.assertEqual(self.chat("Hello"), first + "\n")  # no line end at the end
        self.assertEqual(self.chat("Hello\n/reset\nHello\n"), (first + "\n") * 2)
        self.assertEqual(self.chat("Hello\n/exit\nHello\n"), first + "\n")

    def test_rules_of_the_file(self):
        """A rule that is not followed is named, in the words of generate; --show-template writes nothing and names none."""
        path = self.model / "generation_config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "repetition_penalty": 1.3}))
        words = ("chat", "-m", self.model, "-n", "2", "--once", "Hello")
        said = self.run_program(*words).stderr.decode()
        self.assertEqual(said, "headscope: note: model: its repetition_penalty is not followed: options alone decide\n")
        self.assertEqual(said, self.run_program("generate", "-m", self.model, "Hello", "-n", "2").stderr.decode())
        self.assertEqual(self.run_program(*words[:3], "--show-template").stderr, b"")

    def test_system(self):
        told = self.reply("Be kind. Q:Hello\nA:")
        self.assertEqual(self.chat("Hello\n", "--system", "Be kind."), told + "\n")
        self.assertEqual(self.chat("/system Be kind.\nHello\n"), told + "\n")

    def test_many_lines(self):
        want = self.reply("Q:one\ntwo\nA:") + "\n"
        self.assertEqual(self.chat("one\\\ntwo\n"), want)
        self.assertEqual(self.chat('"""\none\ntwo\n"""\n'), want)
        self.assertEqual(self.chat('"""\r\none\r\ntwo\r\n"""\r\n'), want)
        self.assertEqual(self.chat('"""\none\ntwo'), want)

    def test_cache_is_used(self):
        lines = self.chat("Hello\nAnd then?\n", "--json").splitlines()
        first, second = map(json.loads, lines)
        self.assertEqual(first["finish"], "length")
        self.assertGreater(second["n_prompt"], first["n_prompt"] + len(first["ids"]))
        self.assertEqual(self.chat("Hello\nAnd then?\n", "--json", "-t", "3"), "\n".join(lines) + "\n")

    def test_seed(self):
        drawn = ["chat", "-m", self.model, "-n", "12", "-T", "1.5", "--once", "Hello"]
        self.assertEqual(self.good(*drawn), self.good(*drawn))
        self.assertNotEqual(self.good(*drawn), self.good(*drawn, "--seed", "5"))

    def test_templates(self):
        self.assertEqual(self.good("chat", "-m", self.model, "--show-template"), TEMPLATE + "\n")
        (self.model / "chat_template.jinja").write_text("{{ raise_exception('not today') }}")
        self.bad(1, "chat", "-m", self.model, "--once", "x", says=["refused: not today"])
        (self.model / "chat_template.jinja").write_text("a\n{% include 'x' %}")
        self.bad(1, "chat", "-m", self.model, "--once", "x", says=["line 2", "unknown statement 'include'"])
        self.bad(1, "chat", "-m", TINY, "--once", "x", says=["carries no chat template", "headscope generate"])
        os.unlink(self.model / "chat_template.jinja")
        config = json.loads((self.model / "tokenizer_config.json").read_text())
        config["chat_template"] = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": TEMPLATE}]
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))
        self.assertEqual(self.good("chat", "-m", self.model, "--show-template"), TEMPLATE + "\n")

    def test_context(self):
        done = self.run_program("chat", "-m", self.model, "--once", "Once upon a time " * 200)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"at most 512 (its context)", done.stderr)

    def terminal(self, *words):
        master, slave = pty.openpty()
        process = subprocess.Popen([PROGRAM, "chat", "-m", str(self.model), "-T", "0", *words], stdin=slave, stdout=slave,
                                   stderr=slave, env=environment(), start_new_session=True)
        os.close(slave)
        self.addCleanup(os.close, master)
        return process, master

    def wait_for(self, master, words):
        seen = b""
        end = time.monotonic() + 60 * PATIENCE
        while words not in seen:
            self.assertLess(time.monotonic(), end, seen)
            if select.select([master], [], [], 1)[0]:
                seen += os.read(master, 4096)
        return seen

    def test_terminal(self):
        process, master = self.terminal("-n", "8")
        self.wait_for(master, b"> ")
        os.write(master, b"Hello\n")
        reply = self.wait_for(master, b"\n> ").decode().replace("\r", "")
        self.assertIn(self.reply("Q:Hello\nA:")[:8], reply)
        os.write(master, b"/help\n")
        self.wait_for(master, b"/reset")
        os.write(master, b"/exit\n")
        self.assertEqual(process.wait(60 * PATIENCE), 0)

    def test_interrupt(self):
        """Ctrl-C stops a reply that would go on for long, and the conversation goes on."""
        config = json.loads((self.model / "config.json").read_text())
        config["max_position_embeddings"] = 100000
        (self.model / "config.json").write_text(json.dumps(config))
        (self.model / "generation_config.json").write_text('{"eos_token_id": 2047}')
        process, master = self.terminal("-n", "0")
        self.wait_for(master, b"> ")
        os.write(master, b"Hello\n")
        self.wait_for(master, b"Hello\r\n")
        time.sleep(0.3 * PATIENCE)
        process.send_signal(signal.SIGINT)
        self.wait_for(master, b"\n> ")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.wait_for(master, b"once more")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60 * PATIENCE), 130)

    def test_misuse(self):
        self.bad(2, "chat", "-m", self.model, "Hello", says=["not an option"])
        self.bad(2, "chat", "-m", self.model, "--repetition", "0", says=["above 0"])


if __name__ == "__main__":
    main("models/tinystories-656k")
