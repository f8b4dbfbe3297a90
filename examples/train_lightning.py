"""GPT-2 under Lightning, which starts the second process itself. On several nodes, torchrun starts it: else only the first node's processes know their ranks.

    memtrace run -o traces -- python3 train_lightning.py
    memtrace report traces
"""
import lightning
import torch

from train_gpt2 import GPT, options


class Module(lightning.LightningModule):
    def __init__(self, o):
        super().__init__()
        self.model = GPT(o.layers, o.width, o.heads, o.vocabulary, o.length, o.flash)

    def training_step(self, batch, index):
        _, loss = self.model(batch[0], batch[0])
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=6e-4)


def main():
    o = options()
    tokens = torch.randint(0, o.vocabulary, (2 * o.steps * o.batch, o.length))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=o.batch)
    trainer = lightning.Trainer(max_steps=o.steps, accelerator="gpu", devices=2, strategy="ddp", precision="bf16-mixed", logger=False,
                                enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(Module(o), loader)
    print(f"rank {trainer.global_rank}: {torch.cuda.max_memory_allocated()} bytes at the most", flush=True)


if __name__ == "__main__":
    main()
