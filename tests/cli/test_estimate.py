"""memtrace estimate: against exact arithmetic on random and extreme jobs, refusals, output."""
import json
import os
import random
import re
from fractions import Fraction as F

from harness import Case, MEMTRACE, ROOT, GiB
from test_estimate_facts import options

LLAMA_8B = dict(num_layers=32, hidden_size=4096, ffn_hidden_size=14336, num_attention_heads=32, num_query_groups=8, vocab_size=128256,
                seq_length=8192, micro_batch_size=1)
GPT2 = dict(num_layers=12, hidden_size=768, num_attention_heads=12, vocab_size=50304, seq_length=1024, micro_batch_size=12)
BLOG = dict(num_parameters=7 * 10**9, num_layers=32, hidden_size=4096, num_attention_heads=32, seq_length=4096, micro_batch_size=2,
            num_microbatches=8)
ZERO3 = dict(zero_stage=3, total_params=2851598336, largest_layer_params=32899072, num_gpus_per_node=8)
LARGEST = dict(num_layers=1000, hidden_size=10**5, ffn_hidden_size=10**6, num_attention_heads=8192, num_query_groups=8191,
               vocab_size=10**7, seq_length=10**4, micro_batch_size=10)


def rounded(x):
    return int((2 * x + 1) // 2)


def llama(c, stage=0, tables=True):
    """Document 003's equations on stage STAGE, as fractions."""
    L, h, f, a, k = (F(c[key]) for key in ("num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups"))
    s, b, v = c["seq_length"], c["micro_batch_size"], F(c["vocab_size"])
    t, p, cp, d = (c.get(key, 1) for key in ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
                                             "data_parallel_size"))
    first, last = stage == 0, stage == p - 1
    n = L / p * 2 * h * h * ((1 + k / a + 3 * f / (2 * h)) / t + 1 / h)
    n += h * v / t * (first + last if p > 1 or tables else 1) + (h if last and (p > 1 or tables) else 0)
    states = [2 * n, 4 * n, 12 * n / (d * cp)]
    m = p - stage
    layer = s * b * h * (12 + 4 * k / a + 8 * f / h)
    acts = [layer * L / p * m / (t * cp), F(8 * s * b * h * m * first, t * cp), 4 * s * b * h * (1 + v / h) * last / (t * cp)]
    return [rounded(x) for x in states + acts]


def nanogpt(c):
    L, D, H, V, T, B = (c[k] for k in ("num_layers", "hidden_size", "num_attention_heads", "vocab_size", "seq_length", "micro_batch_size"))
    n = L * (12 * D * D + 2 * D) + D * (V + T) + D
    e, at, lo = B * T * D, B * H * T * T, B * T * V
    return 16 * n + 4 * T * T * L + 16 * B * T + 17039360 + L * (36 * e + 6 * at) + 6 * e + 10 * lo


def blog(c, divisors, k=2, opt=12, grad=2):
    """One strategy of document 000; DIVISORS are those of M_o, M_g, M_m, M_a1, M_a2."""
    theta, L, h, a, s = (c[x] for x in ("num_parameters", "num_layers", "hidden_size", "num_attention_heads", "seq_length"))
    b = c["micro_batch_size"] * c.get("num_microbatches", 1)
    a2 = L * (2 * k * b * s * h + 2 * b * s * h)
    a1 = L * (16 * k * b * s * h + 2 * b * s * h + 2 * k * b * a * s * s + b * a * s * s) - a2
    return sum(rounded(F(x, d)) for x, d in zip((opt * theta, grad * theta, k * theta, a1, a2), divisors))


