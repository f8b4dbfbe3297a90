"""odd.py RANK MIB JOB...: runs JOB, but this rank holds MIB more memory from its beginning on."""
import os
import runpy
import sys

import torch

if os.environ["RANK"] == sys.argv[1]:
    more = torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device="cuda:" + os.environ["LOCAL_RANK"])
sys.argv = sys.argv[3:]
sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
runpy.run_path(sys.argv[0], run_name="__main__")
