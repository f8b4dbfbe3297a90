"""The causes that faults have, and the rules that name each of them: the first finding must be one of these."""
CAUSES = {
    "graph kept": ("LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),
    "list of tensors": ("LEAK_GRAPH_RETAINED", "EVAL_ACCUMULATION"),
    "evaluation with a graph": ("EVAL_GRAPH_KEPT", "GRAPH_KEPT"),
    "results kept on the GPU": ("EVAL_ACCUMULATION", "LEAK_GRAPH_RETAINED"),
    "losses summed": ("GRAPH_KEPT",),
    "attention scores": ("ATTN_QUADRATIC",),
    "logits": ("LOGITS_SPIKE",),
    "one huge temporary": ("HUGE_TEMPORARY",),
    "growing tensor": ("GROWING_TENSOR",),
    "second model": ("SECOND_MODEL",),
    "loaded checkpoint": ("RESUME_DUPLICATE_STATE",),
    "first optimizer kept": ("SECOND_OPTIMIZER",),
    "base not frozen": ("FROZEN_NEEDED",),
    "gradients kept": ("GRADS_HELD_IN_FORWARD",),
    "data moved to the GPU": ("DATA_ON_GPU",),
    "larger batch": ("BATCH_OUTLIER",),
    "activations": ("ACT_PEAK",),
    "KV cache": ("KV_CACHE", "KV_CACHE_STATIC"),
    "copies of the model kept": ("LEAK_GRAPH_RETAINED", "SECOND_MODEL", "CKPT_SAVE_SPIKE"),  # snapshots of the weights belong on the host
    "weights not tied": ("WEIGHTS_NOT_TIED",),  # the embedding and the output have a parameter each: assign the one to the other
    "growing cache": ("LEAK_GRAPH_RETAINED",),  # a cache takes another entry in each step: limit it
    "copies for a checkpoint": ("CKPT_SAVE_SPIKE",),
    "optimizer temporaries": ("OPT_FOREACH_TEMP",),
    "clipping": ("GRAD_NORM_TEMP",),
    "fragmentation": ("FRAG_EXTERNAL", "FRAG_VARLEN_RATCHET"),
    "another process": ("OTHER_PROCESS_ON_GPU",),
    "cap": ("PER_PROCESS_CAP",),
    "optimizer states": ("OPT_FIRST_STEP_JUMP",),
    "model too large": ("STATIC_OVER_BUDGET",),
}
