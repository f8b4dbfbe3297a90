/* What the source of a job says of the calls of its models. */
#include "source_job.h"

#include "source/generated.h"
#include "source/optimizer_states.h"
#include "source/settings.h"
#include "source/summed.h"
#include "source/unoptimized.h"
#include "source/unrolled.h"

#define DISTILLATION                                         \
	"student = Student().cuda()\n"                       \
	"teacher = Teacher().cuda()\n"                       \
	"optimizer = AdamW(student.parameters(), lr=1e-4)\n" \
	"for batch in loader:\n"                             \
	"    soft = teacher(batch)  # TEACHER\n"             \
	"    hard = student(batch)  # STUDENT\n"             \
	"    kl(hard, soft).backward()\n"

static void a_teacher_beside_the_student_is_unoptimized(void **state)
{
	struct job j;
	uint32_t teacher, student;

	begin(&j, *state, DISTILLATION);
	teacher = call(&j, "# TEACHER");
	student = call(&j, "# STUDENT");
	assert_true(job_source_is_unoptimized(source(&j), teacher));
	assert_false(job_source_is_unoptimized(&j.source, student));
	job_source_end(&j.source);
}

/* A loss takes the model's result: it is no part of a model. */
static void what_uses_the_result_is_no_other_part(void **state)
{
	struct job j;
	uint32_t loss;

	begin(&j, *state,
	      "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
	      "for x, y in loader:\n"
	      "    out = net(x)\n"
	      "    scaled = out * 2\n"
	      "    loss = criterion(scaled, y)  # LOSS\n");
	loss = call(&j, "# LOSS");
	assert_false(job_source_is_unoptimized(source(&j), loss));
	job_source_end(&j.source);
}

/* The backbone is trained, too, at a rate of its own; or the model that no optimizer has comes
 * behind what is trained, and must keep its graph; or it keeps none. */
static void what_is_trained_another_way_is_not_told(void **state)
{
	static const char *const texts[] = {
		"slow = list(body.parameters())\n"
		"opt = AdamW([{'params': head.parameters()}, {'params': slow, 'lr': 1e-5}])\n"
		"z = body(x)  # CALL\ny = head(x)\n",
		"opt = AdamW(list(head.parameters()) + [prompt])\nz = body(x)  # CALL\ny = head(x)\n",
		"opt = AdamW([*head.parameters(), *trainables(body)])\nz = body(x)  # CALL\ny = head(x)\n",
		"a = OPTIMIZERS[args.opt](body.parameters())\nb = Adam(head.parameters())\n"
		"z = body(x)  # CALL\ny = head(x)\n",
		"opt = Adam(head.parameters())\n"
		"for m in (body, neck):\n    opt.add_param_group({'params': m.parameters()})\n"
		"z = body(x)  # CALL\ny = head(x)\n",
		"opt = Adam(head.parameters())\nimage = head(x)\nembeds[:, :64].copy_(image)\n"
		"z = body(embeds)  # CALL\n",
		"opt = Adam(head.parameters())\nbatch.update(inputs_embeds=head(x))\n"
		"z = body(**batch)  # CALL\n",
		"opt = Adam(head.parameters())\nwith torch.no_grad():\n    z = body(x)  # CALL\ny = head(x)\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct job j;
		uint32_t made;

		begin(&j, *state, texts[i]);
		made = call(&j, "# CALL");
		if (job_source_is_unoptimized(source(&j), made))
			fail_msg("%s", texts[i]);
		job_source_end(&j.source);
	}
}

/* A wrapper has another name than the model in it. */
static void what_wraps_a_trained_part_is_trained(void **state)
{
	static const char *const wraps[] = {
		"ddp = DistributedDataParallel(net, device_ids=[0])",
		"ddp = torch.compile(net)",
		"ddp, opt, loader = accelerator.prepare(net, opt, loader)",
		"opt, ddp = fabric.setup(opt, net)",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wraps); i++) {
		char text[512];
		struct job j;
		uint32_t made;

		snprintf(text, sizeof(text),
			 "opt = Adam(net.parameters())\n%s\n"
			 "out = ddp(x)  # CALL\nnet.regularize()\nopt.step()\n",
			 wraps[i]);
		begin(&j, *state, text);
		made = call(&j, "# CALL");
		assert_false(job_source_is_unoptimized(source(&j), made));
		job_source_end(&j.source);
	}
}

/* What the optimizer gets is not understood: nothing is said. */
static void an_optimizer_of_unknown_parameters_tells_nothing(void **state)
{
	static const char *const arguments[] = {
		"Adam(self.parameters())",
		"Adam(make_groups(student))",
		"Adam([p for n, p in net.named_parameters() if test(n)])",
		"build_optimizer(teacher, cfg)",
		"Adam(student.head.parameters())", /* and all of the student before */
	};

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		char text[512];
		struct job j;
		uint32_t teacher;

		snprintf(text, sizeof(text), "%ssecond = %s\n", DISTILLATION, arguments[i]);
		begin(&j, *state, text);
		teacher = call(&j, "# TEACHER");
		if (job_source_is_unoptimized(source(&j), teacher))
			fail_msg("%s", arguments[i]);
		job_source_end(&j.source);
	}
}

