/* Steps of several optimizers, of closures, and what belongs to the next step already. */
#include "steps_job.h"

/* A model that one line calls and one line optimizes. */
struct part {
	uint32_t model, optimizer;
};

static struct part part(struct fixture *f, unsigned line)
{
	struct writer *w = &f->w;
	uint32_t call = write_frame(w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2),
		 step = write_frame(w, "AdamW.step", TORCH "optim/adamw.py", 3);

	return (struct part){
		stack(f, forward, call, write_frame(w, "train", "/job/gan.py", line)),
		stack(f, write_frame(w, "_multi_tensor_adamw", TORCH "optim/adamw.py", 5), step,
		      write_frame(w, "train", "/job/gan.py", line + 1)),
	};
}

/* `shows`: the optimizer allocates. */
static void turn(struct fixture *f, const struct part *p, int shows)
{
	drop_in_backward(f, make(f, p->model, 10 * MIB), 10 * MIB);
	if (shows)
		drop(f, p->optimizer, make(f, p->optimizer, MIB), MIB);
}

static void optimizers_take_turns(void **state)
{
	struct fixture *f = *state;
	struct part first = part(f, 10), second = part(f, 20);

	for (unsigned step = 0; step < 2; step++) {
		turn(f, &first, 1);
		turn(f, &first, 1);
		turn(f, &second, 1);
	}
	turn(f, &first, 1);
	assert_phases(run(f), "1forward 1backward 1optimizer 1forward 1backward 1optimizer "
			      "1forward 1backward 1optimizer "
			      "2forward 2backward 2optimizer 2forward 2backward 2optimizer "
			      "2forward 2backward 2optimizer 3forward 3backward 3optimizer");
}

static void turns_in_place_are_counted(void **state)
{
	struct fixture *f = *state;
	struct part first = part(f, 10), second = part(f, 20);

	for (unsigned step = 0; step < 3; step++) {
		turn(f, &first, !step);
		turn(f, &second, !step);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 1forward 1backward 1optimizer "
			      "2forward 2backward 2forward 2backward "
			      "3forward 3backward 3forward 3backward");
}

/* The optimizer shows in each of four steps: six turns without it, as an adaptation makes, are of
 * one step. */
static void turns_without_an_optimizer_that_always_shows_are_one_step(void **state)
{
	struct fixture *f = *state;
	struct part first = part(f, 10), second = part(f, 20);

	for (unsigned i = 0; i < 4; i++)
		turn(f, &first, 1);
	for (unsigned i = 0; i < 6; i++)
		turn(f, &second, 0);
	assert_int_equal(run(f)->now.step, 5);
}

/* First one network is trained for two steps, then another: each turn is a step. */
static void long_runs_are_no_turns(void **state)
{
	struct fixture *f = *state;
	struct part first = part(f, 10), second = part(f, 20);

	for (unsigned i = 0; i < 2; i++) {
		turn(f, &first, 1);
		turn(f, &first, 1);
		turn(f, &second, 1);
		turn(f, &second, 1);
	}
	assert_int_equal(run(f)->now.step, 8);
}

