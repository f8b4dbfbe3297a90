/* Loops of a job, by its source, and what becomes of what they compute. */
#include "source_job.h"

#include "source/generated.h"
#include "source/summed.h"
#include "source/unrolled.h"

static void losses_of_a_loop_wait_for_a_backward_pass_behind_it(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "total = 0\nfor t in tasks:\n    total = total + loss(net(t))  # CALL\ntotal.backward()\n",
		  1 },
		{ "total = 0\nfor t in tasks:\n    out = net(t)  # CALL\n    total += loss(out)\ntotal.backward()\n",
		  1 },
		{ "all = []\nfor t in tasks:\n    all.append(net(t))  # CALL\nsum(all).backward()\n",
		  1 },
		{ "all = []\nfor t in tasks:\n    all.append(net(t).item())  # CALL\nsum(all)\nx.backward()\n",
		  0 },
		{ "total = 0\nfor t in tasks:\n    l = net(t)  # CALL\n    l.backward()\n    total += l.item()\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t summed;

		begin(&j, *state, cases[i].text);
		summed = call(&j, "# CALL");
		assert_int_equal(job_source_is_summed(source(&j), summed), cases[i].expected);
		job_source_end(&j.source);
	}
}

static void a_sum_that_a_function_returns_waits_too(void **state)
{
	struct job j;
	uint32_t summed;

	begin(&j, *state,
	      "def losses(net, tasks):\n"
	      "    return sum(net(t) for t in tasks)  # INNER\n"
	      "total = losses(net, tasks)  # OUTER\n"
	      "total.backward()\n");
	summed = stack(&j, frame(&j, "# INNER", "losses.<locals>.<genexpr>", 0),
		       frame(&j, "# OUTER", "<module>", 0));
	assert_true(job_source_is_summed(source(&j), summed));
	job_source_end(&j.source);
}

/* A query and a passage are parts of one loss, which need each other. */
static void values_that_a_comprehension_names_are_no_batches(void **state)
{
	struct job j;
	uint32_t called;

	begin(&j, *state,
	      "q, p = (net(part) for part in (query, passage))  # CALL\n"
	      "loss(q, p).backward()\n");
	called = stack(&j, frame(&j, "# CALL", "<genexpr>", 0), frame(&j, "# CALL", "<module>", 0));
	assert_false(job_source_is_summed(source(&j), called));
	job_source_end(&j.source);
	begin(&j, *state,
	      "q, good, bad = (net(part) for part in parts(tokens))  # CALL\n"
	      "loss(q, good, bad).backward()\n");
	called = stack(&j, frame(&j, "# CALL", "<genexpr>", 0), frame(&j, "# CALL", "<module>", 0));
	assert_false(job_source_is_summed(source(&j), called));
	job_source_end(&j.source);
	begin(&j, *state,
	      "total = sum(net(part) for part in batches)  # CALL\n"
	      "total.backward()\n");
	called = stack(&j, frame(&j, "# CALL", "<genexpr>", 0), frame(&j, "# CALL", "<module>", 0));
	assert_true(job_source_is_summed(source(&j), called));
	job_source_end(&j.source);
}

static void a_loop_that_feeds_itself_is_unrolled(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "for _ in range(8):\n    state = net(state)  # CALL\nloss(net(state)).backward()\n",
		  1 },
		{ "for _ in range(8):\n    a = net(v)  # CALL\n    v = v + a\nmse(v).backward()\n",
		  1 },
		/* Nothing is trained. */
		{ "for _ in range(8):\n    state = net(state)  # CALL\nsave(state)\n", 0 },
		{ "for _ in range(8):\n    state = net(x)  # CALL\nmse(state).backward()\n", 0 },
		{ "for _ in range(8):\n    state = net(state)  # CALL\n    total += mse(state)\ntotal.backward()\n",
		  0 },
		{ "for _ in range(8):\n    state = net(state)  # CALL\n    all.append(state)\nmse(all).backward()\n",
		  0 },
		{ "for _ in range(8):\n    state = net(state)  # CALL\n    state.sum().backward()\n",
		  0 },
		{ "for _ in range(8):\n    p = f(net, p)  # CALL\n    g = torch.autograd.grad(p, q)\np.backward()\n",
		  0 },
		{ "state = net(state)  # CALL\nstate.backward()\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t made;

		begin(&j, *state, cases[i].text);
		made = call(&j, "# CALL");
		assert_int_equal(job_source_is_unrolled(source(&j), made), cases[i].expected);
		job_source_end(&j.source);
	}
}

static void what_an_unrolled_loop_returns_is_followed(void **state)
{
	struct job j;
	uint32_t made;

	begin(&j, *state,
	      "def warm_up(net, state):\n"
	      "    for _ in range(8):\n"
	      "        state = net(state)  # INNER\n"
	      "    return state\n"
	      "start = warm_up(net, x)  # OUTER\n"
	      "loss = mse(net(start), y)\n"
	      "loss.backward()\n");
	made = stack(&j, frame(&j, "# INNER", "warm_up", 0), frame(&j, "# OUTER", "<module>", 0));
	assert_true(job_source_is_unrolled(source(&j), made));
	job_source_end(&j.source);
}

#define GAN(made, rest)                                \
	"opt_g = Adam(G.parameters())\n"               \
	"opt_d = Adam(D.parameters())\n"               \
	"def judge(real):\n"                           \
	"    fake = " made "  # CALL\n"                \
	"    loss = D(fake).mean() - D(real).mean()\n" \
	"    loss.backward()\n"                        \
	"    opt_d.step()\n" rest

static void a_generator_in_the_step_of_its_discriminator(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ GAN("G(noise())", ""), 1 },
		{ GAN("G(noise())", "    fake = G(noise())\n    use(fake)\n"), 1 },
		/* One backward pass, and two optimizers. */
		{ GAN("G(noise())", "    opt_g.step()\n"), 0 },
		{ GAN("G(noise())", "    D(fake).backward()\n    opt_g.step()\n"),
		  0 }, /* needed still */
		{ "opt_g = Adam(G.parameters())\nopt_d = Adam(D.parameters())\nfake = G(noise())  # CALL\n"
		  "D(fake.detach()).backward()\nopt_d.step()\n",
		  0 },
		{ "opt_g = Adam(G.parameters())\nopt_d = Adam(D.parameters())\nfake = G(noise())  # CALL\n"
		  "D(fake).backward()\nopt_g.step()\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t made;

		begin(&j, *state, cases[i].text);
		made = call(&j, "# CALL");
		assert_int_equal(job_source_is_generated(source(&j), made), cases[i].expected);
		job_source_end(&j.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(losses_of_a_loop_wait_for_a_backward_pass_behind_it),
		IN_DIRECTORY(a_sum_that_a_function_returns_waits_too),
		IN_DIRECTORY(values_that_a_comprehension_names_are_no_batches),
		IN_DIRECTORY(a_loop_that_feeds_itself_is_unrolled),
		IN_DIRECTORY(what_an_unrolled_loop_returns_is_followed),
		IN_DIRECTORY(a_generator_in_the_step_of_its_discriminator),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
