"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"habits_f", "habits_f_more", "fields_f", "habits_g", "fields_g"}
NEW_FAMILIES = {"instruction tuning", "code with holes", "parallel blocks", "replaced tokens", "spans of answers", "choices",
                "nested vectors", "layers distilled", "several tokens ahead", "tags by adapters", "summaries", "completions",
                "translations on request", "summaries with a trainer", "rewards with TRL", "anomalies with Lightning",
                "sounds with Accelerate", "vocoder", "quantiles of demand", "links of a graph", "decisions in a row", "world model",
                "solver in the loop", "baskets", "candidates of a shop", "heartbeats", "large kernels", "masks by prompts",
                "joints of people", "slides", "few steps of diffusion", "pictures without pairs", "vectors of pictures",
                "dialogues in one row", "near and far words", "long documents", "shared layers", "sparse vectors", "texts by unmasking",
                "preferences by adapters", "chats", "names on request", "a student with a trainer", "land with Lightning",
                "voices with Accelerate", "pictures of chests", "signs in a video", "graphs with attention", "actors and a learner",
                "operators by points", "people and things as a graph"}