/* Two losses of one forward pass, each with its own backward pass and optimizer. */
static void two_backward_passes_of_one_forward_pass(void **state)
{
	struct fixture *f = *state;
	struct part actor = part(f, 10), critic = part(f, 20);

	for (unsigned step = 0; step < 2; step++) {
		uint64_t one = make(f, actor.model, 10 * MIB), two = make(f, critic.model, MIB);

		drop_in_backward(f, one, 10 * MIB);
		make(f, actor.optimizer, MIB);
		drop_in_backward(f, two, MIB);
		make(f, critic.optimizer, MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 1backward 1optimizer "
			      "2forward 2backward 2optimizer 2backward 2optimizer");
}

/* LBFGS calls its closure from one line first, then from another; it runs under no_grad. */
static void closures_of_one_step(struct fixture *f, const char *called)
{
	struct writer *w = &f->w;
	uint32_t no_grad = write_frame(w, "no_grad.<locals>.decorate_context",
				       TORCH "utils/_contextlib.py", 1),
		 closure = write_frame(w, called, "/job/train.py", 5),
		 forward = write_frame(w, "Net.forward", "/job/net.py", 2), calls[2];

	for (unsigned i = 0; i < 2; i++)
		calls[i] = write_stack(
			w, f->c10, forward, closure,
			write_frame(w, "LBFGS.step", TORCH "optim/lbfgs.py", 300 + i), no_grad);
	for (unsigned i = 0; i < 6; i++) {
		drop_in_backward(f, make(f, calls[i % 3 > 0], 10 * MIB), 10 * MIB);
		drop(f, f->temporary, make(f, f->temporary, MIB), MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 1forward 1backward 1optimizer "
			      "1forward 1backward 1optimizer "
			      "2forward 2backward 2optimizer 2forward 2backward 2optimizer "
			      "2forward 2backward 2optimizer");
}

static void closures_of_any_name(void **state)
{
	closures_of_one_step(*state, "evaluate_again");
}

static void closures_that_are_named_so(void **state)
{
	closures_of_one_step(*state, "main.<locals>.closure");
}

static void inputs_come_before_zero_grad(void **state)
{
	struct fixture *f = *state;

	uint64_t gradient = 0;

	for (unsigned step = 0; step < 3; step++) {
		make(f, f->input, 2 * MIB);
		if (gradient)
			drop(f, f->zero_grad, gradient, 5 * MIB);
		gradient = micro_batch(f);
	}
	assert_phases(run(f), "1forward 1backward 2forward 2backward 3forward 3backward");
}

/* An average of the parameters, which the job's own code updates. */
static void temporaries_after_the_step_are_of_it(void **state)
{
	struct fixture *f = *state;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t gradient = micro_batch(f);

		make(f, f->optimizer, MIB);
		for (unsigned i = 0; i < 3; i++)
			drop(f, f->input, make(f, f->input, MIB), MIB);
		drop(f, f->zero_grad, gradient, 5 * MIB);
		make(f, f->input, 2 * MIB);
	}
	assert_phases(run(f), "1forward 1backward 1optimizer 2forward 2backward 2optimizer");
}

/* A frozen model, whose result the loss compares with; in front of every forward pass. */
static void a_reference_model_begins_the_step(void **state)
{
	struct fixture *f = *state;
	uint32_t forward = write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		 reference = stack(f, forward,
				   write_frame(&f->w, "no_grad.<locals>.decorate_context",
					       TORCH "utils/_contextlib.py", 1),
				   0);

	for (unsigned step = 0; step < 3; step++) {
		make(f, f->input, MIB);
		drop(f, reference, make(f, reference, 10 * MIB), 10 * MIB);
		micro_batch(f);
		make(f, f->optimizer, MIB);
	}
	assert_phases(run(f), "1forward 1evaluation 1forward 1backward 1optimizer "
			      "2forward 2evaluation 2forward 2backward 2optimizer "
			      "3forward 3evaluation 3forward 3backward 3optimizer");
}

/* The result of the forward pass is normalized, then another model is asked. */
static void between_forward_and_backward_no_evaluation_begins(void **state)
{
	struct fixture *f = *state;
	uint32_t forward = write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		 reference = stack(f, forward,
				   write_frame(&f->w, "no_grad.<locals>.decorate_context",
					       TORCH "utils/_contextlib.py", 1),
				   0);
	uint64_t a = make(f, f->model, 10 * MIB);

	make(f, f->input, MIB);
	drop(f, reference, make(f, reference, 10 * MIB), 10 * MIB);
	drop_in_backward(f, a, 10 * MIB);
	assert_phases(run(f), "1forward 1evaluation 1backward");
}

/* One line calls a model whose result it detaches, then the model that it trains. */
static void a_line_before_a_backward_pass_trains(void **state)
{
	struct fixture *f = *state;
	struct part other = part(f, 10);
	const struct device *d;

	for (unsigned step = 0; step < 2; step++) {
		uint64_t kept[20], a;

		drop_in_backward(f, make(f, other.model, 10 * MIB), 10 * MIB);
		for (unsigned i = 0; i < 20; i++)
			kept[i] = make(f, f->model, MIB);
		for (unsigned i = 0; i < 20; i++)
			drop(f, f->input, kept[i], MIB);
		a = make(f, f->model, MIB);
		drop_in_backward(f, a, MIB);
		make(f, f->optimizer, MIB);
	}
	d = run(f);
	for (size_t i = 0; i < d->spans.count; i++)
		assert_int_not_equal(d->spans.list[i].phase, PHASE_EVALUATION);
}

static void a_function_may_have_any_name(void **state)
{
	struct fixture *f = *state;
	uint32_t main = write_frame(&f->w, "train_with_zero_grad_first", "/job/train.py", 1),
		 model = stack(
			 f,
			 write_frame(&f->w, "Module._call_impl", TORCH "nn/modules/module.py", 1),
			 main, 0);

	make(f, stack(f, main, 0, 0), MIB);
	drop_in_backward(f, make(f, model, 10 * MIB), 10 * MIB);
	assert_phases(run(f), "1forward 1backward");
}

/* An inner loop calls the model with weights that it makes of gradients: its backward passes end no
 * step, also before the first step of the optimizer. */
static void an_inner_loop_ends_no_step(void **state)
{
	struct fixture *f = *state;
	uint32_t inner = stack(
		f, write_frame(&f->w, "Net.forward", "/job/net.py", 2),
		write_frame(&f->w, "functional_call", TORCH "_functorch/functional_call.py", 148),
		write_frame(&f->w, "adapt", "/job/maml.py", 10));

	for (unsigned i = 0; i < 3; i++) {
		drop_in_backward(f, make(f, inner, 10 * MIB), 10 * MIB);
		make(f, f->input, 4 * MIB);
	}
	assert_int_equal(run(f)->now.step, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(optimizers_take_turns),
		CASE(turns_in_place_are_counted),
		CASE(turns_without_an_optimizer_that_always_shows_are_one_step),
		CASE(long_runs_are_no_turns),
		CASE(two_backward_passes_of_one_forward_pass),
		CASE(closures_of_any_name),
		CASE(closures_that_are_named_so),
		CASE(inputs_come_before_zero_grad),
		CASE(temporaries_after_the_step_are_of_it),
		CASE(a_reference_model_begins_the_step),
		CASE(between_forward_and_backward_no_evaluation_begins),
		CASE(a_line_before_a_backward_pass_trains),
		CASE(a_function_may_have_any_name),
		CASE(an_inner_loop_ends_no_step),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
