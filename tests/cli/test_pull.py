"""headscope pull against a loopback Hub: the cache's layout, resuming, checksums, refusals, tokens, hostile names."""
import fcntl
import json
import os
import pty
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from hub_server import Hub, Repo, git_sha1, sha256
from program import PATIENCE

PROGRAM = os.environ.get("HEADSCOPE", "")
OURS = ("HF_", "HUGGING", "TRANSFORMERS", "XDG_CACHE", "HOME", "http_proxy", "https_proxy", "HTTP", "ALL_PROXY",
        "all_proxy", "no_proxy", "NO_PROXY")
WEIGHTS = bytes(range(256)) * 8192  # 2 MiB
SMALL = {"config.json": b'{"model_type":"gpt2"}', "vocab.json": b"{}", "merges.txt": b"#version: 0.2\n",
         "tokenizer.json": b"{}", "chat_template.jinja": b"{{ x }}", "README.md": b"# not fetched\n",
         "pytorch_model.bin": b"not fetched"}


def model(**more):
    return Repo({**SMALL, "model.safetensors": WEIGHTS}, lfs=["model.safetensors"], **more)


class PullTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = Path(folder.name)
        self.cache = self.home / "hf" / "hub"
        self.hub = Hub({"org/tiny": model()})
        self.addCleanup(self.hub.close)

    def environment(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        env.update(HOME=str(self.home), HF_HOME=str(self.home / "hf"), HF_ENDPOINT=self.hub.endpoint, LC_ALL="C.UTF-8")
        env.update(more)
        return {k: v for k, v in env.items() if v is not None}

    def pull(self, *args, env=None, **popen):
        return subprocess.run([PROGRAM, "pull", *args], env=env or self.environment(), capture_output=True, text=True,
                              timeout=60 * PATIENCE, **popen)

    def good(self, *args, **more):
        result = self.pull(*args, **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("\n"), 1)
        return Path(result.stdout.rstrip("\n")), result.stderr

    def bad(self, *args, status=1, says=(), **more):
        """Fails with one line of advice and leaves nothing that looks complete."""
        result = self.pull(*args, **more)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, "")
        for words in says:
            self.assertIn(words, result.stderr)
        self.assertNotIn("Sanitizer", result.stderr)
        return result.stderr

    def blobs(self, repo="models--org--tiny"):
        folder = self.cache / repo / "blobs"
        return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []

    def gets(self, name):
        return [e for e in self.hub.log if e["method"] == "GET" and e["path"].endswith(name)]


