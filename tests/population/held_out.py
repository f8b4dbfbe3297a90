"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"habits_h", "fields_h"}
NEW_FAMILIES = {"code with one key", "scaled logits", "forms with boxes", "paraphrases that agree", "activations rescaled",
                "products of small matrices", "likes and dislikes", "rewards of steps", "the best of many", "guided words",
                "observer and performer", "words that are wrong", "masked words with a trainer", "code search with Accelerate",
                "interests of people", "several goals of a feed", "margins of a teacher", "gated memory", "words that skip layers",
                "trees of sentences"}
