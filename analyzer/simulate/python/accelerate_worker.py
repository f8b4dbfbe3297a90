"""Takes the place of `accelerate launch` in `memtrace simulate --ranks`: Accelerate computes the worker's environment; RANK and similar variables are set."""
import os
import sys

from accelerate.commands import launch
from accelerate.utils import launch as environments


def main():
    args = launch.launch_command_parser().parse_args()
    args, _, _ = launch._validate_launch_command(args)
    kept = {k: os.environ[k] for k in ("MASTER_ADDR", "MASTER_PORT", "LD_PRELOAD") if k in os.environ}
    if args.use_deepspeed:
        environment = environments.prepare_deepspeed_cmd_env(args)[1]
    else:
        environment = environments.prepare_multi_gpu_env(args)
    os.environ.update({k: str(v) for k, v in environment.items()})
    os.environ.update(kept)
    command = [] if args.no_python else [sys.executable] + (["-m"] if args.module else [])
    command += [args.training_script, *args.training_script_args]
    os.execvp(command[0], command)


main()