class Layout(PullTest):
    def test_full_pull(self):
        path, stderr = self.good("org/tiny")
        repo, folder = self.hub.repos["org/tiny"], self.cache / "models--org--tiny"
        self.assertEqual(path, folder / "snapshots" / repo.commit)
        wanted = set(repo.files) - {"README.md", "pytorch_model.bin"}
        self.assertEqual({p.name for p in path.iterdir()}, wanted)
        self.assertEqual((folder / "refs" / "main").read_text(), repo.commit)
        for name in wanted:
            link = os.readlink(path / name)
            self.assertEqual(link, f"../../blobs/{repo.etag(name)}")
            self.assertEqual((path / name).read_bytes(), repo.files[name])
        self.assertEqual(set(self.blobs()), {repo.etag(n) for n in wanted})
        self.assertEqual(self.blobs(), sorted(set(self.blobs())))
        self.assertTrue((self.cache / ".locks" / "models--org--tiny").is_dir())
        self.assertTrue((self.cache / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806"))
        # No escape sequences where standard error is no terminal: one line a file.
        self.assertEqual(len(stderr.splitlines()), len(wanted), stderr)
        self.assertNotIn("\x1b", stderr)

    def test_second_pull_fetches_nothing(self):
        self.good("org/tiny")
        before = len(self.hub.log)
        self.good("org/tiny")
        self.assertEqual([e["path"] for e in self.hub.log[before:]], ["/api/models/org/tiny/revision/main"])

    def test_new_commit_shares_blobs(self):
        first, _ = self.good("org/tiny")
        self.hub.repos["org/tiny"] = Repo({**SMALL, "config.json": b"{}", "model.safetensors": WEIGHTS},
                                          lfs=["model.safetensors"])
        second, _ = self.good("org/tiny")
        self.assertNotEqual(first, second)
        self.assertEqual((first / "config.json").read_bytes(), SMALL["config.json"])
        self.assertEqual((second / "config.json").read_bytes(), b"{}")
        self.assertEqual(len(self.gets("model.safetensors")), 2)  # the Hub and its storage, once
        self.assertEqual((self.cache / "models--org--tiny/refs/main").read_text(), second.name)

    def test_list_without_checksums(self):
        self.hub.repos["org/tiny"] = model(details=False)
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(os.readlink(path / "model.safetensors"), f"../../blobs/{sha256(WEIGHTS)}")

    def test_shards(self):
        files = {**SMALL, "a-00001-of-00002.safetensors": b"one", "sub/b-00002-of-00002.safetensors": b"two",
                 "unused.safetensors": b"three"}
        index = {"weight_map": {"x": "a-00001-of-00002.safetensors", "y": "sub/b-00002-of-00002.safetensors",
                                "z": "a-00001-of-00002.safetensors"}}
        files["model.safetensors.index.json"] = json.dumps(index).encode()
        self.hub.repos["org/sharded"] = Repo(files, lfs=["a-00001-of-00002.safetensors"])
        path, _ = self.good("org/sharded")
        self.assertEqual((path / "sub/b-00002-of-00002.safetensors").read_bytes(), b"two")
        self.assertEqual(os.readlink(path / "sub/b-00002-of-00002.safetensors"), f"../../../blobs/{git_sha1(b'two')}")
        self.assertEqual((path / "a-00001-of-00002.safetensors").read_bytes(), b"one")
        self.assertFalse((path / "unused.safetensors").exists())

    def test_revisions(self):
        repo = self.hub.repos["org/tiny"]
        repo.revisions.update({"v1.0": repo.commit, "refs/pr/3": repo.commit})
        for args in (["org/tiny@v1.0"], ["org/tiny", "--revision", "refs/pr/3"]):
            path, _ = self.good(*args)
            self.assertEqual(path.name, repo.commit)
        self.assertEqual((self.cache / "models--org--tiny/refs/v1.0").read_text(), repo.commit)
        self.assertEqual((self.cache / "models--org--tiny/refs/refs/pr/3").read_text(), repo.commit)
        self.assertFalse((self.cache / "models--org--tiny/refs/main").exists())
        self.good(f"org/tiny@{repo.commit}")
        self.bad("org/tiny@nope", says=['no branch, tag or commit "nope"'])
        self.bad("org/tiny@v1.0", "--revision", "v2.0", status=2, says=["v1.0", "v2.0"])

    def test_old_name_follows_the_redirect(self):
        self.hub.repos["openai-community/gpt2"] = model()
        self.hub.renamed["gpt2"] = "openai-community/gpt2"
        path, _ = self.good("gpt2")
        self.assertEqual(path.parent.parent.name, "models--gpt2")

    def test_old_name_that_the_server_does_not_know(self):
        self.hub.repos["openai-community/gpt2"] = model()
        path, _ = self.good("gpt2")
        self.assertEqual(path.parent.parent.name, "models--openai-community--gpt2")
        self.bad("gpt2-medium", says=["gpt2-medium: no such repository"])

    def test_where_the_cache_is(self):
        for more, place in (({"HF_HUB_CACHE": "~/a"}, "a"), ({"HF_HUB_CACHE": "$HOME/b/${HF_X}", "HF_X": "c"}, "b/c"),
                            ({"HF_HOME": None, "XDG_CACHE_HOME": f"{self.home}/x"}, "x/huggingface/hub"),
                            ({"HF_HOME": None}, ".cache/huggingface/hub"), ({"HF_HOME": "~/h"}, "h/hub")):
            path, _ = self.good("org/tiny", env=self.environment(**more))
            self.assertEqual(path.parent.parent.parent, self.home / place)


class Choice(PullTest):
    def test_named_files(self):
        path, _ = self.good("org/tiny", "--file", "README.md", "--file=config.json")
        self.assertEqual({p.name for p in path.iterdir()}, {"README.md", "config.json"})
        self.bad("org/tiny", "--file", "absent.txt", says=['no file "absent.txt"'])
        self.bad("org/tiny", "--file", "pytorch_model.bin", status=2, says=["pickled"])
        for name in ("../config.json", "/etc/passwd", "a//b", "a\\b", "./config.json"):
            self.bad("org/tiny", "--file", name, status=2, says=["not the name of a file"])
        self.bad("org/tiny", "--file", "", status=2, says=["--file"])

    def test_gguf(self):
        self.hub.repos["org/one"] = Repo({"a.gguf": b"GGUF", "README.md": b""}, lfs=["a.gguf"])
        path, _ = self.good("org/one")
        self.assertEqual((path / "a.gguf").read_bytes(), b"GGUF")
        self.hub.repos["org/two"] = Repo({"a.gguf": b"GGUF", "b.gguf": b"GGUF2"}, lfs=["a.gguf", "b.gguf"])
        self.bad("org/two", says=["choose one with --file", "a.gguf, b.gguf"])
        path, _ = self.good("org/two", "--file", "b.gguf")
        self.assertEqual([p.name for p in path.iterdir()], ["b.gguf"])

    def test_only_pickles(self):
        self.hub.repos["org/old"] = Repo(SMALL)
        self.bad("org/old", says=["no safetensors", "pytorch_model.bin", "refs/pr/"])
        self.assertEqual(self.blobs("models--org--old"), [])

    def test_no_weights(self):
        self.hub.repos["org/none"] = Repo({"config.json": b"{}"})
        self.bad("org/none", says=["neither model.safetensors nor a GGUF file"])
        self.hub.repos["org/other"] = Repo({"model.safetensors": b"x"})
        self.bad("org/other", says=["no config.json"])


class Use(PullTest):
    DATA = Path(os.environ.get("HEADSCOPE_TEST_DATA", "")) / "models" / "tinystories-656k"

    @unittest.skipUnless(DATA.is_dir(), "tinystories-656k is not in HEADSCOPE_TEST_DATA")
    def test_a_pulled_model_opens_by_its_names(self):
        def info(name):
            return subprocess.run([PROGRAM, "info", "-m", name], env=self.environment(), capture_output=True, text=True,
                                  timeout=60 * PATIENCE)
        before = info("gpt2")
        self.assertEqual(before.returncode, 1)
        self.assertIn("headscope pull gpt2", before.stderr)
        files = {p.name: p.read_bytes() for p in self.DATA.iterdir()}
        self.hub.repos["openai-community/gpt2"] = Repo(files, lfs=["model.safetensors"])
        self.good("openai-community/gpt2")
        for name in ("gpt2", "openai-community/gpt2"):
            after = info(name)
            self.assertEqual(after.returncode, 0, after.stderr)
            self.assertIn("2048", after.stdout)  # its vocabulary


class Faults(PullTest):
    def partial(self):
        return self.cache / "models--org--tiny" / "blobs" / (sha256(WEIGHTS) + ".incomplete")

    def test_cut_connection_is_gone_on_with(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "cut": 700_000},
                           {"match": "tiny/model.safetensors", "cut": 300_000}]
        path, stderr = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        ranges = [e["range"] for e in self.gets("tiny/model.safetensors") if e["where"] == "storage"]
        self.assertEqual(ranges[0], None)
        starts = [int(r[6:-1]) for r in ranges[1:]]
        self.assertEqual(starts, [700_000, 1_000_000])
        self.assertIn("trying again", stderr)

    def test_cut_and_the_server_starts_again(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "cut": 700_000},
                           {"match": "tiny/model.safetensors", "ignore_range": True}]
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)

    def test_range_that_was_not_asked_for(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "cut": 700_000},
                           {"match": "tiny/model.safetensors", "wrong_range": True}]
        self.bad("org/tiny", says=["from byte 699999 on"])

    def test_leftover_of_an_earlier_run(self):
        self.good("org/tiny", "--file", "config.json")
        for left, asked in ((WEIGHTS[:1_500_000], "bytes=1500000-"), (WEIGHTS, "none"), (WEIGHTS + b"x", None),
                            (b"y" * 1000, "bytes=1000-")):
            self.partial().write_bytes(left)
            self.hub.log.clear()
            path, _ = self.good("org/tiny", "--file", "model.safetensors")
            self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
            got = [e["range"] for e in self.hub.log if e["where"] == "storage"]
            self.assertEqual(got[:1], [] if asked == "none" else [asked])
            self.assertFalse(self.partial().exists())
            (path / "model.safetensors").unlink()
            (self.partial().parent / sha256(WEIGHTS)).unlink()

    def test_range_that_the_server_cannot_satisfy(self):
        self.good("org/tiny", "--file", "config.json")
        self.partial().write_bytes(WEIGHTS[:1000])
        self.hub.faults = [{"match": "tiny/model.safetensors", "status": 416}]
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual([e["range"] for e in self.hub.log if e["where"] == "storage"], ["bytes=1000-", None])

    def test_wrong_checksum(self):
        for match, oid in (("tiny/model.safetensors", sha256(WEIGHTS)), ("/config.json", git_sha1(SMALL["config.json"]))):
            self.hub.faults = [{"match": match, "corrupt": True}]
            self.bad("org/tiny", says=["checksum", oid])
            self.assertNotIn(oid, self.blobs())
            self.assertFalse(self.partial().exists())
            self.assertEqual(list(self.cache.glob("models--org--tiny/refs/*")), [])
            shutil.rmtree(self.cache)
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)

    def test_more_bytes_than_promised(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "longer": True}]
        self.bad("org/tiny", says=["more than"])
        self.assertNotIn(sha256(WEIGHTS), self.blobs())

    def test_server_errors_pass(self):
        self.hub.faults = [{"match": "/api/", "status": 500}, {"match": "/config.json", "status": 503},
                           {"match": "/config.json", "status": 429}, {"match": "tiny/model.safetensors", "status": 502}]
        self.good("org/tiny")

    def test_server_errors_stay(self):
        self.hub.faults = [{"match": "/api/", "status": 500}] * 4 + [{"match": "/api/", "status": 503}] * 10
        started = time.time()
        self.bad("org/tiny", says=["HTTP 503", "several times"])
        self.assertEqual(len(self.hub.log), 5)
        self.assertLess(time.time() - started, 20 * PATIENCE)

    def test_retry_after(self):
        self.hub.faults = [{"match": "/api/", "status": 429, "retry_after": 2}]
        started = time.time()
        self.good("org/tiny")
        self.assertGreater(time.time() - started, 1.9)

    def test_nobody_answers(self):
        self.hub.close()
        started = time.time()
        self.bad("org/tiny", says=["127.0.0.1"])
        self.assertLess(time.time() - started, 5 * PATIENCE)

    def test_not_a_hub(self):
        for body in (b"<html>", b"[]", b"{}", b'{"sha":"main","siblings":[]}', b'{"sha":"%s"}' % (b"a" * 40),
                     b'{"sha":"%s","siblings":[{"rfilename":"a\\u0000b"}]}' % (b"a" * 40)):
            self.hub.faults = [{"match": "/api/", "body": body}]
            self.bad("org/tiny")
        self.assertFalse(self.cache.exists())


