"""Classifies chest X-rays with a ViT on two GPUs (DDP), starting from a file that an earlier job has left, with weights and Adam's states."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv
CONFIG = ViTConfig(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048, image_size=96, patch_size=16, num_labels=14,
                   problem_type="multi_label_classification")


def leave_checkpoint(path):
    """What the earlier job did; it ran on one GPU."""
    model = ViTForImageClassification(CONFIG).to("cuda:0")
    averages = {k: v.clone() for k, v in model.state_dict().items()}
    torch.save({"weights": model.state_dict(), "exp_avg": averages, "exp_avg_sq": averages}, path)


def setup():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return dist.get_rank(), torch.device("cuda", local)


def load(path, device):
    model = ViTForImageClassification(CONFIG)
    loaded = torch.load(path, map_location="cpu" if FIXED else None)
    model.load_state_dict(loaded["weights"])
    return model.to(device), loaded


def batches(rank, n):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(n):
        yield torch.zeros(8, 3, 96, 96), torch.randint(0, 2, (8, 14), generator=generator).float()


def main():
    rank, device = setup()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0, device=device)
    path = os.path.join(folder[0], "pretrained.pt")
    if rank == 0:
        leave_checkpoint(path)
        torch.cuda.empty_cache()
    dist.barrier()
    model, loaded = load(path, device)
    model = DistributedDataParallel(model, device_ids=[device.index], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    for step, (pixels, labels) in enumerate(batches(rank, 4)):
        loss = model(pixel_values=pixels.to(device), labels=labels.to(device)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item(), "started from", len(loaded["weights"]), "tensors")


if __name__ == "__main__":
    main()
