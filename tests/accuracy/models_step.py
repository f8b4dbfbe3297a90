"""The training step of every model type."""
JOB = {"precision": "bf16-mixed", "micro_batch_size": 1, "seq_length": 128}
