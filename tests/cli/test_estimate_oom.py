"""Predicted and real out-of-memory errors. Document 003 ran 454 layouts of Llama 3.1 on A100s and H100s; its tables show the ones that failed.

No value is fitted to them: our own system runs each job, as Megatron-LM's command line declares it, in the card's memory.
"""
import collections
import json

from harness import Case, MEMTRACE, MiB
from test_estimate_facts import Cell, LLAMA

GPU = {40: ("A100-40GB", 8), 94: ("H100-94GB", 4)}
# The document's software: Megatron-LM core_r0.8.0 with Transformer Engine 1.9, PyTorch 2.3.1, NCCL 2.20.5.
SOFTWARE = ["--set", "torch_version=2.3.1", "--set", "megatron_core_version=0.8.0"]
JOB = """--num-layers {num_layers} --hidden-size {hidden_size} --ffn-hidden-size {ffn_hidden_size}
    --num-attention-heads {num_attention_heads} --group-query-attention --num-query-groups {num_query_groups} --swiglu --disable-bias-linear
    --untie-embeddings-and-output-weights --normalization RMSNorm --position-embedding-type rope --vocab-size 128256
    --tokenizer-type NullTokenizer --attention-dropout 0 --hidden-dropout 0 --use-flash-attn --transformer-impl transformer_engine --bf16
    --use-distributed-optimizer --seq-length {seq} --max-position-embeddings {seq} --micro-batch-size {row.mbs} --global-batch-size 1024
    --tensor-model-parallel-size {row.tp} --pipeline-model-parallel-size {row.pp} --context-parallel-size {row.cp}"""


class OutOfMemory(Case):
    def lost(self, row):
        table = LLAMA["tables"][str(row.table)]
        gpu, node = GPU[table["gpu_memory_gib"]]
        node = min(node, row.gpus)
        job = JOB.format(row=row, seq=table["seq_length"], **LLAMA["shapes"][table["model"]]).split() + ["--sequence-parallel"] * (row.tp > 1)
        done = self.run_([MEMTRACE, "estimate", "--json", "--system", "memtrace", "--gpu", gpu, *SOFTWARE, "--", "torchrun", "--nproc-per-node",
                          str(node), "--nnodes", str(row.gpus // node), "pretrain_gpt.py", *job], status=None)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        answer, = json.loads(done.stdout)["estimates"]
        for stage in answer["per_stage"]:
            self.assertEqual(stage["total_bytes"] + sum(o["bytes"] for o in stage["outside"]), stage["device_bytes"])
        lost = any(stage["outcome"] == "out_of_memory" for stage in answer["per_stage"])
        self.assertEqual((done.returncode, answer["color"] == "red"), (int(lost), lost))
        return lost

    def communicators(self, *settings):
        """NCCL's memory by communicator, for a job of two layers on H100s. The bytes are those of the simulated device's table: a ring is 24 channels of
        10 + 2 MiB, NVLS of four ranks 4 x 16 x 2 MiB, a peer both ways 32 of 10 + 2 MiB; a communicator has three blocks of 2 MiB a channel."""
        keys = ["num_layers=2", "hidden_size=768", "num_attention_heads=12", "vocab_size=50304", "seq_length=1024", "micro_batch_size=4",
                "gpu=H100-80GB", *settings]
        done = self.run_([MEMTRACE, "estimate", "--json", "--system", "memtrace", *[a for k in keys for a in ("--set", k)]])
        first = json.loads(done.stdout)["estimates"][0]["per_stage"][0]
        taken = {o["id"]: o["bytes"] for o in first["outside"] if o["component"] == "nccl"}
        return taken.pop("nccl.kernels"), taken

    def test_communicators(self):
        ring, nvls, peer, state = 24 * 12 * MiB, 4 * 16 * 2 * MiB, 32 * 12 * MiB, (32 * 3 + 2) * 2 * MiB
        threads = 132 * 2048  # that an H100 holds
        two = "data_parallel_size=2"
        # The cubin of nvidia-nccl-cu13 2.30.7 for sm_90, 79 MiB beside it, and stacks of 1,728 bytes.
        kernels = 103027687 + 79 * MiB + (1728 - 1024) * threads
        self.assertEqual(self.communicators("framework=nanogpt", two), (kernels, {"nccl.world": state + ring}))
        self.assertEqual(self.communicators("framework=deepspeed", "arch=gpt", "zero_stage=1", two),
                         (kernels, {"nccl.world": state + ring, "nccl.world.clone": state + ring}))
        layout = ["framework=megatron-core", "tensor_model_parallel_size=2", "pipeline_model_parallel_size=2", "use_distributed_optimizer=true",
                  "untie_embeddings_and_output_weights=true"]
        self.assertEqual(self.communicators(*layout)[1], {
            "nccl.tensor_parallel": state + ring, "nccl.pipeline_parallel": state + peer,
            "nccl.distributed_optimizer": state + 25 * 2 * MiB + ring + nvls})
        # Before NCCL 2.22 everything is connected when a communicator is made: a ring, a chain's other side, the proxy's 256 MiB,
        # and on NVSwitch 24 x 2 x 3 MiB of NVLS for each rank, in units of 512 MiB.
        old = state - 2 * MiB + ring + 256 * MiB
        self.assertEqual(self.communicators(*layout, "torch_version=2.6.0")[1], {
            "nccl.tensor_parallel": old, "nccl.pipeline_parallel": old,
            "nccl.distributed_optimizer": old + 24 * 12 * MiB + 24 * 2 * MiB + 1024 * MiB})

    def test_document_003(self):
        outcomes = collections.Counter()
        for cell in LLAMA["cells"]:
            row = Cell(*cell, *[None] * (len(Cell._fields) - len(cell)))
            if row.printed != "-":
                outcomes[row.measured == "OOM", self.lost(row)] += 1
        right = outcomes[False, False] + outcomes[True, True]
        print("\n  of %d layouts that ran %d are expected to, of %d that ran out of memory %d: %d of %d" % (
            outcomes[False, False] + outcomes[False, True], outcomes[False, False], outcomes[True, True] + outcomes[True, False],
            outcomes[True, True], right, sum(outcomes.values())))
        self.assertEqual(sum(outcomes.values()), 454)
        self.assertGreaterEqual(right, 443)
