"""What conformance.py runs and how it names the reason of a failure: each project, each file of tests and each reason once."""
import re
from collections import namedtuple

# `torch`: the version of tests/python-env.sh. The tests come from the folder that the variable `given` names, or by `archive`: a source
# package of Debian's, or a source archive of PyPI's; None: only from the folder. `options`: pytest's.
Project = namedtuple("Project", "name torch version given archive needs options", defaults=("",))
PROJECTS = {p.name: p for p in (
    Project("PyTorch", "2.6", "2.6.0", "PYTORCH_SOURCE", "debian:trixie:pytorch",
            "pytest==7.3.2 pytest-timeout==2.4.0 expecttest==0.3.0 hypothesis==6.170.15 psutil==7.2.2 PuLP==2.9.0 pwlf==2.7.0"),
    Project("Accelerate", "2.15", "1.15.0", "ACCELERATE_SOURCE", "pypi:accelerate",
            "pytest==8.4.2 pytest-timeout==2.4.0 parameterized==0.9.0 psutil==7.2.2"),
    # Its tests are a package whose __init__.py the archive lacks.
    Project("PEFT", "2.15", "0.21.2", "PEFT_SOURCE", "pypi:peft", "pytest==8.4.2 pytest-timeout==2.4.0 parameterized==0.9.0 psutil==7.2.2",
            "--import-mode=importlib"),
    Project("torchtitan", "2.15", "0.3.0", "TORCHTITAN_SOURCE", "pypi:torchtitan",
            "pytest==8.4.2 pytest-timeout==2.4.0 expecttest==0.3.0 psutil==7.2.2"),
    # The source archives of these have no tests: the tests' folder of a checkout is given, of TRL with its package.
    Project("DeepSpeed", "2.15", "0.19.8, tests of edaa72212", "DEEPSPEED_SOURCE", None, "pytest==8.4.2 pytest-timeout==2.4.0 psutil==7.2.2"),
    Project("TRL", "2.15", "1.10.0.dev0 of f2cd57710", "TRL_SOURCE", None, "pytest==8.4.2 pytest-timeout==2.4.0 psutil==7.2.2"),
)}

# `select`: pytest's -k, "" for all of the file's tests; else the words in the names of those that are about memory, or read its counters. `program`: the file is run as a program, because its last lines set what it tests. `slow`: with tests that PyTorch calls slow.
File = namedtuple("File", "project path gpus select program slow", defaults=(False, False))
FILES = (
    File("PyTorch", "test/test_cuda.py", 1, ""),
    File("PyTorch", "test/test_cuda_expandable_segments.py", 1, "memory or Absorption or MemPool or MallocAsync", True),
    File("PyTorch", "test/test_cuda_multigpu.py", 2, "memory or mem_get_info or allocat or caching or stream"),
    File("PyTorch", "test/test_optim.py", 1, "memory and cuda"),
    File("PyTorch", "test/test_autograd.py", 1, "memory or checkpoint or save_on_cpu or reentrant_parent_error or free_unneeded or flops_and_mem", slow=True),
    File("PyTorch", "test/test_utils.py", 1, "checkpoint or memory"),
    File("PyTorch", "test/profiler/test_memory_profiler.py", 1, ""),
    File("PyTorch", "test/functorch/test_ac.py", 1, ""),
    File("PyTorch", "test/inductor/test_memory.py", 1, ""),
    File("PyTorch", "test/distributed/_composable/fsdp/test_fully_shard_memory.py", 2, ""),
    File("PyTorch", "test/distributed/_composable/test_checkpoint.py", 1, ""),
    File("PyTorch", "test/distributed/fsdp/test_fsdp_memory.py", 2, ""),
    File("PyTorch", "test/distributed/fsdp/test_checkpoint_wrapper.py", 1, ""),
    File("PyTorch", "test/distributed/_tools/test_mem_tracker.py", 1, ""),
    File("PyTorch", "test/distributed/_tools/test_memory_tracker.py", 1, ""),
    File("PyTorch", "test/distributed/_tools/test_fsdp2_mem_tracker.py", 4, ""),
    File("PyTorch", "test/distributed/_tools/test_sac_estimator.py", 1, ""),
    File("PyTorch", "test/distributed/_tools/test_sac_ilp.py", 1, ""),
    File("PyTorch", "test/distributed/test_c10d_nccl.py", 2, "memory or user_buffer or test_ddp_comm_hook"),
    File("Accelerate", "tests/test_memory_utils.py", 1, ""),
    File("Accelerate", "tests/test_activation_checkpointing_offload.py", 1, ""),
    File("Accelerate", "tests/test_big_modeling.py", 2, "dispatch_model"),
    File("PEFT", "tests/test_common_gpu.py", 1, "memory"),
    File("torchtitan", "torchtitan/experiments/graph_trainer/tests/test_sac_peak_memory.py", 1, ""),
    File("torchtitan", "torchtitan/experiments/graph_trainer/tests/test_trace_module.py", 1, "memory"),
    File("DeepSpeed", "tests/unit/v1/zero/test_offload_states.py", 2, "not True and (zero12 or hp_params or lp_params or optim_states or contiguous)"),
    File("TRL", "tests/test_activation_offloading.py", 1, ""),
)