def strategies(TP, PP, CP, SP, DP, MB):
    return {"single": [1] * 5, "dp": [1] * 5, "zero1": [DP, 1, 1, 1, 1], "zero2": [DP, DP, 1, 1, 1], "zero3": [DP, DP, DP, 1, 1],
            "tp": [TP] * 4 + [1], "tp+sp": [TP] * 4 + [SP], "pp": [PP] * 3 + [PP * MB] * 2,
            "tp+pp": [TP * PP] * 3 + [TP * PP * MB, PP * MB], "tp+pp+sp": [TP * PP] * 3 + [TP * PP * MB, PP * MB * SP],
            "tp+pp+cp": [TP * PP] * 3 + [TP * PP * MB * CP, PP * MB * CP],
            "zero1+tp+pp+cp": [TP * PP * DP, TP * PP, TP * PP, TP * PP * MB * CP, PP * MB * CP],
            "zero2+tp+pp+cp": [TP * PP * DP, TP * PP * DP, TP * PP, TP * PP * MB * CP, PP * MB * CP]}


class Estimate(Case):
    def answers(self, system, config, *more, status=0):
        out = self.run_([MEMTRACE, "estimate", "--json", "--system", system, *options(config), *more], status=status).stdout
        return json.loads(out)

    def one(self, system, config, *more, status=0):
        answer, = self.answers(system, config, *more, status=status)["estimates"]
        self.assertEqual(sum(t["bytes"] for t in answer["terms"]), answer["total_bytes"])
        return answer

    def refused(self, system, config, *words):
        done = self.run_([MEMTRACE, "estimate", "--system", system, *options(config)], status=2)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_more_than_8_eib_is_refused(self):
        huge = dict(LARGEST, num_layers=10000, seq_length=10**8, micro_batch_size=10**6)
        for system in ("llama-4d", "nanogpt"):
            self.refused(system, huge, "more than 8 EiB")

    def test_llama_exact(self):
        chance = random.Random(3)
        jobs = [dict(LARGEST), dict(LARGEST, pipeline_model_parallel_size=3, tensor_model_parallel_size=7, context_parallel_size=1000000,
                                    data_parallel_size=1000000),
                dict(LLAMA_8B, seq_length=10**7, hidden_size=10**5, tensor_model_parallel_size=8, data_parallel_size=12500)]
        for _ in range(60):
            jobs.append(dict(num_layers=chance.randint(1, 200), hidden_size=chance.randint(1, 20000), ffn_hidden_size=chance.randint(1, 60000),
                             num_attention_heads=chance.randint(1, 128), num_query_groups=chance.randint(1, 128),
                             vocab_size=chance.randint(1, 300000), seq_length=chance.randint(1, 200000), micro_batch_size=chance.randint(1, 9),
                             tensor_model_parallel_size=chance.randint(1, 16), pipeline_model_parallel_size=chance.randint(1, 9),
                             context_parallel_size=chance.randint(1, 9), data_parallel_size=chance.randint(1, 999)))
        for job in jobs:
            answer = self.one("llama-4d", job)
            self.assertEqual([t["bytes"] for t in answer["terms"]], llama(job), job)
            self.assertEqual(answer["eq18_bytes"], sum(llama(job, tables=False)), job)
            p = job.get("pipeline_model_parallel_size", 1)
            self.assertEqual(len(answer["per_stage"]), p)
            for i, stage in enumerate(answer["per_stage"]):
                exact = llama(job, i)
                self.assertEqual((stage["stage"], stage["model_states"], stage["activations"], stage["microbatches_in_flight"]),
                                 (i, sum(exact[:3]), sum(exact[3:]), p - i), job)
                self.assertEqual(stage["total_bytes"], sum(exact))
            self.assertEqual(answer["max_stage_bytes"], max(s["total_bytes"] for s in answer["per_stage"]))

    def test_llama_choices(self):
        four = dict(LLAMA_8B, pipeline_model_parallel_size=4, num_microbatches=2)
        in_flight = lambda job: [s["microbatches_in_flight"] for s in self.one("llama-4d", job)["per_stage"]]
        self.assertEqual(in_flight(four), [4, 3, 2, 1])
        self.assertEqual(in_flight(dict(four, cap_in_flight=True)), [2, 2, 2, 1])
        self.assertEqual(self.one("llama-4d", dict(LLAMA_8B, variant="eq18"))["total_bytes"], self.one("llama-4d", LLAMA_8B)["eq18_bytes"])
        self.assertEqual(self.one("llama-4d", LLAMA_8B)["num_params"], 8030261248)
        notes = " ".join(self.one("llama-4d", dict(LLAMA_8B, pipeline_model_parallel_size=5, tensor_model_parallel_size=3))["notes"])
        self.assertIn("num_layers 32 is not a multiple of pipeline_model_parallel_size 5", notes)
        self.assertIn("sequence_parallel", notes)

    def test_nanogpt_exact(self):
        chance = random.Random(1)
        jobs = [LARGEST, dict(GPT2, seq_length=10**7, hidden_size=10**5)]
        for _ in range(30):
            jobs.append(dict(num_layers=chance.randint(1, 99), hidden_size=chance.randint(1, 9999), num_attention_heads=chance.randint(1, 99),
                             vocab_size=chance.randint(1, 99999), seq_length=chance.randint(1, 99999), micro_batch_size=chance.randint(1, 99)))
        for job in jobs:
            self.assertEqual(self.one("nanogpt", job)["total_bytes"], nanogpt(job), job)
        base = self.one("nanogpt", GPT2)
        n = base["num_params"]
        self.assertEqual(base["forward_start_bytes"], base["steady_state_bytes"] - 4 * n)
        self.assertEqual(self.one("nanogpt", dict(GPT2, bias=True))["num_params"], n + 768 * 25)
        self.assertEqual(self.one("nanogpt", dict(GPT2, include_embedding=False))["num_params"], n - 1024 * 768)
        self.assertEqual(self.one("nanogpt", dict(GPT2, ddp=True, gradient_as_bucket_view=False))["total_bytes"], base["total_bytes"] + 4 * n)
        self.assertEqual(self.one("nanogpt", dict(GPT2, attention_mask_buffers=False, cublas_workspaces=0, data=False))["total_bytes"],
                         base["total_bytes"] - 4 * 12 * 1024**2 - 17039360 - 196608)

    def test_blog_exact(self):
        largest = dict(LARGEST, num_parameters=10**15)
        for job, sizes in ((BLOG, (4, 2, 8, 4, 16, 8)), (largest, (10**6, 9999, 10**6, 10**6, 100, 1)), (BLOG, (3, 7, 5, 3, 11, 8))):
            TP, PP, CP, SP, DP, MB = sizes
            job = dict(job, tensor_model_parallel_size=TP, pipeline_model_parallel_size=PP, context_parallel_size=CP, data_parallel_size=DP,
                       sequence_parallel=True, zero_stage=1)
            answer = self.one("training-memory-blog", job)
            self.assertEqual(answer["strategies"], {name: blog(job, d) for name, d in strategies(*sizes).items()})
            for name, divisors in strategies(*sizes).items():
                chosen = self.one("training-memory-blog", dict(job, strategy=name))
                self.assertEqual((chosen["strategy"], chosen["total_bytes"]), (name, blog(job, divisors)))
            # Sequence parallelism together with context parallelism and ZeRO has no printed formula.
            self.assertEqual(answer["strategy"], "every-size")
            self.assertIn("prints no formula", " ".join(answer["notes"]))
            every = [TP * PP * DP, TP * PP, TP * PP, TP * PP * MB * CP, PP * MB * CP * SP]
            self.assertEqual(answer["total_bytes"], blog(job, every))

    def test_blog_automatic(self):
        t, p, c, d = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "data_parallel_size")
        for keys, name in (({}, "single"), ({d: 4}, "dp"), ({d: 4, "zero_stage": 1}, "zero1"), ({d: 4, "zero_stage": 2}, "zero2"),
                           ({d: 4, "fsdp": True}, "zero3"), ({t: 2, d: 4}, "tp"), ({t: 2, "sequence_parallel": True}, "tp+sp"), ({p: 2}, "pp"),
                           ({t: 2, p: 2}, "tp+pp"), ({t: 2, p: 2, "sequence_parallel": True}, "tp+pp+sp"), ({t: 2, p: 2, c: 2}, "tp+pp+cp"),
                           ({t: 2, p: 2, c: 2, d: 2, "zero_stage": 1}, "zero1+tp+pp+cp"), ({t: 2, p: 2, c: 2, d: 2, "zero_stage": 2}, "zero2+tp+pp+cp"),
                           ({t: 2, p: 2, c: 2, d: 2, "zero_stage": 3}, "every-size"), ({c: 2}, "every-size")):
            self.assertEqual(self.one("training-memory-blog", dict(BLOG, **keys))["strategy"], name, keys)
        for alias, name in (("ddp", "dp"), ("fsdp", "zero3"), ("4d", "zero1+tp+pp+cp"), ("llama3", "zero2+tp+pp+cp")):
            self.assertEqual(self.one("training-memory-blog", dict(BLOG, strategy=alias))["strategy"], name)

    def test_blog_choices(self):
        base = self.one("training-memory-blog", dict(BLOG, data_parallel_size=4))
        m = {k: base[k] for k in ("M_m", "M_o", "M_g", "M_a", "M_a1", "M_a2")}
        self.assertEqual(base["all_gpus_bytes"], m["M_o"] + 4 * (m["M_g"] + m["M_m"] + m["M_a"]))
        without = self.one("training-memory-blog", dict(BLOG, data_parallel_size=4, optimizer_on_this_gpu=False))
        self.assertEqual(without["total_bytes"], base["total_bytes"] - m["M_o"])
        self.assertEqual(without["all_gpus_bytes"], base["all_gpus_bytes"])
        L, b, s, h, a = 32, 16, 4096, 4096, 32
        for name, a2 in (("ln_dropout", 6 * b * s * h), ("ln_all_dropout", 6 * b * s * h + b * a * s * s), ("korthikanti", 10 * b * s * h), ("none", 0)):
            answer = self.one("training-memory-blog", dict(BLOG, a2_definition=name))
            self.assertEqual((answer["M_a2"], answer["M_a"]), (L * a2, m["M_a"]))
        for name, qkv in (("printed", 2 * b * s * h + 3 * 8 * b * s * h // a), ("consistent", 2 * b * s * h + 4 * 8 * b * s * h // a)):
            answer = self.one("training-memory-blog", dict(BLOG, gqa_variant=name, num_query_groups=8))
            self.assertEqual(answer["M_a"], m["M_a"] - L * (6 * b * s * h - qkv))
        self.assertEqual(self.one("training-memory-blog", dict(BLOG, activation_checkpoint_factor=10.5))["terms"][4]["bytes"],
                         rounded(F(m["M_a2"] * 2, 21)))
        self.assertEqual(self.one("training-memory-blog", dict(BLOG, blog_batch="microbatch"))["terms"][4]["bytes"], m["M_a2"] // 8)
        for precision, expected in (("fp32", (4, 8, 4)), ("bf16", (2, 4, 2)), ("fp8", (1, 2, 1)), ("fp16-mixed", (2, 12, 2))):
            answer = self.one("training-memory-blog", dict(BLOG, precision=precision))
            self.assertEqual((answer["M_m"], answer["M_o"], answer["M_g"]), tuple(x * 7 * 10**9 for x in expected))

    def test_deepspeed_exact(self):
        chance = random.Random(2)
        for _ in range(40):
            P, X, n, m = chance.randint(1, 10**12), chance.randint(1, 10**9), chance.randint(1, 16), chance.randint(1, 99)
            N, f = n * m, F(3, 2)
            rows = {(2, None, "cpu", None): (2 * P, P * max(4 * n, 16) * f), (2, None, "none", None): (4 * P + 16 * P // N, P * 4 * n * f),
                    (3, "cpu", "cpu", True): (4 * X, P * F(18, m) * f), (3, "cpu", "cpu", False): (4 * X, P * max(4 * n, F(18, m)) * f),
                    (3, "none", "cpu", True): (4 * X + 2 * P // N, P * F(16, m) * f),
                    (3, "none", "cpu", False): (4 * X + 2 * P // N, P * max(4 * n, F(16, m)) * f),
                    (3, "none", "none", True): (4 * X + 18 * P // N, X * 4 * n * f), (3, "none", "none", False): (4 * X + 18 * P // N, P * 4 * n * f)}
            for stage in (2, 3):
                answer = self.one("deepspeed-zero", dict(zero_stage=stage, total_params=P, largest_layer_params=X, num_gpus_per_node=n, num_nodes=m))
                seen = {(stage, r.get("offload_param"), r["offload_optimizer"], r.get("zero_init")): (r["per_gpu_bytes"], r["per_cpu_bytes"])
                        for r in answer["rows"]}
                self.assertEqual(seen, {k: (gpu, int(cpu)) for k, (gpu, cpu) in rows.items() if k[0] == stage})
        pinned = lambda **keys: self.one("deepspeed-zero", dict(ZERO3, **keys)).get("pinned_cpu_bytes")
        P = ZERO3["total_params"]
        self.assertEqual(pinned(offload_param="cpu", offload_optimizer="cpu"), 6 * P)
        self.assertEqual(pinned(offload_param="cpu", offload_optimizer="cpu", gradient_accumulation_steps=2), 8 * P)
        self.assertEqual(pinned(offload_optimizer="cpu"), 4 * P)
        elements = self.one("deepspeed-zero", dict(ZERO3, **GPT2))["activation_elements_per_layer"]
        self.assertEqual(elements, (2 * 1024 * 12 + 16 * 768) * 1024 * 12)

    def test_counted_parameters(self):
        """If a document needs a count and the job gives a shape, the count follows from `arch`: llama unless it is gpt."""
        job = dict(LLAMA_8B, zero_stage=3)
        answer = self.one("deepspeed-zero", job)
        self.assertEqual((answer["symbols"]["P"], answer["symbols"]["X"]), (8030261248, 128256 * 4096))
        self.assertIn("total_params is not given: 8030261248, counted from the architecture", answer["notes"])
        self.assertEqual(self.one("training-memory-blog", job)["M_m"], 2 * 8030261248)
        gpt = dict(GPT2, arch="gpt", position_embedding_type="learned_absolute", max_position_embeddings=1024, vocab_size=50257)
        self.assertEqual(self.one("training-memory-blog", gpt)["M_m"], 2 * 124439808)

    def test_refusals(self):
        for optimizer in ("sgd", "adafactor", "lion", "muon", "adam8bit"):
            for system, job in (("training-memory-blog", BLOG), ("nanogpt", GPT2), ("deepspeed-zero", ZERO3), ("llama-4d", LLAMA_8B)):
                self.refused(system, dict(job, optimizer=optimizer), "optimizer", optimizer, "expected adam")
        for zero in (2, 3):
            self.refused("llama-4d", dict(LLAMA_8B, zero_stage=zero), "zero_stage", str(zero), "expected 0 or 1")
        for zero in (0, 1):
            self.refused("deepspeed-zero", dict(ZERO3, zero_stage=zero), "zero_stage", str(zero), "expected 2 or 3")
        self.refused("deepspeed-zero", dict(ZERO3, offload_param="cpu"), "offload_param", "cpu", "expected")
        self.refused("deepspeed-zero", dict(ZERO3, offload_optimizer="nvme"), "offload_optimizer", "nvme", "expected")
        self.refused("llama-4d", dict(LLAMA_8B, precision="fp32"), "precision", "fp32", "expected bf16-mixed")
        self.refused("llama-4d", dict(LLAMA_8B, num_experts=8), "num_experts", "8")
        self.refused("llama", LLAMA_8B, "--system", "llama", "expected")

    def test_every_key_missing_or_wrong(self):
        for system, job in (("training-memory-blog", BLOG), ("nanogpt", GPT2), ("deepspeed-zero", ZERO3), ("llama-4d", LLAMA_8B)):
            optional = {"num_query_groups", "num_microbatches", "num_gpus_per_node"}
            for key in job:
                if key not in optional:
                    self.refused(system, {k: v for k, v in job.items() if k != key}, key, "missing")
                for wrong in (0, -1, 10**18, "x", ""):
                    if (key, wrong) != ("zero_stage", 0):
                        self.refused(system, dict(job, **{key: wrong}), key, str(wrong))

    def test_all(self):
        answer = self.answers("all", dict(LLAMA_8B, num_parameters=8030261248, zero_stage=1))
        self.assertEqual([e["system"] for e in answer["estimates"]], ["training-memory-blog", "nanogpt", "llama-4d", "memtrace"])
        self.assertEqual([r["system"] for r in answer["refused"]], ["deepspeed-zero"])
        self.assertIn("zero_stage is 1", answer["refused"][0]["reason"])
        self.assertEqual(answer["config"]["hidden_size"], 4096)
        for e in answer["estimates"]:
            for key in ("system", "source", "total_bytes", "per_stage", "terms", "notes", "leaves_out"):
                self.assertIn(key, e)
            kind = {"kind"} if e["system"] == "memtrace" else set()
            for t in e["terms"]:
                self.assertEqual({"id", "component", "title", "bytes", "formula", "source"} | kind, set(t))
        text = self.run_([MEMTRACE, "estimate", "--system", "all", "--verbose", *options(dict(LLAMA_8B, num_parameters=8030261248, zero_stage=3))], COLUMNS=80).stdout
        self.assertTrue(all(len(line) <= 80 for line in text.splitlines()), text)
        for word in ("activations", "total", "without", "llama-4d", "cannot say it"):
            self.assertIn(word, text)

    def test_device(self):
        """The rule of 80 % at its limits, on nominal sizes; exit status 1 if nothing fits."""
        total = self.one("llama-4d", LLAMA_8B)["total_bytes"]
        for memory, color, status in ((total * 10 // 8 + 1, "green", 0), (total * 10 // 8 - 2, "yellow", 0), (total, "yellow", 0), (total - 1, "red", 1)):
            self.assertEqual(self.one("llama-4d", dict(LLAMA_8B, device_memory_bytes=memory), status=status)["color"], color)
        for name, gib in (("A100-40GB", 40), ("H100-NVL", 94), ("h100", 80)):
            self.assertEqual(self.answers("deepspeed-zero", ZERO3, "--gpu", name)["device_memory_bytes"], gib * GiB)
        self.run_([MEMTRACE, "estimate", "--gpu", "H1000", *options(ZERO3)], status=2)
        command = [MEMTRACE, "estimate", *options(dict(LLAMA_8B, device_memory_bytes=40 * GiB))]
        plain = self.run_(command, status=1).stdout
        self.assertIn("red", plain)
        self.assertNotIn("\033", plain)
        self.assertIn("\033[1;31mred\033[0m", self.run_(command + ["--color", "always"], status=1).stdout)
        self.assertNotIn("\033", self.run_(command, status=1, NO_COLOR=1, CLICOLOR_FORCE=1).stdout)

    def test_explain(self):
        text = self.run_([MEMTRACE, "estimate", "--explain", "layers", *options(LLAMA_8B)]).stdout
        for word in ("s b h/(t c) (12 + 4 k/a + 8 f/h) (L/p) m", "eq. 12", "h     = 4096", "44023414784 bytes"):
            self.assertIn(word, text)
        both = self.run_([MEMTRACE, "estimate", "--explain", "gradients", *options(LLAMA_8B)]).stdout
        self.assertIn("nanogpt", both)
        self.assertNotIn("nanogpt", self.run_([MEMTRACE, "estimate", "--explain", "llama-4d.gradients", *options(LLAMA_8B)]).stdout)
        self.assertIn("embedding", self.run_([MEMTRACE, "estimate", "--explain", "x", *options(LLAMA_8B)], status=2).stderr)
        # --explain works for every term of every system, with the letters of that system.
        for system, job in (("training-memory-blog", BLOG), ("nanogpt", GPT2), ("deepspeed-zero", ZERO3), ("llama-4d", LLAMA_8B)):
            answer = self.one(system, job)
            for t in answer["terms"]:
                for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", re.sub(r"\(of [^)]*\)", "", t["formula"])):
                    self.assertTrue(word in answer["symbols"] or word in ("divided", "by") or word.startswith("M_"), (t, word))
                out = self.run_([MEMTRACE, "estimate", "--explain", system + "." + t["id"], *options(job)]).stdout
                self.assertIn("%d bytes" % t["bytes"], out)