class Access(PullTest):
    def test_no_such_repository(self):
        self.bad("org/absent", says=["org/absent: no such repository", "HF_TOKEN"])
        self.hub.token = "hf_good"
        self.bad("org/absent", env=self.environment(HF_TOKEN="hf_good"), says=["no such repository", "token"])

    def test_bad_token(self):
        self.bad("org/tiny", env=self.environment(HF_TOKEN="hf_wrong"), says=["does not accept the token", "HF_TOKEN"])
        self.bad("org/tiny", env=self.environment(HF_TOKEN="a b\r\nX: y"), says=["HF_TOKEN has a blank"])

    def test_private(self):
        self.hub.repos["org/secret"], self.hub.token = model(private=True), "hf_good"
        self.bad("org/secret", says=["or it is private"])
        self.good("org/secret", env=self.environment(HF_TOKEN="hf_good"))

    def test_gated(self):
        self.hub.repos["org/gated"], self.hub.token = model(gated=True), "hf_good"
        self.bad("org/gated", says=["is gated", f"{self.hub.endpoint}/org/gated", "HF_TOKEN"])
        self.good("org/gated", env=self.environment(HF_TOKEN="hf_good"))
        self.hub.repos["org/wait"] = model(gated="pending")
        self.bad("org/wait", env=self.environment(HF_TOKEN="hf_good"), says=["has no access"])

    def test_token_goes_to_the_endpoint_only(self):
        self.hub.token = "hf_good"
        (self.home / "hf").mkdir()
        (self.home / "hf" / "token").write_text("hf_good\n")
        self.good("org/tiny")
        self.assertEqual({e["token"] for e in self.hub.log if e["where"] == "hub"}, {"Bearer hf_good"})
        storage = [e for e in self.hub.log if e["where"] == "storage"]
        self.assertEqual([e["token"] for e in storage], [None])
        self.hub.faults = [{"match": "/api/", "location": self.hub.storage + "/org/tiny/model.safetensors"}]
        self.hub.log.clear()
        self.bad("org/tiny")
        self.assertEqual([e["token"] for e in self.hub.log], ["Bearer hf_good", None])

    def test_redirects(self):
        for location in ("file:///etc/passwd", "ftp://127.0.0.1/x", "http://", "gopher:x"):
            self.hub.faults = [{"match": "/api/", "location": location}]
            self.bad("org/tiny", says=["which is not followed"])
        self.hub.faults = [{"match": "/api/", "location": "/api/again"}] * 30
        self.bad("org/tiny", says=["redirects"])

    def test_messages_keep_signatures_to_themselves(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "cut": 1000}]
        _, stderr = self.good("org/tiny")
        self.assertIn(self.hub.storage + "/org/tiny/model.safetensors: ", stderr)
        self.assertNotIn("signature", stderr)


