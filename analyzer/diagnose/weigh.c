#include "diagnose/weigh.h"

#define MOST_OF_DEVICE 85  /* percent */
#define ENOUGH_MEASURED 18 /* first findings of a rule: all right is 19 of twenty */

/* Each row becomes two functions. */
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	static int when_##id(const struct metrics *m)                              \
	{                                                                          \
		return (when) != 0;                                                \
	}                                                                          \
	static bytes weight_##id(const struct metrics *m)                          \
	{                                                                          \
		(void)m;                                                           \
		return weight;                                                     \
	}
#include "diagnose/rules.def"
#undef RULE

const struct rule_of rules[] = {
#define RULE(id, severity, tier, confidence, title, when, weight, message, source) \
	{ #id,                                                                     \
	  title,                                                                   \
	  message,                                                                 \
	  source,                                                                  \
	  RULE_##severity,                                                         \
	  TIER_##tier,                                                             \
	  CONFIDENCE_##confidence,                                                 \
	  when_##id,                                                               \
	  weight_##id },
#include "diagnose/rules.def"
#undef RULE
};

/* Do the bytes of the cause cover the bytes that the request lacked, or the growth of this step
 * over those before it, which had room? */
static int is_enough(const struct metrics *m, bytes weight)
{
	return m->failed && (weight >= m->short_by || m->by_library ||
			     (m->step >= 2 && m->size_growth > 0 && weight >= m->size_growth));
}

enum severity rule_severity_of(const struct metrics *m, enum rule rule, bytes weight)
{
	switch (rules[rule].severity) {
	case RULE_OOM:
		if (m->died && weight > 0 && is_enough(m, weight))
			return SEVERITY_ERROR;
		/* Memory that grows from step to step will run out; the rest is normal for the job.
		 */
		return !m->failed && (rule == RULE_LEAK_GRAPH_RETAINED ||
				      rule == RULE_LEAK_OUTSIDE_TORCH ||
				      rule == RULE_LEAK_REF_CYCLE)
			       ? SEVERITY_WARNING
			       : SEVERITY_NOTE;
	case RULE_SLOW:
	case RULE_WARNING:
		return SEVERITY_WARNING;
	case RULE_INFO:
		break;
	}
	return SEVERITY_NOTE;
}

/* How often the rule was right when it was the first finding; NULL if it never was. */
const struct measured *rule_measured(enum rule rule)
{
	static const struct measured list[] = {
#define MEASURED(rule, right, named) [RULE_##rule] = { right, named },
#include "diagnose/confidence.def"
#undef MEASURED
		[RULES] = { 0 },
	};

	return list[rule].named ? &list[rule] : NULL;
}

/*
 * The share of right answers that is expected of a rule, by Laplace's rule of succession: 19
 * of twenty is high, twelve are medium. With few measurements, what rules.def says stands,
 * unless one of them was wrong.
 */
static enum rule_confidence measured_confidence(enum rule rule)
{
	const struct measured *n = rule_measured(rule);
	uint32_t twentieths = n ? (n->right + 1) * 20 / (n->named + 2) : 0;
	enum rule_confidence c = twentieths >= 19   ? CONFIDENCE_HIGH
				 : twentieths >= 12 ? CONFIDENCE_MEDIUM
						    : CONFIDENCE_LOW;

	if (!n ||
	    (n->named < ENOUGH_MEASURED && (n->right == n->named || rules[rule].confidence > c)))
		return rules[rule].confidence;
	return c;
}

/* The confidence of the rule; it is lower if the cause hardly covers the bytes that the request
 * lacked, or is small. */
const char *rule_confidence_of(const struct metrics *m, enum rule rule, bytes weight)
{
	static const char *const names[] = { "high", "medium", "low" };
	int c = (int)measured_confidence(rule);

	if (m->failed && rules[rule].severity == RULE_OOM &&
	    (weight < m->short_by * 2 || weight < m->allocated / 8))
		c++;
	/* The copies may have another purpose than a checkpoint. */
	if (rule == RULE_CKPT_SAVE_SPIKE && m->saving < m->copies)
		c++;
	/* A job that adds up losses looks the same until its first backward pass. */
	if (rule == RULE_INFERENCE_GRAPH && !m->graphs_dropped)
		c++;
	/* A second training loop looks the same until its first backward pass; so does the start of
	 * a pass that keeps no graph. */
	if ((rule == RULE_EVAL_GRAPH_KEPT && (!m->run_evaluates || FEW_BLOCKS)) ||
	    (rule == RULE_EVAL_BATCH_LARGE && !m->run_evaluates))
		c++;
	/* A graph keeps as many of one layer as of another, and none has most of them. Layers of
	 * one line make several blocks in a call, of which each may be seen. */
	if (rule == RULE_EVAL_ACCUMULATION &&
	    (m->run_repeat_stacks > MAX_RESULTS || !ONE_PLACE || !m->steps ||
	     (m->run_calls && m->run_calls < m->run_repeats / 2)))
		c++;
	/* The later call may be the reference, and hold but a layer's blocks. Two towers that are
	 * both trained look the same until their first backward pass. */
	if (rule == RULE_REFERENCE_GRAPH &&
	    (!m->again_kept || (!m->gradients && !m->optimizer_states)))
		c++;
	/* One earlier step and this one: each step may replace what the one before has left. */
	if (rule == RULE_EARLIER_STEP_KEPT && m->left_steps < 3)
		c++;
	/* Behind the first step, the states are there in any job: another cause may have made this
	 * step larger than it should be. */
	if (rule == RULE_OPT_FIRST_STEP_JUMP && m->step > 1)
		c++;
	/* What earlier steps have left may be a history, of which each step adds some. */
	if (rule == RULE_GRADIENT_COPIES && SHARE(m->left, 5))
		c++;
	/* Later steps take from what earlier ones left: a queue that is filled faster, perhaps. */
	if (rule == RULE_LEAK_GRAPH_RETAINED && m->leak_consumed >= m->leak_steps)
		c++;
	/* No optimizer has shown yet: the backward passes may be derivatives within one loss. */
	if (rule == RULE_LEAK_GRAPH_RETAINED && !IN(OPTIMIZER))
		c += m->leak_autograd > m->leak_bytes / 2 || m->leak_steps < 4;
	/* A loop that gives a model its own results needs all calls for one backward pass, too. */
	if ((rule == RULE_LOSSES_SUMMED &&
	     (EVALUATES || TWO_TOWERS || m->waiting_of_line > m->waiting / 2)) ||
	    (rule == RULE_GRADS_HELD_IN_FORWARD && !IN(OPTIMIZER)))
		c++;
	/* A line that is trained with retain_graph=True looks the same. */
	if (rule == RULE_CALL_UNUSED && m->never_used > m->again_unused)
		c++;
	/* Only the backward pass shows whether it needs both calls. */
	if (rule == RULE_EARLIER_CALL)
		c = CONFIDENCE_LOW;
	return names[c > CONFIDENCE_LOW ? CONFIDENCE_LOW : c];
}

/* Does the job need so much of what the device has for tensors, as far as its need is known, that a
 * perfect layout leaves hardly any room? */
static int needs_most_of_the_device(const struct metrics *m)
{
	bytes room = m->device_total - m->outside;

	return room > 0 && larger_of(m->whole_need, m->peak_needed) > room / 100 * MOST_OF_DEVICE;
}

/*
 * Fragmentation that is small beside the other memory is not the cause: of a cache that is a third
 * of what PyTorch holds it is, or of sizes that vary; but a request that is out of proportion, and
 * leads to more than tensors ever had, finds no piece in any cache. In the first step, the further
 * need of the job is unknown: a larger consumer comes first then.
 */
static enum tier tier_of_pieces(const struct metrics *m, enum rule rule, bytes weight)
{
	if (m->died && rule == RULE_FRAG_EXTERNAL &&
	    (m->cached < m->reserved / 3 || needs_most_of_the_device(m) ||
	     (m->cached < m->reserved / 2 && m->cached < m->huge_sum && m->huge_blocks > 1 &&
	      when_HUGE_TENSORS(m)) ||
	     ((m->step > 1 || IS_HUGE) && m->allocated + m->requested > m->allocated_peak)))
		return TIER_LAST;
	if (!m->died || weight >= m->allocated / 5 ||
	    (weight >= m->allocated / 10 && weight >= m->requested))
		return m->died && m->step <= 1 && !m->in_setup ? TIER_PEAK : TIER_PIECES;
	return TIER_LAST;
}

/* Few tensors, or the scores of attention, explain four times as much as a rule that is not often
 * right. */
static int explains_little(const struct metrics *m, enum rule rule, bytes weight)
{
	return rules[rule].tier <= TIER_NEEDLESS && rule_measured(rule) &&
	       measured_confidence(rule) != CONFIDENCE_HIGH &&
	       ((weight < m->huge_sum / 4 && SHARE(m->huge_sum, 50) && when_HUGE_TENSORS(m)) ||
		(weight < m->attention / 4 && SHARE(m->attention, 50) && when_ATTN_QUADRATIC(m)));
}

/* Before the first step, a name that speaks of evaluation may be right. The steps before had room
 * for their passes, and what they leave grows. */
static enum tier tier_of_losses(const struct metrics *m, bytes weight)
{
	if (TWO_TOWERS || (m->passes_waiting == 1 && when_GENERATOR_GRAPH(m)))
		return TIER_DEFAULT;
	if (EVALUATES || (LEAKS && IN(OPTIMIZER) && m->step > 2))
		return TIER_PEAK;
	return explains_little(m, RULE_LOSSES_SUMMED, weight) ? TIER_STATE
							      : rules[RULE_LOSSES_SUMMED].tier;
}

/* Of rules about inference and evaluation, where something else explains more. */
static enum tier tier_of_evaluation(const struct metrics *m, enum rule rule, bytes weight)
{
	/* Without a proof of inference, other explanations of the peak come first. */
	if (rule == RULE_INFERENCE_GRAPH && !m->inference)
		return m->predicts ? TIER_PEAK : CALLS_KEEP_GRAPHS ? TIER_STATE : TIER_DEFAULT;
	/* A second training loop looks the same until its first backward pass. */
	if (rule == RULE_EVAL_GRAPH_KEPT && !m->run_evaluates)
		return ONE_TENSOR ? TIER_DEFAULT : TIER_PEAK;
	/* Trainer concatenates the results of an evaluation, which are in no loop of the job. */
	if (rule == RULE_GROWING_TENSOR && IN(TRAINER) && m->run_evaluates &&
	    when_EVAL_ACCUMULATION(m))
		return TIER_NEEDLESS;
	/* The results of predictions are part of the graph that all of them keep. */
	if (rule == RULE_EVAL_TENSORS && when_INFERENCE_GRAPH(m) && weight < m->unused_graph / 2)
		return TIER_STATE;
	/* The cache has room for them twice, in pieces. */
	if (rule == RULE_EVAL_ACCUMULATION && when_FRAG_EXTERNAL(m) &&
	    m->cached / 2 >= m->run_repeat_bytes)
		return TIER_PEAK;
	/* It is computed of the model's outputs, and goes with the batch. */
	if (rule == RULE_EVAL_TENSORS && m->request_is_logits && m->evaluated == m->requested)
		return TIER_PEAK;
	/* The line leaves such blocks in each step. */
	if (rule == RULE_EVAL_ACCUMULATION && LEAKS && m->leak_stack == m->repeat_stack)
		return TIER_NEEDLESS;
	/* What training has needlessly, evaluation lacks. */
	if (rule == RULE_EVAL_BATCH_LARGE && (m->step < 2 || when_SECOND_MODEL(m)))
		return TIER_PEAK;
	return rules[rule].tier;
}

enum tier rule_tier_of(const struct metrics *m, enum rule rule, bytes weight)
{
	enum tier tier = tier_of_evaluation(m, rule, weight);

	if (tier != rules[rule].tier)
		return tier;
	/* What one unit of FSDP gathered is in that cache. */
	if (rule == RULE_NCCL_STARVED_BY_CACHE && when_FSDP_WRAP_COARSE(m))
		return TIER_STATE;
	/* What was asked for belongs to a parameter; or weights are most of what inference has. */
	if (rule == RULE_STATIC_PEAK &&
	    (STATIC_ASKED || (INFERS && m->parameters >= (m->allocated + m->requested) / 5 * 3)))
		return TIER_DEFAULT;
	/* Derivatives within one loss look like steps until an optimizer shows. */
	if (WITHIN_ONE_LOSS &&
	    ((rule == RULE_EARLIER_STEP_KEPT && KEEPS_IN_BACKWARD) ||
	     (rule == RULE_LEAK_GRAPH_RETAINED && m->leak_autograd > m->leak_bytes / 4 &&
	      m->hooked < m->leak_bytes / 2)))
		return TIER_STATE;
	/* Each step may leave what its variables refer to until the next one has made its own. */
	if (rule == RULE_EARLIER_STEP_KEPT && m->left_steps < 2 && when_HUGE_TENSORS(m) &&
	    (m->huge_sum >= m->left || (m->size_growth > 0 && m->huge_sum >= m->size_growth)))
		return TIER_DEFAULT;
	/* The request alone, which is no score matrix, needs more than all of those. */
	if (rule == RULE_ATTN_QUADRATIC && m->huge_blocks == 1 && m->huge == m->requested &&
	    m->requested >= weight && when_HUGE_TENSORS(m))
		return TIER_PEAK;
	/* One tensor, and all that follows from it has twice its size: a type, and no large result.
	 */
	if (rule == RULE_ACT_UPCAST && m->doubled_once)
		return TIER_NEEDLESS;
	/* No optimizer has shown: these may be micro-batches of the first step. */
	if (rule == RULE_GRADS_HELD_IN_FORWARD && !IN(OPTIMIZER))
		return TIER_STATE;
	/* What each step leaves are models with their gradients and states. */
	if (rule == RULE_SECOND_MODEL && REPLICAS)
		return TIER_WRONG;
	if ((rule == RULE_LEAK_GRAPH_RETAINED || rule == RULE_GRADIENTS_KEPT) &&
	    (REPLICAS || (m->remade && when_SECOND_MODEL(m))) &&
	    m->leak_bytes <= 5 * m->param_copies)
		return TIER_NEEDLESS;
	/* The states of all parameters are more than one gradient. */
	if (rule == RULE_TABLE_GRADIENT && m->in_optimizer && when_OPT_FIRST_STEP_JUMP(m))
		return TIER_DEFAULT;
	/* What is computed of that tensor is as large: it is no data, but the first of several
	 * results. */
	if (rule == RULE_DATA_ON_GPU && m->data_blocks == 1 && !m->data_asked &&
	    m->huge_lines >= 2 && m->huge_own >= m->data / 10 * 18 && when_HUGE_TENSORS(m))
		return TIER_DEFAULT;
	/* Logits of two calls: the earlier call explains them. */
	if (rule == RULE_LOGITS_SPIKE && TWO_CALLS)
		return TIER_DEFAULT;
	/* Each step has left as much, and the same lines: a list or hooks hold it. */
	if (rule == RULE_GRAPH_KEPT && LEAKS && m->leak_bytes >= m->kept / 10 * 7)
		return TIER_NEEDLESS;
	/* What stays step after step is kept: a graph of the last call would not be. */
	if (rule == RULE_CALL_UNUSED && LEAKS && m->leak_bytes > weight / 2)
		return TIER_NEEDLESS;
	if (rule == RULE_LOSSES_SUMMED)
		return tier_of_losses(m, weight);
	/* The job asks for it, and everything would be half as large. */
	if (rule == RULE_DOUBLE_FROM_THE_START && m->source_float64)
		return TIER_NEEDLESS;
	if (explains_little(m, rule, weight))
		return TIER_STATE;
	return rules[rule].tier == TIER_PIECES ? tier_of_pieces(m, rule, weight) : rules[rule].tier;
}
