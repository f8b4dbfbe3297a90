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


def one(folder, kind):
    """Writes the result file in every case; the trace's process is named in it."""
    result = {"pid": os.getpid()}
    try:
        result["parameters"] = on_meta(os.path.join(folder, kind + ".whole.json"))
        result.update(memtrace_model.run(os.path.join(folder, kind + ".json"), job_of(folder, kind)))
    except Exception as e:  # the table shows it
        traceback.print_exc()
        result["error"] = "%s: %s" % (type(e).__name__, " ".join(str(e).split())[:200])
    with open(os.path.join(folder, kind + ".result.json"), "w", encoding="utf-8") as f:
        json.dump(result, f)


def main(folder, kinds):
    for kind in kinds:
        child = os.fork()
        if not child:
            signal.setitimer(signal.ITIMER_PROF, LIMIT)
            signal.alarm(STUCK)
            one(folder, kind)
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)


main(sys.argv[1], sys.argv[2:])