class Hostile(PullTest):
    def outside(self):
        return {str(p.relative_to(self.home)) for p in self.home.rglob("*")} - {"hf"}

    def test_listed_names(self):
        for name in ("../evil", "/evil", "a/../../evil", "a//b", "..", "", "x\x1b[2J", "a/./b", "y" * 300, "\ud800"):
            self.hub.repos["org/tiny"] = model(extra_names=[name])
            self.bad("org/tiny")
        self.assertEqual([p for p in self.outside() if not p.startswith("hf/hub")], [])
        self.hub.repos["org/tiny"] = model(extra_names=["a\\b"])  # harmless: never fetched
        self.good("org/tiny")

    def test_shard_names(self):
        for shard, verdict in (("../../../../evil.safetensors", "refused"), ("/evil.safetensors", "refused"),
                               ("evil.bin", "refused"), (5, "refused"), ("absent.safetensors", "does not have")):
            index = json.dumps({"weight_map": {"x": shard}}).encode()
            self.hub.repos["org/s"] = Repo({**SMALL, "model.safetensors.index.json": index})
            self.bad("org/s", says=["weight_map", verdict])
        self.assertEqual([p for p in self.home.rglob("*evil*")], [])

    def test_checksums_and_commits(self):
        good = model()
        for change in ({"blobId": "../../x"}, {"blobId": 5}, {"size": -1}, {"size": "9"}, {"lfs": {"sha256": "/", "size": 1}}):
            info = good.info("org/tiny")
            info["siblings"][0].update(change)
            self.hub.faults = [{"match": "/api/", "body": json.dumps(info).encode()}]
            self.bad("org/tiny")
        info = {**good.info("org/tiny"), "sha": "../../../" + "a" * 31}
        self.hub.faults = [{"match": "/api/", "body": json.dumps(info).encode()}]
        self.bad("org/tiny", says=["not a commit"])

    def test_typed_names(self):
        for name in ("../x", "a/b/c", "/abs", "org/", "-x", "org/na--me", "org/x..y", "org/x@../y", "org/x@", "", "x.git",
                     "org/x@a b", "é"):
            self.bad("--", name, status=2)
        self.assertEqual(self.hub.log, [])


