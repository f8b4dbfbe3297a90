"""Runs one of Liger-Kernel's benchmark scripts, unmodified, and writes what it measured.

    liger_job.py TREE SCRIPT OUT [--speed] [--only PROVIDER,MODE,X] [--reverse] [script arguments]

TREE is the checkout, SCRIPT the name of its file in benchmark/scripts/. The script runs as __main__ with its own utils.py, of
which two things are replaced: the version of the installed package, which is not installed here, and the CSV file, instead of
which the rows are appended to OUT, one JSON object a line. The speed benchmarks are left out without --speed."""
import argparse
import contextlib
import gc
import importlib.metadata
import itertools
import json
import os
import runpy
import sys


def parse():
    args = argparse.ArgumentParser()
    args.add_argument("tree")
    args.add_argument("script")
    args.add_argument("out")
    args.add_argument("--speed", action="store_true", help="the speed benchmarks too, as the publisher ran them")
    args.add_argument("--calls", type=int, help="a speed benchmark makes so many calls, instead of as many as its time allows")
    args.add_argument("--buffer", action="store_true", help="with --calls: beside the 256 MiB that Triton's do_bench has for clearing the cache, and with its gradients dropped")
    args.add_argument("--only", action="append", help="PROVIDER,MODE,X: only these memory benchmarks, in the script's order")
    args.add_argument("--providers", help="the order of the providers, instead of the script's")
    args.add_argument("--x", help="these values of the sweep, instead of the script's")
    args.add_argument("--collect", type=int, action="append", help="Python's collector runs only before the benchmark of this number, from 0, and it is known then what earlier ones left")
    args.add_argument("--as", dest="instead", help="PROVIDER=OTHER: what is measured as PROVIDER is OTHER")
    return args.parse_known_args()


def one_configuration():
    """Autotuning compiles a kernel some dozen times to find the fastest configuration. The time of a simulated kernel says
    nothing, so the first configuration is as good as any."""
    from triton.runtime.autotuner import Autotuner

    begin = Autotuner.__init__

    def __init__(self, fn, arg_names, configs, *rest, **keywords):
        begin(self, fn, arg_names, configs[:1], *rest, **keywords)

    Autotuner.__init__ = __init__


def short(calls, buffer):
    """triton.testing.do_bench with so few calls. With `buffer` it takes and drops what the real one does, in its order."""

    def bench(fn, grad_to_none=None, **_):
        fn()
        held = torch.empty(2 ** 26, dtype=torch.int, device="cuda") if buffer else None
        for _ in range(calls):
            for x in (grad_to_none or []) if buffer else []:
                x.grad = None
            fn()
        del held
        return [0.0] * 3

    import torch

    return bench


def main():
    args, rest = parse()
    tree = os.path.abspath(args.tree)
    out = os.path.abspath(args.out)
    scripts = os.path.join(tree, "benchmark", "scripts")
    sys.path[:0] = [scripts, os.path.join(tree, "src"), tree]
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "0" if name == "liger-kernel" else version(name)
    import torch
    import utils
    with contextlib.suppress(ImportError):  # scripts use it without importing it, which later versions of PyTorch do
        import torch.distributed.tensor  # noqa: F401

    # Large layers are made on the host, whose memory is not measured: their values need no time.
    torch.nn.Linear.reset_parameters = lambda self: None
    one_configuration()
    if args.calls:
        import triton.testing

        triton.testing.do_bench = short(args.calls, args.buffer)
    if args.collect is not None:
        gc.disable()
    numbers = itertools.count()
    run = utils.run_benchmarks

    def keep(data):
        with open(out, "a") as f:
            f.write(json.dumps(data) + "\n")

    def wanted(data):
        provider, mode, x = data.kernel_provider, data.kernel_operation_mode, str(data.x)
        return not args.only or any(o in (f"{provider},{mode},{x}", f"{provider},{mode},", f"{provider},,") for o in args.only)

    def benchmark(bench_test_fn, metric_name, **keywords):
        if metric_name != "memory" and not args.speed:
            return
        if args.x:
            keywords["x_values"] = [type(keywords["x_values"][0])(x) for x in args.x.split(",")]
        if args.providers:
            keywords["kernel_providers"] = args.providers.split(",")

        def measured(data):
            if metric_name == "memory" and not wanted(data):
                return utils.SingleBenchmarkRunOutput(y_20=None, y_50=None, y_80=None)
            row = {"kernel": keywords["kernel_name"], "metric": metric_name, "provider": data.kernel_provider,
                   "mode": data.kernel_operation_mode, "x": keywords["x_name"], "x_value": str(data.x),
                   "config": json.dumps(data.extra_benchmark_config, cls=utils.CustomEncoder)}
            if args.collect is not None and next(numbers) in args.collect:
                gc.collect()
            if args.instead and data.kernel_provider == args.instead.split("=")[0]:
                data.kernel_provider = args.instead.split("=")[1]
            try:
                result = bench_test_fn(data)
                row["mib"] = result.y_50
                row["mib_20"], row["mib_80"] = result.y_20, result.y_80
            except Exception as e:
                row["error"] = f"{type(e).__name__}: {e}"[:300]
                keep(row)
                raise
            keep(row)
            return result

        run(bench_test_fn=measured, metric_name=metric_name, **keywords)

    utils.run_benchmarks = benchmark
    utils.update_benchmark_data_csv = lambda **_: None
    sys.argv = [os.path.join(scripts, args.script), "--overwrite"] + rest
    runpy.run_path(sys.argv[0], run_name="__main__")


main()
