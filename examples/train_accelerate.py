"""GPT-2 under Hugging Face Accelerate.

    memtrace run -o traces -- accelerate launch --num_processes 2 --mixed_precision bf16 train_accelerate.py
    memtrace report traces
"""
import accelerate
import torch

from train_gpt2 import GPT, options


def main():
    o = options()
    accelerator = accelerate.Accelerator()
    model = GPT(o.layers, o.width, o.heads, o.vocabulary, o.length, o.flash)
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=6e-4))
    for _ in range(o.steps):
        tokens = torch.randint(0, o.vocabulary, (o.batch, o.length), device=accelerator.device)
        _, loss = model(tokens, tokens)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    print(f"rank {accelerator.process_index}: {torch.cuda.max_memory_allocated()} bytes at the most", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
