"""Llama, Qwen2, Mixtral or GPT-2 of transformers: by hand, under Accelerate, with LoRA, or through Trainer.

    hf.py [--model llama|qwen2|mixtral|gpt2] [--loop plain|accelerate|trainer] [--parallel none|ddp|fsdp] [--lora] [--config config.json] ...
"""
import os
import tempfile
import warnings

import torch

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers  # noqa: E402

from common import LOCAL_RANK, OPTIMIZERS, WORLD, Truth, autocast, batch, finish, options, start, tensors_of  # noqa: E402


def arguments():
    p = options(layers=4, hidden=512, heads=8, kv_heads=2, ffn=1408, dtype="bf16_pure", optimizer="adamw_fused")
    p.add_argument("--model", default="llama", choices=("llama", "qwen2", "mixtral", "gpt2"))
    p.add_argument("--config", help="a config.json instead of the sizes above")
    p.add_argument("--loop", default="plain", choices=("plain", "accelerate", "trainer"))
    p.add_argument("--parallel", default="ddp" if WORLD > 1 else "none", choices=("none", "ddp", "fsdp"))
    p.add_argument("--experts", type=int, default=4)
    p.add_argument("--tied", action="store_true", help="one weight for the embedding and the output")
    p.add_argument("--lora", type=int, metavar="RANK", help="train adapters of this rank on q_proj and v_proj only")
    p.add_argument("--dora", action="store_true", help="with --lora: weights decomposed into magnitude and direction")
    p.add_argument("--four-bit", action="store_true", help="with --lora: the frozen layers in NF4 (bitsandbytes), QLoRA")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--moved", action="store_true", help="the model is made in fp32 on the CPU, moved, and then converted")
    p.add_argument("--use-cache", action="store_true", help="the forward pass keeps keys and values, as transformers does by default")
    return p.parse_args()


def config_of(o):
    if o.config:
        return transformers.AutoConfig.from_pretrained(o.config)
    if o.model == "gpt2":
        return transformers.GPT2Config(n_layer=o.layers, n_embd=o.hidden, n_head=o.heads, vocab_size=o.vocab, n_positions=o.seq)
    sizes = {"num_hidden_layers": o.layers, "hidden_size": o.hidden, "num_attention_heads": o.heads,
             "num_key_value_heads": o.kv_heads or o.heads, "intermediate_size": o.ffn or 4 * o.hidden, "vocab_size": o.vocab,
             "max_position_embeddings": max(4096, o.seq), "tie_word_embeddings": o.tied}
    if o.model == "mixtral":
        return transformers.MixtralConfig(num_local_experts=o.experts, num_experts_per_tok=2, **sizes)
    return {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config}[o.model](**sizes)


