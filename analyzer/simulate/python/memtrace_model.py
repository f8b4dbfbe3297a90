"""Builds the model of a configuration on the GPU and trains it for some steps: memtrace_model.py JOB.json RESULT.json

`memtrace estimate --how run` starts it on the simulated device. JOB.json has the path of Hugging Face's file ("model", or null), without
one transformers' sizes ("sizes"), and the declared fields that a run obeys ("job", memtrace-config(5), as text; run_fields.def). RESULT.json gets PyTorch's counters, or "error".
"""
import json
import os
import signal
import sys

from memtrace_inputs import batch_of, is_text_alone, parts, takes_images
from memtrace_train import Refused, distributed, engine_of, train, train_with_engine

LIMIT = 900  # seconds, after which the job is ended


def value_of(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def read(path):
    with open(path) as f:
        asked = json.load(f)
    asked["sizes"], asked["job"] = ({key: value_of(text) for key, text in asked[part].items()} for part in ("sizes", "job"))
    return asked


def check_versions(job):
    """The declared version, as far as it is declared ("2.6"), must be that of this Python."""
    import torch
    import transformers
    for module in (torch, transformers):
        key = module.__name__ + "_version"
        declared = str(job.get(key, ""))
        here, wanted = ((version + ".").replace("+", ".") for version in (module.__version__, declared))
        if declared and not here.startswith(wanted):
            raise Refused("%s=%s: this Python has %s; --python names another one" % (key, declared, module.__version__))


# ---- the model

def declared_model(job, sizes):
    """The configuration of a job without a file of its model."""
    return {**sizes, "model_type": job.get("model_type", "llama"),
            "tie_word_embeddings": not job.get("untie_embeddings_and_output_weights", True)}


def with_numbers(value):
    """transformers writes an infinite number as {"__float__": "Infinity"}."""
    if isinstance(value, dict):
        if list(value) == ["__float__"]:
            return float(value["__float__"])
        return {key: with_numbers(each) for key, each in value.items()}
    return [with_numbers(each) for each in value] if isinstance(value, list) else value


def config_of(path, job, sizes=None):
    import transformers
    declared = declared_model(job, sizes or {})
    if path:
        with open(path) as f:
            declared = with_numbers(json.load(f))
    kind = declared.get("model_type")
    if kind not in transformers.CONFIG_MAPPING:
        raise Refused('transformers %s has no model_type "%s"' % (transformers.__version__, kind))
    config = transformers.CONFIG_MAPPING[kind].from_dict(declared)
    for part in parts(config):
        if hasattr(part, "use_cache"):
            part.use_cache = bool(job.get("use_cache", False))
    if getattr(config, "is_encoder_decoder", False):
        for key in ("decoder_start_token_id", "pad_token_id"):
            if getattr(config, key, None) is None:
                setattr(config, key, 0)
    return config


# What people train a model for: the first that an architecture has. An encoder is no language model of its own.
DECODERS = ("CAUSAL_LM",)
BOTH = ("SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
OTHERS = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "MASKED_LM", "CTC", "IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION", "VIDEO_CLASSIFICATION",
          "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "TEXT_TO_WAVEFORM",
          "QUESTION_ANSWERING", "PRETRAINING", "")


def tasks_of(config):
    if getattr(config, "is_encoder_decoder", False) or len(parts(config)) > 1:  # a language model with others before it is trained whole
        return BOTH + DECODERS + OTHERS
    return ("MASKED_LM",) + DECODERS + OTHERS if not getattr(config, "is_decoder", False) else DECODERS + OTHERS


def class_of(config):
    import transformers
    from transformers.models.auto import modeling_auto
    for name in getattr(config, "architectures", None) or []:
        if hasattr(transformers, name):
            return getattr(transformers, name)
    for task in tasks_of(config):
        mapping = getattr(modeling_auto, "MODEL_FOR_%s_MAPPING" % task if task else "MODEL_MAPPING", {})
        if type(config) in mapping:
            found = mapping[type(config)]
            return found[0] if isinstance(found, (tuple, list)) else found
    found = class_of_part(config)
    if not found:
        raise Refused("transformers has no model for a %s" % type(config).__name__)
    return found


def class_of_part(config):
    """The model of a configuration that no task names, such as a part of another model; None: there is none."""
    import importlib
    import transformers
    try:
        module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None
    for name, value in vars(module).items():
        is_model = isinstance(value, type) and issubclass(value, transformers.PreTrainedModel)
        if is_model and value.__dict__.get("config_class") is type(config) and not name.endswith("PreTrainedModel"):
            return value
    return None


def build(config, job, device="cuda"):
    import torch
    import transformers
    cls = class_of(config)
    whole = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(job.get("precision"), torch.float32)
    options = {"dtype" if int(transformers.__version__.split(".")[0]) >= 5 else "torch_dtype": whole}
    attention = job.get("attention")
    if attention:
        options["attn_implementation"] = {"flash": "sdpa", "unfused": "eager"}.get(attention, attention)
    if "experts_implementation" in job:
        options["experts_implementation"] = job["experts_implementation"]
    with torch.device(device):
        model = cls._from_config(config, **options).to(device)  # torch.Tensor(size) does not obey torch.device
    if job.get("use_liger_kernel"):
        use_liger(model)
    if job.get("recompute_granularity") == "full":
        if not model.supports_gradient_checkpointing:
            raise Refused("%s does not support recomputation" % cls.__name__)
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    elif job.get("recompute_granularity"):
        raise Refused("recompute_granularity is %s: transformers recomputes full layers" % job["recompute_granularity"])
    return model.train()


def use_liger(model):
    try:
        from liger_kernel.transformers import _apply_liger_kernel_to_instance
        from liger_kernel.transformers.monkey_patch import MODEL_TYPE_TO_APPLY_LIGER_FN
    except ImportError:
        raise Refused("use_liger_kernel=true: this Python has no liger-kernel (pip install liger-kernel)")
    if model.config.model_type not in MODEL_TYPE_TO_APPLY_LIGER_FN:
        raise Refused("use_liger_kernel=true: Liger has no kernels for %s" % model.config.model_type)
    _apply_liger_kernel_to_instance(model=model)


def with_adapters(model, job):
    """The model with LoRA's adapters by PEFT, if the job has some."""
    if not job.get("lora_rank"):
        return model
    try:
        import peft
    except ImportError:
        raise Refused("lora_rank=%s: this Python has no peft (pip install peft)" % job["lora_rank"])
    names = str(job.get("lora_target_modules", ""))
    targets = names if names == "all-linear" else names.split(",") if names else None
    return peft.get_peft_model(model, peft.LoraConfig(r=job["lora_rank"], lora_dropout=job.get("lora_dropout", 0.0), target_modules=targets))


def packed():
    """Tells transformers' masks that each row has several sequences, which it finds by their positions."""
    import torch
    try:
        from transformers import masking_utils
    except ImportError:
        return
    if hasattr(masking_utils, "find_packed_sequence_indices"):
        masking_utils.find_packed_sequence_indices = torch.zeros_like


def run(path, job, sizes=None):
    import transformers
    import torch
    check_versions(job)
    config = config_of(path, job, sizes)
    if job.get("packed_sequences"):
        packed()
    model = build(config, job, "cpu" if job.get("framework") == "deepspeed" else "cuda")
    adapted = with_adapters(model, job)
    result = {"class": type(model).__name__, "num_parameters": sum(p.numel() for p in model.parameters()),
              "torch": torch.__version__, "transformers": transformers.__version__}

    def make_batch():
        batch = batch_of(model, config, job)
        result["text_alone"], result["takes_images"] = is_text_alone(model, batch), takes_images(model, config)
        return batch

    if job.get("framework") == "deepspeed":
        result.update(train_with_engine(engine_of(job, adapted), job, make_batch))
    else:
        result.update(train(*distributed(job, adapted), job, make_batch))
    return result


def main():
    signal.alarm(LIMIT)
    try:
        asked = read(sys.argv[1])
        result = run(asked["model"], asked["job"], asked["sizes"])
    except Refused as e:
        result = {"error": str(e)}
    except Exception as e:  # whatever a model's code raises is the answer
        import traceback
        traceback.print_exc()
        result = {"error": "%s: %s" % (type(e).__name__, " ".join(str(e).split())[:300])}
    with open(sys.argv[2] + ".tmp", "w") as f:
        json.dump(result, f)
    os.replace(sys.argv[2] + ".tmp", sys.argv[2])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
