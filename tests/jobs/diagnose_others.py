"""Jobs as people write them, which the rules of diagnosis had not seen when they were written: other models and frameworks than
diagnose_model.py's, the optimizers' defaults, loops of all kinds. diagnose_others.py JOB [--flag-of-the-job...]; see diagnose_causes.py."""
import copy
import gc
import io
import os
import sys
import tempfile

import diagnose_others_healthy
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from diagnose_zoo import RANK, LSTMModel, ResNet, UNet, VGG, diffusion, fit, images, sgd, small_llama, trainer, words, wrapped


def lora_logits():
    """LoRA: few states, a frozen body, and Qwen's vocabulary."""
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(small_llama(151936, 256, 2).bfloat16(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"]))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(3):
        tokens = words(4, 1024, 151936)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def pixel_attention():
    model = UNet(32, attention=True).cuda()
    diffusion(model, torch.optim.AdamW(model.parameters()), 3, 8, 192)


def unet_activations():
    model = UNet(64).cuda()
    diffusion(model, torch.optim.AdamW(model.parameters()), 3, 16, 128)


def features_kept():
    """A list of features, kept for a plot at the end of the epoch."""
    model, kept = ResNet(32).cuda(), []
    model.layers.register_forward_hook(lambda m, i, o: kept.append(o.detach()))
    fit(model, sgd(model), [(16, 224)] * 400)


def validation_graph():
    """Outputs of the validation are concatenated, without no_grad."""
    model = ResNet(32).cuda()
    optimizer = sgd(model)
    for _ in range(2):
        model.train()
        fit(model, optimizer, [(16, 160)] * 5)
        model.eval()
        outputs = []
        for _ in range(12):
            outputs.append(model(images(16, 160)[0]))
        torch.cat(outputs).argmax(1)


def trainer_predictions():
    """The Trainer's default: the logits of the whole evaluation stay on the GPU until its end."""
    trainer(small_llama(8192, 128, 2), 4, evaluated=400, metrics=True, eval_strategy="steps", eval_steps=2)


def best_model_copy():
    """A deep copy of model and optimizer state on the GPU at each new best."""
    model = VGG().cuda()
    optimizer = sgd(model)
    for _ in range(3):
        fit(model, optimizer, [(8, 128)] * 4)
        torch.save({"model": {k: v.clone() for k, v in model.state_dict().items()}, "optimizer": copy.deepcopy(optimizer.state_dict())}, io.BytesIO())


def image_sizes():
    """Every batch has another image size: the cache never has a block of the right size."""
    model = ResNet(32).cuda()
    fit(model, sgd(model), [(16, 128 + 8 * (i * 7 % 23)) for i in range(60)])


def resumed():
    """Reads the checkpoint onto the GPU, and keeps it during training."""
    model = VGG().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    fit(model, optimizer, [(8, 128)] * 2)
    with tempfile.TemporaryDirectory() as out:
        path = os.path.join(out, "checkpoint.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        del model, optimizer
        gc.collect()
        torch.cuda.empty_cache()
        checkpoint = torch.load(path, map_location="cuda")
    model = VGG().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    fit(model, optimizer, [(8, 128)] * 4)


def adam_default():
    """foreach is the default."""
    model = VGG().cuda()
    fit(model, torch.optim.Adam(model.parameters()), [(8, 128)] * 4)


def adam_states():
    """Half a step fits: forward and backward, but not the tensors that the optimizer creates in its first step."""
    model = VGG().cuda()
    fit(model, torch.optim.Adam(model.parameters(), foreach=False), [(8, 128)] * 4)


def too_large():
    """Fails in model.to("cuda")."""
    nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(40)]).to("cuda")


def long_sequence():
    model = LSTMModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    for step in range(14):
        x = words(16, 700 if step == 11 else (96, 128, 110)[step % 3])
        F.cross_entropy(model(x)[0].transpose(1, 2), x).backward()
        optimizer.step()
        optimizer.zero_grad()


def gradient_vector():
    """The norm of one long vector with all gradients."""
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(16)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(4):
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        norm = nn.utils.parameters_to_vector([p.grad for p in model.parameters()]).norm()
        for p in model.parameters():
            p.grad /= norm + 1
        optimizer.step()
        optimizer.zero_grad()


def emptied_by_trainer():
    """A setting of the Trainer that empties the cache after every step."""
    trainer(small_llama(8192, 512, 4), 12, torch_empty_cache_steps=1)


def checkpointing_not_training():
    """transformers recomputes only in training mode; train() was not called again."""
    model = small_llama(1024, 512, 12, use_cache=False)
    model.gradient_checkpointing_enable()
    model.eval()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for _ in range(3):
        tokens = words(8, 1024, 1024)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def caught_in_a_cycle():
    """An object of every step refers to itself: its activations are freed when Python's garbage collector runs."""
    class Step:
        def __init__(self, out):
            self.out, self.me = out, self

    gc.set_threshold(3000, 10, 10)
    model = ResNet(32).cuda()
    optimizer = sgd(model)
    for _ in range(60):
        x, y = images(16, 160)
        kept = Step(model.stem(x).detach())
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        del kept
        noise = [[i] for i in range(500)]  # what a data loader's collating leaves to the collector
        del noise


def graphs_by_size():
    """A CUDA graph for each batch size, each with a pool of its own."""
    model = VGG().cuda().eval()
    graphs = []
    with torch.no_grad():
        for b in range(8, 104, 8):
            x = torch.zeros(b, 3, 128, 128, device="cuda")
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                graphs.append((graph, x, model(x)))
        keep = [model(images(96, 128)[0]) for _ in range(3)]
        keep.append(torch.empty(900 << 20, dtype=torch.uint8, device="cuda"))


def cap_in_code():
    torch.cuda.set_per_process_memory_fraction(0.3)
    model = ResNet(64).cuda()
    fit(model, sgd(model), [(32, 224)] * 3)


def checkpointing_stops():
    """An evaluation leaves the model in eval(), in which transformers recomputes nothing."""
    model = small_llama(1024, 512, 12, use_cache=False)
    model.gradient_checkpointing_enable()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for step in range(4):
        tokens = words(8, 1024, 1024)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == 1:
            model.eval()
            with torch.no_grad():
                model(input_ids=tokens[:1])


def rollout_distributions():
    """A rollout before the first update keeps the log-probabilities of the whole vocabulary, of each batch."""
    model, kept = small_llama(32000, 256, 2, use_cache=False), []
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    @torch.no_grad()
    def rollout(count):
        for _ in range(count):
            tokens = words(2, 512, 32000)
            kept.append((tokens, model(input_ids=tokens).logits.log_softmax(-1)))

    rollout(12)
    for tokens, before in kept:
        now = model(input_ids=tokens).logits.log_softmax(-1).gather(2, tokens[..., None])
        (now - before.gather(2, tokens[..., None])).exp().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def saved_modules():
    """PEFT trains copies of the embedding and of the head."""
    from peft import LoraConfig, get_peft_model
    model = get_peft_model(small_llama(64000, 512, 2, use_cache=False), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], modules_to_save=["embed_tokens", "lm_head"]))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], fused=True)
    for _ in range(3):
        tokens = words(1, 64, 64000)
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


