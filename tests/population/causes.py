"""The causes that faults have, and the rules that name each of them: the first finding must be one of these."""
CAUSES = {
    "graph kept": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT", "GRAPH_UNUSED", "BACKWARD_KEPT", "EARLIER_CALL"),
    "failed pass kept": ("FORWARD_REPEATED", "GRAPH_KEPT", "EARLIER_CALL"),  # a second try inside `except`, which keeps the frames of the first
    "list of tensors": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "EVAL_ACCUMULATION", "INFERENCE_RESULTS", "LAYERS_STORED"),  # the last one of a job without steps
    "what autograd saves kept": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),  # a list of it keeps what the graph kept
    "evaluation with a graph": ("EVAL_GRAPH_KEPT", "GRAPH_KEPT"),
    "results kept on the GPU": ("LAYERS_STORED", "EVAL_ACCUMULATION", "EVAL_TENSORS", "LEAK_GRAPH_RETAINED", "INFERENCE_RESULTS"),
    "losses summed": ("LOSSES_SUMMED", "LOSSES_OF_A_LOOP",),
    "attention scores": ("ATTN_QUADRATIC",),
    "logits": ("LOGITS_SPIKE",),
    "scores of all positions": ("HUGE_TENSORS", "LOGITS_SPIKE"),  # one line's tensors, over all frames, labels and a vocabulary: parts of them do
    "one huge temporary": ("HUGE_TENSORS", "WIDE_LABELS"),
    "whole sequence at once": ("HUGE_TENSORS", "ACT_PEAK"),  # huge tensors of all positions, saved for backward: parts, computed again, do
    "input larger than what is used": ("HUGE_TENSORS", "DATA_ON_GPU"),  # a view keeps all of an input on the GPU
    "earlier pass with a graph": ("GRAPH_UNUSED", "EVAL_GRAPH_KEPT", "CALL_UNUSED", "GRAPH_KEPT", "FORWARD_REPEATED", "EARLIER_CALL", "LOSSES_SUMMED"),  # passes of one step whose graphs nobody uses
    "results concatenated": ("GROWING_TENSOR", "EVAL_ACCUMULATION"),  # they belong on the host
    "growing tensor": ("GROWING_TENSOR",),
    "second model": ("SECOND_MODEL",),
    "loaded checkpoint": ("RESUME_DUPLICATE_STATE",),
    "first optimizer kept": ("SECOND_OPTIMIZER",),
    "base not frozen": ("GRADIENTS_UNUSED", "BASE_TRAINED", "UNOPTIMIZED_GRAPH"),
    "gradients kept": ("GRADS_HELD_IN_FORWARD", "GRADIENT_SETS", "GRADIENT_COPIES", "GRADIENTS_KEPT"),
    "data moved to the GPU": ("DATA_ON_GPU", "DATA_IN_SETUP"),
    "data kept on the GPU": ("DATA_ON_GPU", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED"),  # each step leaves its batch on the GPU
    "batch too large": ("ACT_PEAK", "LOGITS_SPIKE", "INFERENCE_BATCH"),  # smaller batches, accumulated: whichever of the two is larger, it scales with the batch
    "evaluation batch": ("EVAL_BATCH_LARGE", "BATCH_OUTLIER"),  # the evaluation's batch makes the peak: a smaller one, the training fits
    "reference with a graph": ("REFERENCE_GRAPH", "CALL_UNUSED", "EVAL_GRAPH_KEPT", "GRADIENTS_UNUSED", "EARLIER_CALL", "FIRST_MODEL_GRAPH", "LOSS_NETWORK_GRAPH", "TEACHER_GRAPH", "GENERATOR_GRAPH", "EVAL_MODE_GRAPH",
                               "UNOPTIMIZED_GRAPH"),  # no_grad() around a model that is not trained
    "whole model recomputed": ("RECOMPUTE_INEFFECTIVE",),  # one checkpoint for all: one for each block
    "recomputation off": ("RECOMPUTE_INEFFECTIVE", "ACT_PEAK"),  # asked for, and not at work: the activations are all there
    "double precision": ("DOUBLE_PRECISION", "DOUBLE_FROM_THE_START", "ACT_UPCAST"),  # float64 where float32 was meant
    "upcast activations": ("ACT_PEAK", "ACT_UPCAST"),  # fp32 copies of bf16 activations are saved for backward
    "second copy of the weights": ("SECOND_MODEL",),  # weights that nothing reads stay beside those that are trained
    "leak outside of PyTorch": ("LEAK_OUTSIDE_TORCH", "LIBRARY_BLOCKS_KEPT"),
    "larger batch": ("BATCH_OUTLIER",),
    "activations": ("ACT_PEAK",),
    "own KV cache": ("KV_CACHE", "GROWING_TENSOR"),  # keys and values grow by concatenation, one tensor for each layer
    "caches of finished requests": ("KV_CACHES_KEPT", "LEAK_GRAPH_RETAINED", "EVAL_ACCUMULATION", "EVAL_TENSORS", "KV_CACHE_STATIC", "KV_CACHE"),  # each request leaves its cache
    "static KV cache": ("KV_CACHE_STATIC", "EVAL_TENSORS"),
    "KV cache in training": ("KV_CACHE", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),  # use_cache in training, and every step's cache is kept
    "inference with a graph": ("INFERENCE_GRAPH", "EVAL_MODE_GRAPH", "EVAL_GRAPH_KEPT"),  # inference without no_grad()
    "KV cache": ("KV_CACHE", "KV_CACHE_STATIC", "KV_CACHE_OF_PROMPTS", "INFERENCE_BATCH"),  # too many sequences at once: in the prefill, the call itself is larger than its cache
    "copies of the model kept": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "SECOND_MODEL", "CKPT_SAVE_SPIKE"),  # snapshots of the weights belong on the host
    "weights copied in steps": ("SECOND_MODEL", "GRADIENT_COPIES"),  # sizes do not tell a copy of a parameter from one of its gradient
    "weights not tied": ("WEIGHTS_NOT_TIED",),  # the embedding and the output have a parameter each: assign the one to the other
    "growing cache": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "INFERENCE_RESULTS"),  # another entry in each step, or call of a job without steps: limit it
    "copies for a checkpoint": ("CKPT_SAVE_SPIKE",),
    "optimizer temporaries": ("OPT_FOREACH_TEMP",),
    "clipping": ("GRAD_NORM_TEMP", "GRADIENT_COPIES"),
    "fragmentation": ("FRAG_EXTERNAL", "FRAG_VARLEN_RATCHET"),
    "another process": ("OTHER_PROCESS_ON_GPU",),
    "cap": ("PER_PROCESS_CAP",),
    "optimizer states": ("OPT_FIRST_STEP_JUMP",),
    "model too large": ("STATIC_OVER_BUDGET",),
    "result assembled on the GPU": ("EVAL_TENSORS", "EVAL_ACCUMULATION", "HUGE_TENSORS"),  # in an evaluation: it belongs on the host, or into a running sum
    "attribution batch": ("BATCH_OUTLIER", "EVAL_BATCH_LARGE", "ACT_PEAK"),  # all steps of an attribution are one batch: a few at a time
    "growing tensor with a graph": ("GROWING_TENSOR", "GRAPH_KEPT", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED"),  # each one keeps those before it: detach()
    "scores of a whole prompt": ("LOGITS_SPIKE", "LOGITS_OF_PROMPT", "HUGE_TENSORS"),  # logits of all positions, outside of training: parts of them do
    "gradient of a whole table": ("TABLE_GRADIENT", "STATIC_OVER_BUDGET"),  # of rows that nobody used: sparse=True; the latter names parameters and gradients
    "idle model": ("SECOND_MODEL", "DATA_IN_SETUP", "LATE_MODEL"),  # a model that made something before, and is not used any more
    "iterations recorded": ("HUGE_TENSORS", "ACT_PEAK"),  # an inner loop whose result the loss takes as given: no_grad() around it
    "earlier runs kept": ("SECOND_MODEL", "SECOND_OPTIMIZER", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED"),  # models and optimizers of folds or trials before
    "copies in cycles": ("LEAK_REF_CYCLE", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "SECOND_MODEL", "CKPT_SAVE_SPIKE"),  # they wait for the collector
    "activations on modules": ("HOOKS_STORE", "LAYERS_STORED", "EVAL_TENSORS", "EVAL_ACCUMULATION", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),  # attributes of layers keep them
    "gradient buckets": ("DDP_BUCKET_DUP",),
    "whole tables trained": ("MODULES_TO_SAVE",),
    "weights in full precision": ("STATIC_OVER_BUDGET", "STATIC_PEAK", "DOUBLE_PRECISION"),  # 32 bits where 16 would do, in inference
    "adversary with a graph": ("GRAPH_UNUSED", "CALL_UNUSED", "GRAPH_KEPT", "FORWARD_REPEATED", "EARLIER_CALL", "LOSSES_SUMMED", "BACKWARD_KEPT", "HUGE_TENSORS", "ACT_PEAK"),  # detach() between an attack's steps
    "weights in one vector": ("HUGE_TENSORS", "GRAD_NORM_TEMP", "GRADIENT_COPIES", "SECOND_MODEL"),  # of all parameters: one after the other does
    "copies of gradients": ("GRADIENT_COPIES", "GRAD_NORM_TEMP", "GRADIENT_SETS"),  # a buffer of all gradients beside them
    "weights saved aside": ("SECOND_MODEL", "CKPT_SAVE_SPIKE", "GRADIENT_COPIES", "EVAL_TENSORS"),  # a clone of all weights while others are evaluated
    "states of replaced parameters": ("SECOND_OPTIMIZER", "SECOND_MODEL", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED"),  # an optimizer keeps parameters that are no more
    "buffers of every layer": ("BUFFERS_LARGE", "DATA_ON_GPU", "HUGE_TENSORS", "STATIC_OVER_BUDGET", "DATA_IN_SETUP"),  # one for all layers would do
    "inputs of an evaluation": ("EVAL_TENSORS", "EVAL_ACCUMULATION", "HUGE_TENSORS", "DATA_ON_GPU", "EVAL_BATCH_LARGE"),  # all inputs before the first is used
    "room for a rollout": ("DATA_ON_GPU", "DATA_IN_SETUP", "HUGE_TENSORS"),  # it belongs on the host, as bytes
    "loop that is not cut": ("ACT_PEAK", "LOSSES_SUMMED", "GRAPH_KEPT", "EARLIER_CALL"),  # a backward pass for each chunk, from a state without a graph
    "index concatenated": ("GROWING_TENSOR", "EVAL_ACCUMULATION", "INFERENCE_RESULTS"),  # results of a job without steps, in one tensor
    "hooks of every evaluation": ("HOOKS_STORE", "LAYERS_STORED", "EVAL_TENSORS", "EVAL_ACCUMULATION", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),  # what the hooks of a layer keep
    "buffers of a reduction": ("DDP_BUCKET_DUP", "ZERO_COMM_BUCKETS", "HUGE_TENSORS"),  # smaller buckets
    "clients on the GPU": ("SECOND_MODEL", "SECOND_OPTIMIZER"),  # a model and an optimizer for each of several clients
    "padding": ("ACT_PEAK", "LOGITS_SPIKE"),  # every row is filled up: to the longest of the batch would do
    "no mixed precision": ("ACT_PEAK", "LOGITS_SPIKE"),  # 32 bits throughout: 16 halve what is saved
    "pictures too large": ("ACT_PEAK", "INFERENCE_BATCH"),  # smaller pictures, or fewer at a time
    "base in full precision": ("STATIC_OVER_BUDGET", "DOUBLE_PRECISION"),  # 32 bits where 16 would do, under adapters
    "preconditioners": ("OPT_FIRST_STEP_JUMP", "HUGE_TENSORS", "STATIC_OVER_BUDGET"),  # a matrix of vocabulary times vocabulary, among an optimizer's states
    "norms by hand": ("ACT_PEAK", "ACT_UPCAST"),  # each line of a norm saves a tensor of fp32
    "frozen front with a graph": ("ACT_PEAK", "GRADIENTS_UNUSED", "UNOPTIMIZED_GRAPH"),  # layers that are not trained save their activations
    "scorer stays": ("LATE_MODEL", "SECOND_MODEL", "EVAL_TENSORS", "EARLIER_STEP_KEPT", "DATA_IN_SETUP"),  # a model of an evaluation, between evaluations
    "scorers kept": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "EVAL_TENSORS", "EVAL_ACCUMULATION", "SECOND_MODEL", "LATE_MODEL"),  # another one for each evaluation
    "whole model gathered": ("FSDP_WRAP_COARSE", "FSDP_REDUCE_COARSE"),  # one unit for all layers
    "gathered units kept": ("FSDP_OVERPREFETCH", "FSDP_WRAP_COARSE"),  # units that stay gathered until the backward pass
    "mask of all pairs": ("HUGE_TENSORS", "ATTN_QUADRATIC"),  # numbers for each pair of positions, where documents are apart
    "concatenations saved": ("ACT_PEAK", "HUGE_TENSORS"),  # each layer saves a copy of all that came before
    "temporary in an evaluation": ("HUGE_TENSORS", "EVAL_TENSORS"),  # one line of an evaluation, without a graph
    "generation in training": ("KV_CACHE", "KV_CACHE_OF_PROMPTS", "EVAL_TENSORS", "EVAL_BATCH_LARGE"),  # too many prompts at a time, between steps
    "conversation that grows": ("KV_CACHE", "KV_CACHE_OF_PROMPTS", "INFERENCE_BATCH", "BATCH_OUTLIER", "GROWING_TENSOR"),  # each turn's prompt is all that was said
    "cycle of a function": ("LEAK_REF_CYCLE", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRAPH_KEPT"),  # its result refers to itself by way of ctx
    "teacher not frozen": ("TEACHER_GRAPH", "REFERENCE_GRAPH", "GRADIENTS_UNUSED", "BASE_TRAINED", "CALL_UNUSED", "EVAL_MODE_GRAPH", "LOSS_NETWORK_GRAPH", "FIRST_MODEL_GRAPH", "EARLIER_CALL", "UNOPTIMIZED_GRAPH"),  # no_grad() around it
    "directions of an optimizer": ("EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRADIENT_COPIES", "OPT_FIRST_STEP_JUMP"),  # a shorter history
    "weights as columns": ("GROWING_TENSOR", "EARLIER_STEP_KEPT", "LEAK_GRAPH_RETAINED", "GRADIENT_COPIES", "CKPT_SAVE_SPIKE"),  # one for each epoch: on the host
    "table of features on the GPU": ("DATA_ON_GPU", "DATA_IN_SETUP", "BUFFERS_LARGE", "HUGE_TENSORS", "STATIC_OVER_BUDGET"),  # of a model, and not trained: rows from the host
    "one long request": ("BATCH_OUTLIER", "INFERENCE_BATCH"),  # all of its batch are padded to its length: alone
    "inner steps differentiated": ("BACKWARD_KEPT", "HUGE_TENSORS", "ACT_PEAK", "GRAPH_KEPT", "EARLIER_CALL"),  # detach() between the steps of a loop within the loss
    "states in double": ("OPT_FIRST_STEP_JUMP", "DOUBLE_PRECISION"),  # an optimizer's averages in float64: the states, or their type, are to be changed
    "cache for each branch": ("KV_CACHE_COPIED", "KV_CACHES_KEPT", "KV_CACHE", "KV_CACHE_OF_PROMPTS", "EVAL_TENSORS"),  # copies of a prompt's keys and values: one branch after the other
    "frozen by a rate of zero": ("BASE_TRAINED", "GRADIENTS_UNUSED", "OPT_FIRST_STEP_JUMP"),  # gradients and states of what a rate of zero never changes: requires_grad_(False)
    "stages of a preparation kept": ("DATA_ON_GPU", "LAYERS_STORED", "HOOKS_STORE", "EARLIER_STEP_KEPT", "HUGE_TENSORS"),  # attributes of stages that prepare pictures on the GPU
    "windows too long": ("ACT_PEAK",),  # more moments, or samples, in each example than it takes: shorter ones
    "cache of a whole text": ("KV_CACHE", "KV_CACHE_OF_PROMPTS", "GROWING_TENSOR"),  # piece after piece: a window of it
    "vectors of chunks": ("LOSSES_SUMMED", "LOSSES_OF_A_LOOP"),  # one loss of the vectors of several passes: their gradients can be cached, chunk by chunk
    "activation functions by hand": ("ACT_PEAK",),  # each term of them is saved: PyTorch's own save their input
    "prompts read ahead": ("KV_CACHES_KEPT", "KV_CACHE", "KV_CACHE_OF_PROMPTS"),  # of requests that wait: one after the other
    "validation with a graph": ("EVAL_GRAPH_KEPT", "EVAL_MODE_GRAPH", "GRAPH_UNUSED", "CALL_UNUSED", "GRAPH_KEPT", "EARLIER_CALL"),  # losses of a validation, summed: no_grad() around it
    "features with a graph": ("INFERENCE_GRAPH", "EVAL_MODE_GRAPH", "EVAL_GRAPH_KEPT", "GRAPH_KEPT", "LEAK_GRAPH_RETAINED", "EARLIER_STEP_KEPT"),  # the results on the host keep it too: no_grad()
    "one layer too large": ("STATIC_OVER_BUDGET", "STATIC_PEAK", "OPT_FIRST_STEP_JUMP", "HUGE_TENSORS"),  # its parameter, gradient and states: pooling before it
    "logits of an evaluation": ("EVAL_ACCUMULATION", "GROWING_TENSOR", "EVAL_TENSORS"),  # a trainer puts them together on the GPU
}

# Causes that take more in each step: what their remedy saves depends on the step in which the job died.
GROWS = {"graph kept", "list of tensors", "what autograd saves kept", "results kept on the GPU", "growing tensor", "growing cache", "data kept on the GPU", "leak outside of PyTorch",
         "copies of the model kept", "caches of finished requests", "results concatenated", "KV cache in training", "growing tensor with a graph", "earlier runs kept",
         "copies in cycles", "clients on the GPU", "scorers kept", "conversation that grows", "states of replaced parameters", "index concatenated", "hooks of every evaluation",
         "cycle of a function", "directions of an optimizer", "weights as columns", "features with a graph"}

# Of these, what is not in tensors.
OUTSIDE = {"leak outside of PyTorch"}

# Faults whose fixed form keeps a part of what the remedy does without: the model's own logits, or those of its evaluation, over the vocabulary that the fault
# makes large; the newest entry of a list, or the newest state.
OTHER_REMEDY = {"entropy_of_logits", "logits_in_fp32", "log_softmax_of_everything", "replay_without_limit", "cache_by_shape", "requests_remembered", "scorer_of_each_evaluation", "state_not_detached",
                "prefixes_of_all_documents", "long_history_of_directions", "window_of_gradients"}

# The remedy that the fixed job has, by a word of it, where the first remedy of a right rule may be another one. None: no rule names what the fixed form does,
# which is another thing than half a batch or parts of it: 16 bits, shorter rows, smaller pictures, a norm of PyTorch's, a loop without a graph.
REMEDIES = {"batch too large": "half", "activations": "checkpoint", "recomputation off": "checkpoint", "upcast activations": None, "no mixed precision": None, "padding": None,
            "pictures too large": None, "windows too long": None, "norms by hand": None, "activation functions by hand": None,
            "iterations recorded": None, "frozen front with a graph": "requires_grad"}
