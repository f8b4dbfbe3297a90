/* Settings and single lines of a job, by its source. */
#include "source_job.h"

#include "source/computed.h"
#include "source/last_token.h"
#include "source/optimizer_states.h"
#include "source/settings.h"

static void settings_count_under_no_condition(void **state)
{
	static const struct {
		const char *text;
		int float64, recomputes;
	} cases[] = {
		{ "torch.set_default_dtype(torch.float64)\n", 1, 0 },
		{ "if args.exact:\n    torch.set_default_dtype(torch.float64)\n", 0, 0 },
		{ "# torch.set_default_dtype(torch.float64)\n", 0, 0 },
		{ "net = Net().cuda().double()\nopt = Adam(net.parameters())\n", 1, 0 },
		{ "net.to('cuda', torch.float64)\nopt = Adam(net.parameters())\n", 1, 0 },
		{ "net.to('cuda')\nx = x.double()\nopt = Adam(net.parameters())\n", 0, 0 },
		{ "net = net.double() if args.exact else net\nopt = Adam(net.parameters())\n", 0,
		  0 },
		{ "trainer = Trainer(precision='64-true')\n", 1, 0 },
		{ "p.add_argument('-p', choices=['32-true', '64-true'])\n", 0, 0 },
		{ "# precision='64-true'\n", 0, 0 },
		{ "model.gradient_checkpointing_enable()\n", 0, 1 },
		{ "vae.gradient_checkpointing_enable()\nopt = Adam(net.parameters())\n", 0, 0 },
		{ "a = TrainingArguments(gradient_checkpointing=True)\n", 0, 1 },
		{ "a = TrainingArguments(gradient_checkpointing=args.ckpt)\n", 0, 0 },
		{ "class Both(Module):\n    def gradient_checkpointing_enable(self, **how):\n"
		  "        self.text.gradient_checkpointing_enable(**how)\n",
		  0, 0 },
		{ "if FIXED:\n    pass\nelse:\n    model.gradient_checkpointing_enable()\n", 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;

		begin(&j, *state, cases[i].text);
		assert_int_equal(job_source_is_float64(source(&j)), cases[i].float64);
		assert_int_equal(job_source_recomputes(&j.source), cases[i].recomputes);
		job_source_end(&j.source);
	}
}

/* Of two classes in a file, one has a function on a stack. */
static void a_class_that_does_not_run_sets_nothing(void **state)
{
	struct job j;

	begin(&j, *state,
	      "class Exact:\n    def run(self):\n        torch.set_default_dtype(torch.float64)\n"
	      "        self.net()\n\nclass Other:\n    def run(self):\n        net()  # CALL\n");
	stack(&j, frame(&j, "# CALL", "run", 0), 0);
	assert_false(job_source_is_float64(source(&j)));
	job_source_end(&j.source);
	begin(&j, *state,
	      "class Exact:\n    def run(self):\n        torch.set_default_dtype(torch.float64)\n"
	      "        net()  # CALL\n\nclass Other:\n    pass\n");
	stack(&j, frame(&j, "# CALL", "run", 0), 0);
	assert_true(job_source_is_float64(source(&j)));
	job_source_end(&j.source);
}

static void the_command_line_decides_conditions(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "if '--fp64' in sys.argv:\n    torch.set_default_dtype(torch.float64)\n", 1 },
		{ "if '--fp64' not in sys.argv:\n    torch.set_default_dtype(torch.float64)\n", 0 },
		{ "if '--other' in sys.argv:\n    pass\nelse:\n    torch.set_default_dtype(torch.float64)\n",
		  1 },
		{ "torch.set_default_dtype(torch.float64 if '--fp64' in sys.argv else torch.float32)\n",
		  1 },
		{ "torch.set_default_dtype(torch.float32 if '--fp64' in sys.argv else torch.float64)\n",
		  0 },
		{ "EXACT = '--fp64' in sys.argv\nif EXACT: torch.set_default_dtype(torch.float64)\n",
		  1 },
		{ "EXACT = '--fp64' in sys.argv\nif not EXACT:\n    torch.set_default_dtype(torch.float64)\n",
		  0 },
		{ "EXACT = True\nEXACT = False\nif EXACT: torch.set_default_dtype(torch.float64)\n",
		  0 },
		{ "a = EXACT\nEXACT = a\nif EXACT: torch.set_default_dtype(torch.float64)\n", 0 },
		{ "p.add_argument('--no-mask', action='store_true')\nif args.no_mask:\n    torch.set_default_dtype(torch.float64)\n",
		  1 },
		{ "p.add_argument('--exact', action='store_true')\nif args.exact:\n    torch.set_default_dtype(torch.float64)\n",
		  0 },
		{ "p.add_argument('--exact', action='store_true')\nif not args.exact:\n    torch.set_default_dtype(torch.float64)\n",
		  1 },
	};
	static const char words[] = "python\0train.py\0--fp64\0--no-mask";
	struct meta argv = { { MT_META_ARGV, strlen(MT_META_ARGV) }, { words, sizeof(words) } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;

		begin(&j, *state, cases[i].text);
		j.tables.meta = &argv;
		j.tables.meta_count = 1;
		if (job_source_is_float64(source(&j)) != cases[i].expected)
			fail_msg("%s", cases[i].text);
		job_source_end(&j.source);
	}
}

