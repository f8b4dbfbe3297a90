/* Calls without a graph, and calls that no backward pass follows, by the source of a job. */
#include "source_job.h"

#include "source/computed.h"
#include "source/gradients.h"
#include "source/loops.h"
#include "source/no_grad.h"

struct one_line {
	const char *text; /* with a call of the model at # CALL */
	int expected;
};

static void check(const struct fixture *fx, const struct one_line *c,
		  int (*asked)(struct job_source *s, uint32_t stack))
{
	struct job j;
	uint32_t called;

	begin(&j, fx, c->text);
	called = call(&j, "# CALL");
	assert_int_equal(asked(source(&j), called), c->expected);
	job_source_end(&j.source);
}

static void a_block_or_a_decorator_turns_gradients_off(void **state)
{
	static const struct one_line cases[] = {
		{ "with torch.no_grad():\n    for x in loader:\n        net(x)  # CALL\n", 1 },
		{ "with torch.inference_mode():\n    net(x)  # CALL\n", 1 },
		{ "@torch.no_grad()\ndef check():\n    for x in loader:\n        net(x)  # CALL\n",
		  1 },
		{ "with torch.no_grad():\n    with torch.enable_grad():\n        net(x)  # CALL\n",
		  0 },
		{ "with torch.set_grad_enabled(False):\n    net(x)  # CALL\n", 1 },
		{ "with torch.no_grad(): kept.append(net(x))  # CALL\n", 1 },
		{ "@torch.no_grad()\n# slow\n@cached(\n    size=3)\ndef check():\n    net(x)  # CALL\n",
		  1 },
		{ "with torch.no_grad():\n    with torch.set_grad_enabled(True):\n        net(x)  # CALL\n",
		  0 },
		{ "with torch.set_grad_enabled(trains):\n    net(x)  # CALL\n", 0 },
		/* The block is over, or may be another one. */
		{ "with torch.no_grad():\n    net(y)\nnet(x)  # CALL\n", 0 },
		{ "with torch.no_grad() if fixed else nullcontext():\n    net(x)  # CALL\n", 0 },
		{ "torch.no_grad()\nnet(x)  # CALL\n", 0 },
		{ "@torch.no_grad()\ndef check():\n    pass\ndef train():\n    net(x)  # CALL\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], job_source_is_no_grad);
}

static void a_backward_pass_is_behind_a_call_or_not(void **state)
{
	static const struct one_line cases[] = {
		{ "for x in loader:\n    loss(net(x)).backward()\nfor x in held:\n    net(x)  # CALL\n",
		  0 },
		{ "for x in loader:\n    out = net(x)  # CALL\n    loss(out).backward()\n", 1 },
		/* The loop comes back to it. */
		{ "for x in loader:\n    last.backward()\n    last = net(x)  # CALL\n", 1 },
		{ "for x in loader:\n    total += net(x)  # CALL\ntotal.backward()\n", 1 },
		{ "out = net(x)  # CALL\ng = torch.autograd.grad(out.sum(), x)\n", 1 },
		/* A function of the job does it. */
		{ "def update(l):\n    l.backward()\n    o.step()\n"
		  "for x in loader:\n    update(net(x).mean())  # CALL\n",
		  1 },
		{ "for x in loader:\n    out = net(x)  # CALL\n    loss_scaler(out.mean(), o)\n",
		  1 },
		/* A decorator's and a setting's names are other words. */
		{ "out = net(x)  # CALL\noptimizer.zero_grad()\nwith torch.no_grad():\n    pass\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], job_source_asks_gradients);
}

/* By way of its value: the sum that waits, and Lightning's own way. */
static void what_comes_to_a_backward_pass_is_training(void **state)
{
	static const struct one_line cases[] = {
		{ "loss = net(x)  # CALL\ntotal = loss.mean()\ntotal.backward()\n", 1 },
		{ "self.manual_backward(net(x))  # CALL\n", 1 },
		{ "score = net(x)  # CALL\nprint(score)\nother.backward()\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], loops_call_leads_to_backward);
}

static void a_triangle_is_a_mask(void **state)
{
	static const struct one_line cases[] = {
		{ "mask = torch.ones(n, n).tril()  # CALL\n", 1 },
		{ "data = torch.load(name).cuda()  # CALL\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], job_source_masks);
}

static void a_line_converts_to_float64(void **state)
{
	static const struct one_line cases[] = {
		{ "clean, noisy = clean.double(), noisy.double()  # CALL\n", 1 },
		{ "x = x.to(torch.float64)  # CALL\n", 1 },
		{ "x = torch.cat([x, double_stream])  # CALL\n", 0 },
		{ "x = x.float()  # CALL\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], job_source_doubles);
}

/* A loop collects what the model does, and the updates behind it call the model anew. */
static void a_rollout_needs_no_graph(void **state)
{
	static const struct one_line cases[] = {
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    kept.append(net(x))  # CALL\n"
		  "for e in epochs:\n    o.zero_grad()\n    loss(net(y), kept).backward()\n",
		  1 },
		/* The rollout has no graph. */
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    with torch.no_grad():\n        a = net(x)  # CALL\n"
		  "for e in epochs:\n    loss(net(y), kept).backward()\n",
		  0 },
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    kept.append(net(x).detach())  # CALL\n"
		  "for e in epochs:\n    loss(net(y), kept).backward()\n",
		  0 },
		/* A first part of what is trained, and a later part. */
		{ "o = Adam(list(enc.parameters()) + list(head.parameters()))\n"
		  "for t in clips:\n    kept.append(enc(x))  # CALL\n"
		  "for q in asked:\n    loss(head(kept)).backward()\n",
		  0 },
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    kept.append(net(x))  # CALL\n"
		  "for e in epochs:\n    (loss(kept) + net.penalty()).backward()\n",
		  0 },
		/* Two stages of training, of which a function has the first one's backward pass. */
		{ "o = Adam(net.parameters())\n"
		  "def update(l):\n    l.backward()\n    o.step()\n"
		  "for t in steps:\n    update(loss(net(x)))  # CALL\n"
		  "for e in epochs:\n    loss(net(y)).backward()\n",
		  0 },
		/* The sum of the losses waits for its backward pass. */
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    kept.append(net(x))  # CALL\n"
		  "sum(kept).backward()\n",
		  0 },
		/* Each call has its backward pass; a second loop trains on. */
		{ "o = Adam(net.parameters())\n"
		  "for t in steps:\n    net(x).backward()  # CALL\n"
		  "for e in epochs:\n    net(y).backward()\n",
		  0 },
		/* The later loop trains another model, with what this one has made. */
		{ "o = Adam(head.parameters())\n"
		  "for t in steps:\n    kept.append(net(x))  # CALL\n"
		  "for k in kept:\n    head(k).backward()\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		check(*state, &cases[i], job_source_is_rollout);
}

/* A call of the model within a function, which the line of `outer` calls. */
static uint32_t call_within(struct job *j, const char *function, const char *outer)
{
	uint32_t layer = frame(j, "# CALL", "Linear.forward", FRAME_LIBRARY | FRAME_FORWARD),
		 inner = frame(j, "# CALL", function, 0), around = frame(j, outer, "<module>", 0),
		 within = stack(j, layer, inner);

	j->of_stacks[within][2] = around;
	j->stacks[within].frame_count = 3;
	return within;
}

/* The first backward pass behind a rollout is that of its updates. */
static void the_updates_may_be_where_the_rollout_is_called(void **state)
{
	static const char collect[] = "o = Adam(net.parameters())\n"
				      "def collect():\n"
				      "    for t in steps:\n        kept.append(net(x))  # CALL\n"
				      "    return kept\n",
			  updates[] = "for e in epochs:\n    loss(net(y), kept).backward()\n";
	static const struct {
		const char *middle;
		int expected;
	} cases[] = { { "kept = collect()  # OUTER\n", 1 },
		      { "kept = collect()  # OUTER\nsum(kept).backward()\n", 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		char text[512];
		uint32_t called;

		snprintf(text, sizeof(text), "%s%s%s", collect, cases[i].middle, updates);
		begin(&j, *state, text);
		called = call_within(&j, "collect", "# OUTER");
		assert_int_equal(job_source_is_rollout(source(&j), called), cases[i].expected);
		job_source_end(&j.source);
	}
}

/* The function that calls the model returns the loss to one that runs the backward pass. */
static void the_functions_around_a_call_count_too(void **state)
{
	static const char text[] = "def loss_of(x):\n"
				   "    return net(x).mean()  # CALL\n"
				   "for x in loader:\n"
				   "    loss_of(x).backward()  # TRAIN\n"
				   "for x in held:\n"
				   "    print(loss_of(x))  # CHECK\n";
	static const struct {
		const char *outer;
		int expected;
	} cases[] = { { "# TRAIN", 1 }, { "# CHECK", 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t called;

		begin(&j, *state, text);
		called = call_within(&j, "loss_of", cases[i].outer);
		assert_int_equal(job_source_asks_gradients(source(&j), called), cases[i].expected);
		job_source_end(&j.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(a_block_or_a_decorator_turns_gradients_off),
		IN_DIRECTORY(a_backward_pass_is_behind_a_call_or_not),
		IN_DIRECTORY(what_comes_to_a_backward_pass_is_training),
		IN_DIRECTORY(a_triangle_is_a_mask),
		IN_DIRECTORY(a_line_converts_to_float64),
		IN_DIRECTORY(a_rollout_needs_no_graph),
		IN_DIRECTORY(the_updates_may_be_where_the_rollout_is_called),
		IN_DIRECTORY(the_functions_around_a_call_count_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
