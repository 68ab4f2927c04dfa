"""The program against golden files: tiny random checkpoints and every activation that transformers computed with them
(make_golden.py). Needs Python's own library only."""
import os
import sys
import unittest

import toys

DATA = toys.HERE / "data"
PATTERN_BAR, ROW_BAR = 1e-5, 2e-5  # as tests/peers has them
SITES = ("embed,token_type_embed,pos_embed,resid_pre,ln1,q,k,v,rot_q,rot_k,attn_scores,pattern,z,attn_out,resid_mid,ln2,mlp_pre,mlp_up,"
         "mlp_post,mlp_out,resid_post,ln_final,pooled,ln_head,logits").split(",")


def checkpoints():
    for expected in sorted(DATA.glob("*.expected.safetensors")):
        name = expected.name.removesuffix(".expected.safetensors")
        model = DATA / name
        yield name, model if model.is_dir() else model.with_name(name + ".gguf"), toys.read_safetensors(expected)


def levels():
    """The instruction sets that the program has on this machine."""
    for level in ("ref", "avx2", "avx512", "neon"):
        if f"kernels: {level}\n" in toys.headscope("--version", env={"HEADSCOPE_ISA": level}).stdout:
            yield level


class Golden(unittest.TestCase):
    def test_every_site(self):
        for level in levels():
            self.every_site({"HEADSCOPE_ISA": level})

    def every_site(self, env):
        for name, model, expected in checkpoints():
            ids = expected.pop("ids")[1].tolist()
            segments = expected.pop("segments", None)
            extra = ("--segments", ",".join(map(str, segments[1]))) if segments else ()
            sites = ",".join(site for site in SITES if any(key.split(".")[0] == site for key in expected))
            with self.subTest(checkpoint=name, **env), toys.scratch() as folder:
                got = toys.run(model, folder, sites, ids, extra, env=env)
                self.assertEqual(got.pop("ids")[1].tolist(), ids)
                self.assertEqual(sorted(got), sorted(expected))
                for key, want in expected.items():
                    site = key.split(".")[0]
                    bar = PATTERN_BAR if site == "pattern" else ROW_BAR
                    self.assertLessEqual(toys.deviation(site, got[key], want), bar, key)

    def test_a_wrong_activation_is_seen(self):
        _, _, expected = next(checkpoints())
        for key in ("pattern.1", "attn_scores.0", "logits", "resid_post.1"):
            shape, numbers = expected[key]
            changed = numbers[:]
            changed[0] += 1e-3 * max(1.0, abs(changed[0]))
            self.assertGreater(toys.deviation(key.split(".")[0], (shape, changed), expected[key]), ROW_BAR, key)


if __name__ == "__main__":
    if not os.access(toys.PROGRAM, os.X_OK):
        print(f"skipped: no program at {toys.PROGRAM}")
        sys.exit(77)
    unittest.main()