# A value that is a count or a list of the allocator's, by the words that PyTorch's interface has for them.
MEMORY = re.compile(r"memory_(allocated|reserved|stats|cached|snapshot|summary|usage)|_snapshot\(|mem_get_info|empty_cache|live_blocks|get_cudagraph_segments|"
                    r"segments|_bytes|checkpointed_memory|peak_mem|max_mem|memory_fraction|OutOfMemory|out of memory", re.I)
NETWORK = re.compile(r"URLError|Name or service not known|name resolution|LocalEntryNotFound|OfflineMode|ConnectionError|couldn't connect|Max retries|"
                     r"Cannot send a request|Network is unreachable")


def text(row):
    return "%s: %s" % (row["error"], row["message"])


def about(row):
    return "%s\n%s" % (row["statement"], row["origin"])


# Its words put something on the device, or take a value from it.
ON_DEVICE = re.compile(r"\.(item|tolist|cuda)\(\)|torch\.(any|ne|equal)\(|(device=|device\(|\.to\()\"cuda")


def reads_values(row):
    """The names of the statement hold tensors of the device; or the error is about tensors; or, if it is a rank's text, by the words."""
    return row["reads_gpu"] or "Tensor-likes are not" in text(row) or ON_DEVICE.search(about(row))


# The first reason that holds is the failure's. `alone`: the test passed in a process of its own.
Reason = namedtuple("Reason", "name what ours holds")
REASONS = (
    Reason("timeout", "it took longer than the limit", False, lambda row: "Timeout (>" in text(row)),
    Reason("network", "it downloads something", False, lambda row: NETWORK.search(text(row))),
    Reason("module", "it needs a module or a program that is not installed", False,
           lambda row: re.search(r"ModuleNotFoundError|No module named|ImportError|FileNotFoundError|command not found|Ninja is required", text(row))),
    Reason("unsupported", "it calls a function of a library that is not simulated", True,
           lambda row: re.search(r"is not simulated|see the message of cudasim", text(row))),
    Reason("order", "it passes in a process of its own: memory that earlier tests left cached changes the result", False,
           lambda row: row.get("alone") == "passed"),
    Reason("assertion in a kernel", "it expects a kernel to stop the device", False,
           lambda row: re.search(r"assert_async|device-side assert|AcceleratorError", text(row) + about(row))),
    Reason("race", "it expects an error of the CPU's thread before one of the GPU's, which depends on their speed", False,
           lambda row: '"Simulate error" does not match' in row["message"]),
    Reason("durations", "it compares durations of kernels, which the device does not take", False,
           lambda row: re.search(r"\b(total|parent|child|elapsed)_time\b", row["statement"])),
    Reason("generated code", "it reads Inductor's code, in which matrices are padded or not by durations that Inductor measures", False,
           lambda row: "Searched string:" in text(row)),
    Reason("memory", "it compares sizes or blocks, and they differ", True,
           lambda row: MEMORY.search(row["statement"]) or MEMORY.search(about(row)) and not row["reads_gpu"]),
    Reason("values", "it compares results of kernels that the device does not compute", False, reads_values),
    Reason("unexplained", "no rule says why", True, lambda row: True),
)


