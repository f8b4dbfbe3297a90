"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"habits_c", "fields_c", "habits_d", "habits_d_more", "fields_d", "habits_e", "habits_e_more", "fields_e"}
NEW_FAMILIES = {"weather", "neural operator", "hierarchy of latents", "energies", "tracking", "medical volumes", "growing resolution", "printed text",
                "audio codec", "speech synthesis", "vision and language", "bytes", "matrix memory", "hypernetwork", "groups of answers", "drafts",
                "reranking", "cross-validation", "hyperparameter search", "active learning", "federated learning", "ensemble", "evolution", "self-play",
                "diffusion transformer", "pictures on request", "super-resolution", "stereo", "molecules", "objects by queries", "optical flow",
                "sequence labelling", "source separation", "speaker verification", "memory of segments", "knowledge graphs", "self-distillation",
                "interpretability", "prompt tuning", "reward model", "translation", "splatting", "image tokens", "frames to come", "captions", "whole graph",
                "sequence packing", "odds of answers", "policy and critic", "long context", "on-policy distillation", "late interaction", "experts of transformers",
                "benchmarks", "text to image", "visual instructions", "classes of a scene", "features of what is hidden", "actions of a robot", "depth of a view",
                "pictures on several GPUs", "sound to letters", "sampled neighbours", "click-through rates", "genomes", "forecasts with Lightning",
                "classification with a trainer", "adapters with a trainer", "preferences with TRL", "speech on request", "answers with passages"}
