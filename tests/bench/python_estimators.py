"""Prints, as JSON, the time of common Python estimators for one job: seconds for a call, without the imports."""
import contextlib
import io
import json
import os
import sys
import time

MODEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "config", "llama-3.1-8b")


def each(call, least=0.5):
    """Seconds for a call, over at least half a second."""
    calls, began = 0, time.process_time()
    while time.process_time() - began < least:
        call()
        calls += 1
    return (time.process_time() - began) / calls


def main():
    import torch
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes
    from transformers import AutoConfig, AutoModelForCausalLM

    with contextlib.redirect_stdout(sys.stderr):
        from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs_all_cold as zero3
    config = AutoConfig.from_pretrained(MODEL)

    def deepspeed():
        with contextlib.redirect_stdout(io.StringIO()):
            zero3(total_params=8030261248, largest_layer_params=525336576, num_gpus_per_node=8, num_nodes=8)

    def accelerate():  # the work of `accelerate estimate-memory` after it has the configuration
        with init_empty_weights():
            calculate_maximum_sizes(AutoModelForCausalLM.from_config(config))

    def transformers():
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
        return sum(p.numel() for p in model.parameters())

    print(json.dumps({"DeepSpeed's estimate_zero3_model_states_mem_needs_all_cold": each(deepspeed),
                      "accelerate estimate-memory, after its download": each(accelerate),
                      "transformers: the model on the meta device, parameters counted": each(transformers)}))


main()