def reason(row):
    return next(r for r in REASONS if r.holds(row))

# The first whole run of a file here: passed, failed. The page says what was different then.
FIRST_SIGHT = (
    ("test/test_cuda.py", 130, 58),
    ("test/test_cuda_expandable_segments.py", 40, 6),
    ("test/test_cuda_multigpu.py", 17, 3),
    ("test/test_optim.py", 12, 0),
    ("test/test_autograd.py", 43, 0),
    ("test/test_utils.py", 14, 1),
    ("test/profiler/test_memory_profiler.py", 34, 0),
    ("test/functorch/test_ac.py", 8, 0),
    ("test/distributed/fsdp/test_checkpoint_wrapper.py", 7, 1),
    ("test/distributed/_composable/fsdp/test_fully_shard_memory.py", 2, 0),
    ("test/distributed/fsdp/test_fsdp_memory.py", 2, 0),
    ("test/distributed/_tools/test_fsdp2_mem_tracker.py", 3, 0),
    ("test/distributed/_tools/test_sac_ilp.py", 1, 3),
    ("test/distributed/test_c10d_nccl.py", 0, 5),
    ("tests/test_activation_checkpointing_offload.py", 5, 0),
    ("tests/test_big_modeling.py", 3, 7),
    ("tests/test_common_gpu.py", 0, 1),
    ("torchtitan/experiments/graph_trainer/tests/test_sac_peak_memory.py", 0, 2),
    ("torchtitan/experiments/graph_trainer/tests/test_trace_module.py", 1, 0),
    ("tests/unit/v1/zero/test_offload_states.py", 0, 1),
    ("tests/test_activation_offloading.py", 5, 3),
)

NOTES = (
    ("test_checkpoint_wrapper_parity",
     "its two runs request the same bytes at their peaks (147,386,384), but the allocated peaks, which it compares, differ by 228,352 bytes of rests that "
     "the allocator does not split off: a tensor of 10,240,000 bytes takes 10,731,520 at the end of a segment of 20 MiB. The first run begins with the cuBLAS "
     "workspace that `test_checkpoint_wrapper_cpu_offload` left, and the workspace of autograd's thread is allocated during it; the second begins with both. "
     "With addresses that descend instead of ascend the difference is the same. These are decisions of PyTorch's allocator, so a GPU should show the same."),
    ("test_cuda_expandable_segments.py",
     "its tests are those of `test_cuda.py`. Of the two that fail by values, the comparisons of memory behind them hold: run from `test_cuda.py`, with "
     "`PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True` and without their comparisons of values."),
    ("test_offload_states.py",
     "128 combinations of ZeRO's stage, the state and three switches, each of half a minute; those with the switches off are run. Of these two are left out, ZeRO-3 "
     "with the gradients' state or all: their comparisons of memory hold, but one rank then finds that gradients differ (values), and the other waits for it "
     "for ever. DeepSpeed compiles its fused Adam for the GPU, which takes minutes once."),
    ("test_reentrant_parent_error_on_cpu_cuda",
     "fails each time, before its comparison of memory, which is therefore not shown to hold. Both threads fail on a GPU too, and the test expects to "
     "see the CPU's error; that launches which take longer there decide it is probable, not tried."),
    ("test_c10d_nccl.py",
     "its one test of memory that NCCL registers, `test_nccl_user_buffer_registration`, needs multicast, which an A100 lacks; the communication hooks of "
     "DDP compare values alone."),
    ("test_activation_offloading.py",
     "the one file of TRL's that is about memory on a GPU; it compares gradients and what was offloaded, and no test of TRL compares numbers of bytes. "
     "`test_train_offloading` of `test_sft_trainer.py` trains models of a hub and is left out."),
    ("test_peak_memory_usage.py", "Accelerate's script that compares peaks trains a model of a hub and is left out."),
    ("order", "an earlier test of the file leaves something that changes these; alone each of them passes."),
)
