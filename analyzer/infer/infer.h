/*
 * A job's configuration, told from what it allocated: what the sizes of parameters and activations
 * allow, what code ran, and of what is left open that which leaves the smallest gap between our own
 * estimate and the blocks at the peak. A value that nothing tells is not set, and said to be open.
 */
#ifndef MEMTRACE_INFER_H
#define MEMTRACE_INFER_H

#include "util/buf.h"
#include "infer/alloc_profile.h"
#include "config/config.h"
#include "estimate/estimate.h"
#include "report/report.h"

enum sureness {
	SURE_EXACT,  /* sizes or frames allow no other */
	SURE_LIKELY, /* of those that are possible it leaves clearly the smallest gap */
	SURE_GUESS,  /* others explain the blocks as well, or nearly */
};
const char *sureness_name(enum sureness s);

struct inferred {
	enum config_field field;
	char *value, *evidence;
	enum sureness sure;
};

/* What the blocks do not tell. */
struct untold {
	enum config_field field;
	char *reason;
};

struct inference {
	struct inferred *list; /* in the order in which they were told */
	size_t count, room;
	struct untold *untold;
	size_t untold_count, untold_room;
};

/* A rank of the job, and what its trace has. */
struct witness {
	const struct rank *rank;
	const struct census *census;
};

/* `c` has what is known already, which stays as it is, and gets the rest. -1: not even the layers
 * can be told; the message says why. */
int infer(struct inference *i, struct config *c, const struct witness *w, size_t count,
	  struct err *e);
void inference_release(struct inference *i);
/* The configuration as a file that --config takes: one flat JSON object. */
void inference_file(const struct config *c, struct buf *out);

/* ---- its parts ---- */

/* A repeated layer in a sequence of parameters. */
#define MOST_SLOTS 320
struct layers {
	enum maker maker;
	size_t start, period, count; /* count 0: there is none */
	bytes slot[MOST_SLOTS];      /* the smallest of its blocks: the one with the least tail */
};
void layers_find(struct layers *l, const struct census *c, enum maker maker);

/* One reading of the sizes of a layer. Rows are of the whole model, not of a tensor-parallel part.
 */
struct reading_of_layer {
	int64_t hidden, ffn, kv; /* kv: rows of keys, as of values */
	int64_t tp;
	int width; /* bytes of an element, as made */
	int gated, linear_bias, qkv_bias;
	int vectors;       /* of hidden_size elements in a layer: normalizations', and biases' */
	int64_t ffn_least; /* `ffn` is the most that the sizes allow until narrowed */
	int64_t vocab_most, vocab_least, positions_most, positions_least; /* 0: none on this rank */
	int heads_seen; /* how many blocks have the vocabulary's size */
	/* 0: none. `ffn` is then the width of one. `experts_here` are this rank's. */
	int64_t experts, experts_here;
	int apart;                    /* each expert's matrices are blocks of their own */
	int no_router;                /* was found: any number of ranks may share the experts */
	int64_t shared, shared_least; /* width of the shared experts together; 0: none */
};
#define MOST_READINGS 32
/* What the readings of a layer may assume. */
struct reading_of_job {
	int64_t shards; /* ranks that a sharded parameter is split over */
	int64_t world;  /* tensor-parallel ranks at most */
	int experts;    /* the code of mixtures of experts ran */
};
size_t layers_read(const struct layers *l, const struct census *c, const struct reading_of_job *job,
		   struct reading_of_layer *readings);

/* May a block of `size` be one of `wanted` bytes? */
int size_fits(bytes size, wide wanted);

/* How many tokens a micro-batch may have. */
struct token_count {
	int64_t tokens;
	uint64_t score; /* blocks of the forward pass that it explains */
};
#define MOST_TOKEN_COUNTS 6
/* The likeliest first. */
size_t tokens_of(const struct census *c, const struct reading_of_layer *r,
		 struct token_count *best);
/* With so many tokens the activations bound what the weights leave open. */
void narrow_vocabulary(const struct census *c, struct reading_of_layer *r, int64_t tokens);
/* What a width may be that the weights' tails leave between `least` and `most`. */
#define MOST_WIDTHS 4
size_t widths_of(const struct census *c, const struct reading_of_layer *r, int64_t tokens,
		 int64_t least, int64_t most, int64_t found[MOST_WIDTHS]);
int64_t usual_vocabulary(int64_t least, int64_t most);
/* The roundest number in reach. */
int64_t round_number(int64_t least, int64_t most);

/* ---- what is tried ---- */

/* All the ranks, and what their frames say. */
struct job_seen {
	const struct witness *w;
	size_t count;
	uint64_t marks;
	int64_t world;
	const struct census *census; /* of the first rank */
	struct witness ends[2];      /* whose peaks the readings are held against */
	size_t end_count;
	bytes worth, clearly; /* of what was observed, the parts that are worth a word, and much */
};
/* Does a row of infer_marks.def say so? */
int is_marked(const struct job_seen *j, const char *key, const char *value);

/* A reading with what it leaves open: of the divisors of the tokens one, and so on. */
struct trial {
	struct layers layers;
	struct reading_of_layer r;
	int64_t tokens, seq, heads;
	int64_t topk;                  /* experts of a token */
	int64_t ffn_most, shared_most; /* of which the reading's are one choice */
	int topk_sure;                 /* another would leave more */
	bytes gap;                     /* that it leaves */
	bytes worth;                   /* a difference that tells something */
	bytes seq_next,
		heads_next; /* and that the best with another length, or other heads; -1: none */
};
/* Sets what the frames and a reading say, where nothing else is set. */
void add_all(struct inference *i, struct config *c, const struct job_seen *j,
	     const struct trial *t);

/* The share of the forward pass' blocks that the configuration predicts, by size and number; 0
 * to 1. */
double infer_likeness(const struct config *c, const struct witness *w);
/* An alternative is worse, and clearly worse, by so much of what was observed. */
#define WORSE 0.0001
#define CLEARLY 0.002
bytes infer_observed(const struct witness *w, size_t count);

/* Tries alternatives of everything that is open, and keeps those that leave the least. */
void infer_search(struct inference *i, struct config *c, const struct witness *w, size_t count);
/* The bytes that a configuration leaves missing or unexplained on all the ranks, and what of that
 * shows elsewhere: how much their peaks are missed, by which tails count, and how unlike the
 * forward pass is. It need not look further where it is `enough`, if that is not -1. -1: it cannot
 * be estimated. */
bytes infer_gap(const struct config *c, const struct witness *w, size_t count, bytes enough);

/* Adds a value, unless it is given; the texts of `evidence` are a format's. */
__attribute__((format(printf, 6, 7))) void inferred_add(struct inference *i, struct config *c,
							enum config_field f, enum sureness sure,
							const char *value, const char *evidence,
							...);
__attribute__((format(printf, 3, 4))) void inferred_untold(struct inference *i, enum config_field f,
							   const char *reason, ...);
struct inferred *inferred_find(const struct inference *i, enum config_field f);

#endif