# On two ranks

def vgg_ddp():
    model = wrapped(VGG().cuda())
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), [(8, 128)] * 4)


def adam_everywhere():
    """Adam's states are complete on each rank."""
    model = wrapped(VGG().cuda(), gradient_as_bucket_view=True)
    fit(model, torch.optim.AdamW(model.parameters(), fused=True), [(8, 128)] * 4)


def fsdp1_one_unit():
    """No auto_wrap_policy."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    model = FullyShardedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(24)]).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(3):
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def fsdp1_no_sync():
    import functools

    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import size_based_auto_wrap_policy
    model = FullyShardedDataParallel(nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(24)]).cuda(),
                                     auto_wrap_policy=functools.partial(size_based_auto_wrap_policy, min_num_params=4000000))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for _ in range(3):
        with model.no_sync():
            for _ in range(3):
                model(torch.randn(64, 2048, device="cuda")).sum().backward()
        model(torch.randn(64, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    ranks = int(os.environ.get("WORLD_SIZE", 1))
    if ranks > 1:
        torch.cuda.set_device(RANK)
        dist.init_process_group("nccl")
        dist.all_reduce(torch.zeros(1, device="cuda"))  # NCCL has its memory before the model has any
    (globals().get(sys.argv[1]) or getattr(diagnose_others_healthy, sys.argv[1]))()
    if ranks > 1:
        dist.barrier()
        dist.destroy_process_group()
