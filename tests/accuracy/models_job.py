"""Builds and trains the model of each configuration in a child of its own: models_job.py FOLDER TYPE...

FOLDER/TYPE.json is the configuration, FOLDER/TYPE.job.json has declared fields (without it, those of docs/models.md), FOLDER/TYPE.result.json gets what PyTorch counted, and the number of parameters on the meta device of
the configuration FOLDER/TYPE.whole.json.
"""
import json
import os
import signal
import sys
import traceback

# What all models import, before the children, so that each need not load it again. models.py sets PYTORCH_NVML_BASED_CUDA_CHECK, with which
# PyTorch does not touch the GPU here.
import torch  # noqa: F401
import transformers.generation  # noqa: F401
import transformers.modeling_utils  # noqa: F401
from transformers.models.llama import modeling_llama  # noqa: F401
from transformers.models.vit import modeling_vit  # noqa: F401

import memtrace_model
from models_step import JOB

FEW, WHOLE = ".json", ".whole.json"
LIMIT = 40  # seconds of processor time of one model
STUCK = 600  # seconds after which a model that does nothing is ended


def on_meta(path):
    config = memtrace_model.config_of(path, {})
    model = memtrace_model.build(config, {"precision": "fp32"}, "meta")
    return sum(p.numel() for p in model.parameters())


def job_of(folder, kind):
    path = os.path.join(folder, kind + ".job.json")
    if not os.path.exists(path):
        return JOB
    with open(path) as f:
        return json.load(f)


def one(folder, kind, layers):
    """Writes the result file in every case; the trace's process is named in it."""
    result = {"pid": os.getpid(), "whole": layers == WHOLE}
    try:
        result["parameters"] = on_meta(os.path.join(folder, kind + WHOLE))
        result.update(memtrace_model.run(os.path.join(folder, kind + layers), job_of(folder, kind)))
    except Exception as e:  # the table shows it
        traceback.print_exc()
        result["error"] = "%s: %s" % (type(e).__name__, " ".join(str(e).split())[:200])
    if "error" not in result or layers != WHOLE:  # else that of the model with few layers stays
        with open(os.path.join(folder, kind + ".result.json"), "w", encoding="utf-8") as f:
            json.dump(result, f)


def in_a_child(*which):
    child = os.fork()
    if not child:
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
        signal.alarm(STUCK)
        one(*which)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    os.waitpid(child, 0)


def failed(folder, kind):
    """A model that was built, and did not run."""
    try:
        with open(os.path.join(folder, kind + ".result.json"), encoding="utf-8") as f:
            result = json.load(f)
    except OSError:
        return False
    return "error" in result and "parameters" in result and not result["error"].startswith("Refused")


def main(folder, kinds):
    for kind in kinds:
        in_a_child(folder, kind, FEW)
        if failed(folder, kind):  # the pattern of its layers may need more of them
            in_a_child(folder, kind, WHOLE)


main(sys.argv[1], sys.argv[2:])