static void a_line_that_moves_nothing_computes(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "sq = (a[:, None] - a).pow(2)  # CALL\n", 1 },
		{ "x = x.cuda()  # CALL\n", 0 },
		{ "x = x.to(  # CALL\n    where)\n", 0 },
		{ "x = torch.zeros(8, device=d)  # CALL\n", 0 },
		{ "x = torch.load(path)  # CALL\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t made;

		begin(&j, *state, cases[i].text);
		made = stack(&j, frame(&j, "# CALL", "step", 0), 0);
		assert_int_equal(job_source_computes(source(&j), made), cases[i].expected);
		job_source_end(&j.source);
	}
}

static void the_next_token_needs_the_last_position(void **state)
{
	static const struct {
		const char *text;
		int expected;
	} cases[] = {
		{ "out = model(ids)  # CALL\nscores = out.logits[:, -1, letters]\n", 1 },
		{ "scores = model(ids).logits[:,-1]  # CALL\n", 1 },
		{ "out = model(ids)  # CALL\nloss = ce(out.logits[:, :-1], ids[:, 1:])\nlast = out.logits[:, -1]\n",
		  0 },
		{ "out = model(ids)  # CALL\nloss = out.loss\n", 0 },
		{ "out = model(ids)  # CALL\ntail = out.logits[:, -128:]\n", 0 },
		{ "out = model(ids, labels=y[:, -1])  # CALL\n", 0 },
		{ "last = model(ids).logits[:, -1:]  # CALL\n", 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t made;

		begin(&j, *state, cases[i].text);
		made = call(&j, "# CALL");
		assert_int_equal(job_source_takes_last(source(&j), made), cases[i].expected);
		job_source_end(&j.source);
	}
}

/* The states of each parameter: -1 if the classes do not agree, or are not all known. */
static void classes_tell_the_states(void **state)
{
	static const struct {
		const char *text;
		int states, infers;
	} cases[] = {
		{ "from torch.optim import SGD\no = torch.optim.AdamW(p, lr=1e-4)\n", 2, 0 },
		{ "o = Adam(p, amsgrad=True)\n", 3, 0 },
		{ "o = SGD(p, lr=.1)\n", 0, 0 },
		{ "o = SGD(p, lr=.1, momentum=0.0)\n", 0, 0 },
		{ "o = SGD(p, lr=.1, momentum=.9)\n", 1, 0 },
		{ "o = SGD(p, **settings)\n", -1, 0 },
		{ "o = SGD(p, 0.1, 0.9)\n", -1, 0 },
		{ "o = SGD(p, lr=.1, momentum=args.momentum)\n", -1, 0 },
		{ "o = AdamW(p) if wide else SGD(p, lr=.1)\n", -1, 0 },
		{ "kind = {'a': Adam, 's': SGD}[name]\no = kind(p)\n", -1, 0 },
		{ "o = Adafactor(p)\n", -1, 0 },
		{ "o = Adam(a)\nd = AdamW(b)\n", 2, 0 },
		{ "loss.backward()\n", -1, 0 },
		{ "model.eval()\nscores = model(batch)\n", -1, 1 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;

		begin(&j, *state, cases[i].text);
		assert_int_equal(job_source_states(source(&j)), cases[i].states);
		assert_int_equal(job_source_infers(&j.source), cases[i].infers);
		job_source_end(&j.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(settings_count_under_no_condition),
		IN_DIRECTORY(a_class_that_does_not_run_sets_nothing),
		IN_DIRECTORY(the_command_line_decides_conditions),
		IN_DIRECTORY(a_line_that_moves_nothing_computes),
		IN_DIRECTORY(the_next_token_needs_the_last_position),
		IN_DIRECTORY(classes_tell_the_states),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
