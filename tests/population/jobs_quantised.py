"""Adapters on a base whose weights bitsandbytes has quantised to four or eight bits."""
import bitsandbytes
import torch
from peft import prepare_model_for_kbit_training

from core import DEVICE, job
from jobs_adapters import Lora


def quantised(model, eight):
    """What transformers does with a BitsAndBytesConfig, for weights that are not in a file: the linear layers are replaced, then moved."""
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is torch.nn.Linear and name != "lm_head":
                keys = {"bias": child.bias is not None}
                if eight:
                    new = bitsandbytes.nn.Linear8bitLt(child.in_features, child.out_features, has_fp16_weights=False, **keys)
                    new.weight = bitsandbytes.nn.Int8Params(child.weight.data, requires_grad=False, has_fp16_weights=False)
                else:
                    new = bitsandbytes.nn.Linear4bit(child.in_features, child.out_features, compute_dtype=torch.bfloat16, quant_type="nf4", **keys)
                    new.weight = bitsandbytes.nn.Params4bit(child.weight.data, requires_grad=False, quant_type="nf4")
                setattr(parent, name, new.to(DEVICE))
    return model.to(DEVICE)


@job("qlora", "adapters", "loop", "decoder")
class QLora(Lora):
    precisions = "bf16",
    eight = False

    def base(self):
        from transformers import AutoModelForCausalLM
        model = AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention, dtype=torch.bfloat16)
        model = quantised(model, self.eight)
        model.is_loaded_in_4bit, model.is_loaded_in_8bit = not self.eight, self.eight
        return prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)

    def freeze(self):
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "lora_" in name and parameter.is_floating_point()

    def finish(self, model):
        """Without a conversion: the quantised weights stay."""
        self.model = model
        self.optimizers = [self.optimizer(model.parameters())]
        self.dataset = self.make_dataset()


@job("lora_int8", "adapters", "loop", "decoder")
class LoraInt8(QLora):
    eight = True