def quantize(model):
    """Linear layers in NF4, as transformers' BitsAndBytesConfig makes them of a checkpoint; to("cuda") packs them."""
    import bitsandbytes
    for parent in list(model.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is torch.nn.Linear and name != "lm_head":
                packed = bitsandbytes.nn.Linear4bit(layer.in_features, layer.out_features, layer.bias is not None, torch.bfloat16,
                                                    quant_type="nf4")
                packed.weight = bitsandbytes.nn.Params4bit(layer.weight.data, requires_grad=False, quant_type="nf4")
                setattr(parent, name, packed)
    return model.to("cuda")


def build(o):
    config = config_of(o)
    config.use_cache = o.use_cache
    dtype = torch.bfloat16 if o.dtype == "bf16_pure" else torch.float32
    with torch.device("cpu" if o.four_bit or o.moved else "cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=o.attention, dtype=torch.float32 if o.moved else dtype)
    if o.moved:
        model = model.cuda().to(dtype)
    if o.four_bit:
        model = quantize(model)
    if o.recompute != "none":
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if o.lora:
        import peft
        if o.recompute != "none":
            model.enable_input_require_grads()
        model = peft.get_peft_model(model, peft.LoraConfig(r=o.lora, target_modules=["q_proj", "v_proj"], use_dora=o.dora))
    model.train()
    return model


def plain(o):
    start(o)
    model = build(o)
    if o.parallel == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[LOCAL_RANK])
    elif o.parallel == "fsdp":
        from torch.distributed.fsdp import fully_shard
        for block in model.model.layers:
            fully_shard(block)
        fully_shard(model)
    if o.compile:
        model = torch.compile(model)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = OPTIMIZERS[o.optimizer](parameters)
    truth = Truth(o.model, tensors_of(model, optimizer), elements=sum(p.numel() for p in model.parameters()))
    for _ in range(o.steps):
        truth.before_step()
        for _ in range(o.accumulate):
            tokens, _ = batch(o)
            with autocast(o):
                loss = model(input_ids=tokens, labels=tokens).loss
            (loss / o.accumulate).backward()
        if o.clip:
            torch.nn.utils.clip_grad_norm_(parameters, o.clip)
        optimizer.step()
        truth.after_optimizer()
        optimizer.zero_grad()
        truth.after_step()
    if o.save:
        model.save_pretrained(o.save)
    return truth


def accelerated(o):
    import accelerate
    plugin = accelerate.FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap") if o.parallel == "fsdp" else None
    accelerator = accelerate.Accelerator(mixed_precision={"fp16": "fp16", "bf16": "bf16"}.get(o.dtype, "no"), fsdp_plugin=plugin,
                                         gradient_accumulation_steps=o.accumulate)
    torch.manual_seed(1)
    model = build(o)
    optimizer = OPTIMIZERS[o.optimizer]([p for p in model.parameters() if p.requires_grad])
    data = torch.utils.data.TensorDataset(torch.zeros(o.micro_batch * o.accumulate * o.steps * WORLD, o.seq, dtype=torch.long))
    loader = torch.utils.data.DataLoader(data, batch_size=o.micro_batch)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    truth = Truth("accelerate", tensors_of(model, optimizer.optimizer), elements=sum(p.numel() for p in model.parameters()))
    for i, (tokens,) in enumerate(loader):
        if i % o.accumulate == 0:
            truth.before_step()
        with accelerator.accumulate(model):
            accelerator.backward(model(input_ids=tokens, labels=tokens).loss)
            if accelerator.sync_gradients and o.clip:
                accelerator.clip_grad_norm_(model.parameters(), o.clip)
            optimizer.step()
            if accelerator.sync_gradients:
                truth.after_optimizer()
            optimizer.zero_grad()
        truth.after_step()
    if o.save:
        accelerator.save_state(o.save)
    return truth


class Counters(transformers.TrainerCallback):
    def __init__(self, truth):
        self.truth = truth

    def on_step_begin(self, *_, **__):
        self.truth.before_step()

    def on_optimizer_step(self, *_, optimizer=None, **__):
        self.truth.after_optimizer()

    def on_step_end(self, *_, **__):
        self.truth.after_step()


def trained(o):
    folder = o.save or tempfile.mkdtemp(prefix="trainer-")
    torch.cuda.set_device(LOCAL_RANK)
    optimizer = {"adamw": "adamw_torch", "adamw_fused": "adamw_torch_fused", "sgd": "sgd"}.get(o.optimizer, "adamw_torch")
    settings = transformers.TrainingArguments(
        output_dir=folder, max_steps=o.steps, per_device_train_batch_size=o.micro_batch, gradient_accumulation_steps=o.accumulate,
        bf16=o.dtype == "bf16", fp16=o.dtype == "fp16", max_grad_norm=o.clip, optim=optimizer, logging_strategy="no", report_to=[],
        save_strategy="steps" if o.save else "no", save_steps=o.steps, disable_tqdm=True, torch_compile=o.compile,
        gradient_checkpointing=o.recompute != "none", gradient_checkpointing_kwargs={"use_reentrant": False},
        fsdp="full_shard auto_wrap" if o.parallel == "fsdp" else "")
    model = build(o)
    data = [{"input_ids": [0] * o.seq, "labels": [0] * o.seq}] * (o.micro_batch * o.accumulate * o.steps * WORLD)
    trainer = transformers.Trainer(model=model, args=settings, train_dataset=data, data_collator=transformers.default_data_collator)

    def collect():
        return tensors_of(model, trainer.optimizer)()
    truth = Truth("trainer", collect, elements=sum(p.numel() for p in model.parameters()))
    trainer.add_callback(Counters(truth))
    trainer.train()
    return truth


def main():
    o = arguments()
    truth = {"plain": plain, "accelerate": accelerated, "trainer": trained}[o.loop](o)
    truth.print()
    finish()


if __name__ == "__main__":
    main()