class Disk(PullTest):
    def test_disk_full(self):
        """A limit on the size of files stands in for a full disk; the write fails in the same place."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))
        self.bad("org/tiny", preexec_fn=limit, says=["cannot write", ".incomplete"])
        self.assertNotIn(sha256(WEIGHTS), self.blobs())
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertIn("bytes=500000-", [e["range"] for e in self.hub.log])

    def test_more_than_the_disk_has(self):
        info = model().info("org/tiny")
        for item in info["siblings"]:
            if "lfs" in item:
                item["lfs"]["size"] = 10 ** 17
        self.hub.faults = [{"match": "/api/", "body": json.dumps(info).encode()}]
        self.bad("org/tiny", says=["bytes are needed"])

    def test_cache_that_cannot_be_written(self):
        (self.home / "file").write_text("")
        self.bad("org/tiny", env=self.environment(HF_HUB_CACHE=str(self.home / "file")), says=["file"])
        if os.geteuid() != 0:
            (self.home / "locked").mkdir(mode=0o500)
            self.bad("org/tiny", env=self.environment(HF_HUB_CACHE=str(self.home / "locked")), says=["ermission"])

    def test_damaged_blob_is_replaced(self):
        path, _ = self.good("org/tiny")
        blob = self.cache / "models--org--tiny/blobs" / sha256(WEIGHTS)
        blob.write_bytes(b"short")
        self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)


class Life(PullTest):
    def start(self, *args, **more):
        return subprocess.Popen([PROGRAM, "pull", *args], env=self.environment(), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **more)

    def partial(self):
        return self.cache / "models--org--tiny/blobs" / (sha256(WEIGHTS) + ".incomplete")

    def wait_for(self, condition):
        end = time.time() + 20 * PATIENCE
        while time.time() < end:
            if condition():
                return
            time.sleep(0.01)
        self.fail("it did not come to that")

    def test_interrupt(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "slow": 20_000}]
        process = self.start("org/tiny")
        self.wait_for(lambda: self.partial().exists() and self.partial().stat().st_size > 50_000)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=10 * PATIENCE)
        self.assertEqual(process.returncode, 130, stderr)
        self.assertEqual(stdout, "")
        self.assertIn("goes on from here", stderr)
        have = self.partial().stat().st_size
        self.assertEqual(self.partial().read_bytes(), WEIGHTS[:have])
        self.assertFalse((self.cache / "models--org--tiny/refs/main").exists())
        path, _ = self.good("org/tiny")
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertIn(f"bytes={have}-", [e["range"] for e in self.hub.log])

    def test_two_at_once(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "slow": 100_000}]
        processes = [self.start("org/tiny") for _ in range(3)]
        results = [p.communicate(timeout=60 * PATIENCE) for p in processes]
        self.assertEqual([p.returncode for p in processes], [0, 0, 0], results)
        path = Path(results[0][0].strip())
        self.assertEqual((path / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(len(self.gets("tiny/model.safetensors")), 1)
        self.assertEqual([n for n in self.blobs() if "incomplete" in n], [])

    def test_waits_for_the_lock_of_others(self):
        self.good("org/tiny", "--file", "config.json")
        lock = self.cache / ".locks/models--org--tiny" / (sha256(WEIGHTS) + ".lock")
        with open(lock, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            process = self.start("org/tiny", "--file", "model.safetensors")
            time.sleep(0.5)
            self.assertIsNone(process.poll())
        _, stderr = process.communicate(timeout=20 * PATIENCE)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertIn("another process", stderr)

    def test_offline(self):
        offline = self.environment(HF_HUB_OFFLINE="1")
        self.bad("org/tiny", env=offline, says=["HF_HUB_OFFLINE"])
        self.assertEqual(self.hub.log, [])
        path, _ = self.good("org/tiny")
        self.hub.log.clear()
        self.assertEqual(self.good("org/tiny", env=offline)[0], path)
        self.bad("org/tiny", "--file", "README.md", env=offline)
        self.assertEqual(self.hub.log, [])

    def test_progress_on_a_terminal(self):
        self.hub.faults = [{"match": "tiny/model.safetensors", "slow": 100_000}]
        main, terminal = pty.openpty()
        fcntl.ioctl(terminal, 0x5414, struct.pack("HHHH", 24, 100, 0, 0))
        env = self.environment(TERM="xterm")
        process = subprocess.Popen([PROGRAM, "pull", "org/tiny"], env=env, stdout=subprocess.PIPE, stderr=terminal)
        os.close(terminal)
        seen = b""
        while True:
            try:
                block = os.read(main, 4096)
            except OSError:
                break
            if not block:
                break
            seen += block
        process.communicate(timeout=10 * PATIENCE)
        os.close(main)
        text = seen.decode()
        self.assertEqual(process.returncode, 0, text)
        self.assertRegex(text, r"model\.safetensors \[#*\.*\] [0-9.]+ [kM]B of 2\.1 MB, [0-9.]+ [kM]B/s, 0:0\d left")

    def test_quiet(self):
        self.assertEqual(self.good("-q", "org/tiny")[1], "")


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        print("skipped: HEADSCOPE does not name the program")
        sys.exit(77)
    unittest.main()