#define ENCODER(condition)                                \
	"class Probe(nn.Module):\n"                       \
	"    def __init__(self):\n"                       \
	"        self.encoder = make()\n"                 \
	"        self.head = nn.Linear(8, 2)\n"           \
	"    def forward(self, x):\n"                     \
	"        features = self.encoder(x)  # ENCODER\n" \
	"        return self.head(features)  # HEAD\n"    \
	"model = Probe()\n"                               \
	"optimizer = Adam([p for n, p in model.named_parameters() if " condition "], lr=1e-3)\n"

static void names_of_parameters_tell_what_is_trained(void **state)
{
	static const struct {
		const char *text;
		int expected; /* is the encoder left out? */
	} cases[] = {
		{ ENCODER("not n.startswith('encoder.')"), 1 },
		{ ENCODER("'encoder' not in n"), 1 },
		{ ENCODER("\"head\" in n"), 1 },
		{ ENCODER("n.startswith('head')"), 1 },
		{ ENCODER("'encoder' in n"), 0 },
		{ ENCODER("'bias' not in n"), 0 },                /* no part of that name */
		{ ENCODER("'a' in n or 'head' in n"), 0 },        /* not understood */
		{ ENCODER("any(k in n for k in ('head',))"), 0 }, /* not understood */
		{ ENCODER("'encoder' not in n") "o = Adam([p for n, p in model.named_parameters() if "
						"'encoder' in n])\n",
		  0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct job j;
		uint32_t encoder, head;

		begin(&j, *state, cases[i].text);
		encoder = call(&j, "# ENCODER");
		head = call(&j, "# HEAD");
		assert_int_equal(job_source_is_unoptimized(source(&j), encoder), cases[i].expected);
		assert_false(strstr(cases[i].text, "'encoder' in n") == NULL &&
			     job_source_is_unoptimized(&j.source, head));
		job_source_end(&j.source);
	}
}

/* `python train.py --fp64 --no-mask`. */
/* What a program could write to keep a report waiting, or to end it: each takes a moment. */
static void hostile_files_take_a_moment(void **state)
{
	static const struct {
		const char *head, *repeated, *tail;
	} cases[] = {
		{ "if ", "x or ", "x:\n    o = Adam(p)\n" },
		{ "if ", "(", "x: y(); Adam(p)\n" },
		{ "", "to ", "\n" },
		{ "class (\n", "A(\n", "" },
		{ "Adam(p)\n", "p, ", "= x\n" },
		{ "Adam(p)\n", "p = p\n", "" },
		{ "", "for x in y:\n ", "z\n" },
		{ "o = Adam(n.parameters())\n", "n(x)\n", "" },
		{ "", "{[(", "" },
		{ "", "x.parameters()\n", "" },
		{ "", "f(a.named_parameters())\n", "" },
	};
	const size_t most = 500 << 10;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *text = xcalloc(most + 64, 1);
		struct job j;
		uint32_t made;
		size_t n = strlen(strcpy(text, cases[i].head));

		while (n + strlen(cases[i].repeated) < most) {
			strcpy(text + n, cases[i].repeated);
			n += strlen(cases[i].repeated);
		}
		strcpy(text + n, cases[i].tail);
		begin(&j, *state, text);
		made = stack(&j, frame(&j, cases[i].repeated, "step", 0), 0);
		job_source_is_unoptimized(source(&j), made);
		job_source_is_summed(&j.source, made);
		job_source_is_unrolled(&j.source, made);
		job_source_is_generated(&j.source, made);
		job_source_is_float64(&j.source);
		job_source_states(&j.source);
		job_source_end(&j.source);
		free(text);
	}
}

/* Without a file, or with one that was changed since, no question has an answer. */
static void a_file_that_was_changed_says_nothing(void **state)
{
	for (int is_there = 0; is_there < 2; is_there++) {
		struct job j;
		uint32_t teacher;

		begin(&j, *state, DISTILLATION);
		teacher = call(&j, "# TEACHER");
		if (is_there)
			assert_int_equal(utimensat(AT_FDCWD, j.path, NULL, 0), 0);
		else
			assert_int_equal(unlink(j.path), 0);
		assert_false(job_source_is_unoptimized(source(&j), teacher));
		assert_false(job_source_is_summed(&j.source, teacher));
		assert_false(job_source_is_unrolled(&j.source, teacher));
		assert_false(job_source_is_generated(&j.source, teacher));
		assert_false(job_source_is_float64(&j.source));
		assert_int_equal(job_source_states(&j.source), -1);
		assert_false(job_source_infers(&j.source));
		job_source_end(&j.source);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_DIRECTORY(a_teacher_beside_the_student_is_unoptimized),
		IN_DIRECTORY(what_uses_the_result_is_no_other_part),
		IN_DIRECTORY(what_is_trained_another_way_is_not_told),
		IN_DIRECTORY(what_wraps_a_trained_part_is_trained),
		IN_DIRECTORY(an_optimizer_of_unknown_parameters_tells_nothing),
		IN_DIRECTORY(names_of_parameters_tell_what_is_trained),
		IN_DIRECTORY(hostile_files_take_a_moment),
		IN_DIRECTORY(a_file_that_was_changed_says_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
