"""Builds the model of a configuration on the GPU and trains it for some steps: memtrace_model.py JOB.json RESULT.json

`memtrace estimate --how run` starts it on the simulated device. JOB.json has the path of Hugging Face's file ("model", or null), without
one transformers' sizes ("sizes"), and the declared fields that a run obeys ("job", memtrace-config(5), as text; run_fields.def). RESULT.json gets PyTorch's counters, or "error".
"""
import json
import os
import signal
import sys

from memtrace_train import Refused, distributed, engine_of, rows_of, train, train_with_engine

LIMIT = 900  # seconds, after which the job is ended
SECOND_OF_AUDIO = 16000  # samples of a second


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
        if declared and not (module.__version__ + ".").replace("+", ".").startswith(declared + "."):
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
            part.use_cache = False
    if getattr(config, "is_encoder_decoder", False):
        for key in ("decoder_start_token_id", "pad_token_id"):
            if getattr(config, key, None) is None:
                setattr(config, key, 0)
    return config


def parts(config):
    """A configuration and those inside it."""
    inside = [value for value in vars(config).values() if hasattr(value, "model_type") and hasattr(value, "to_dict")]
    return [config] + [part for each in inside for part in parts(each)]


def first(config, *names):
    for part in parts(config):
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return None


# What people train a model for: the first that an architecture has. An encoder is no language model of its own.
DECODERS = ("CAUSAL_LM",)
BOTH = ("SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM")
OTHERS = ("IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "MASKED_LM", "CTC", "IMAGE_CLASSIFICATION", "AUDIO_CLASSIFICATION", "VIDEO_CLASSIFICATION",
          "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION", "DEPTH_ESTIMATION", "TEXT_TO_WAVEFORM",
          "QUESTION_ANSWERING", "PRETRAINING", "")


def tasks_of(config):
    if getattr(config, "is_encoder_decoder", False):
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
        model = cls._from_config(config, **options)
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


# ---- the batch

def text(config, rows, tokens):
    import torch
    vocabulary = first(config, "vocab_size") or 2
    return torch.randint(0, min(vocabulary, 2 ** 31 - 1), (rows, tokens)).cuda()


def image(config, rows):
    import torch
    size = first(config, "image_size", "input_size") or 224
    high, wide = (size, size) if isinstance(size, int) else tuple(size)[-2:]
    return torch.zeros(rows, first(config, "num_channels", "in_channels", "in_chans") or 3, high, wide, device="cuda")


def other_inputs(name, config, rows, tokens):
    """The input of that name, for models that need more than token ids; None: not known here."""
    import torch
    if name in ("input_ids", "decoder_input_ids"):
        return text(config, rows, tokens)
    if name in ("pixel_values", "images"):
        return image(config, rows)
    if name in ("pixel_values_videos", "videos"):
        return image(config, rows).unsqueeze(1).repeat(1, first(config, "num_frames") or 8, 1, 1, 1)
    if name in ("input_features", "input_values", "audio_values"):
        bins = first(config, "num_mel_bins", "feature_size", "input_feat_per_channel")
        if name != "input_features" and not first(config, "max_length"):
            return torch.zeros(rows, SECOND_OF_AUDIO, device="cuda")
        frames = 2 * (first(config, "max_source_positions") or 500)
        frames = first(config, "max_length") if name == "input_values" else frames
        shape = (rows, bins or 80, frames) if type(config).__name__.startswith("Whisper") else (rows, frames, bins or 80)
        return torch.zeros(shape, device="cuda")
    if name == "bbox":
        return torch.zeros(rows, tokens, 4, dtype=torch.long, device="cuda")
    return None


def labels_of(model, config, batch, rows, job):
    """Labels of the kind that the model's loss takes; None: it has no loss of its own that is known here."""
    import torch
    name = type(model).__name__
    if "labels" not in arguments(model):
        return None
    if "decoder_seq_length" in job and getattr(config, "is_encoder_decoder", False):
        return text(config, rows, job["decoder_seq_length"])
    tokens = tokens_of(job)
    if "input_ids" in batch and ("LM" in name or "ConditionalGeneration" in name or "Pretrain" in name or "PreTraining" in name):
        return batch["input_ids"]
    if name.endswith("ForConditionalGeneration"):
        return text(config, rows, min(tokens, 448, first(config, "max_target_positions", "max_position_embeddings") or 448))
    if "Classification" in name:
        return torch.zeros(rows, dtype=torch.long, device="cuda")
    if "ForCTC" in name:
        return torch.ones(rows, 16, dtype=torch.long, device="cuda")
    return None


def arguments(model):
    import inspect
    return inspect.signature(model.forward).parameters


def tokens_of(job):
    return job.get("seq_length", 512)


def batch_of(model, config, job):
    rows, tokens = rows_of(job), tokens_of(job)
    accepted = arguments(model)
    needed = [name for name, p in accepted.items() if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    main = model.main_input_name
    batch = {}
    for name in [main if isinstance(main, str) else main[0]] + needed:
        value = other_inputs(name, config, rows, tokens)
        if value is None:
            raise Refused('%s needs the input "%s", which memtrace does not know' % (type(model).__name__, name))
        batch[name] = value
    if "return_loss" in accepted:  # texts beside images or sounds
        for name in ("input_ids", "pixel_values", "input_features"):
            if name in accepted:
                batch[name] = other_inputs(name, config, rows, tokens)
        batch["return_loss"] = True
    labels = labels_of(model, config, batch, rows, job)
    if labels is not None:
        batch["labels"] = labels
    elif getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in accepted:
        batch["decoder_input_ids"] = text(config, rows, tokens)
    if type(model).__name__.endswith("ForConditionalGeneration") and "pixel_values" in accepted and main == "input_ids":
        batch.pop("pixel_values", None)
    return batch


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
        return batch_of(model, config, job)

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
