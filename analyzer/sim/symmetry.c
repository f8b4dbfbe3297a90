#include "sim/symmetry.h"

#include "config/config.h"

static int stages_of(char *const *command, int world, int *stages, struct err *e)
{
	struct config c;
	int count = 0, status;

	while (command[count])
		count++;
	config_init(&c);
	status = config_read_command(&c, count, (char **)command, NULL, 0, e);
	*stages = 1;
	if (!status && config_has(&c, CONFIG_pipeline_model_parallel_size))
		*stages = (int)c.pipeline_model_parallel_size;
	if (!status && (*stages < 1 || *stages > world || world % *stages))
		status = err_set(e, "--deduplicate: %d ranks are no whole number of pipelines of %d stages",
				 world, *stages);
	config_release(&c);
	return status;
}

static void add(struct symmetry *s, int world, int first, int last)
{
	int each = world / s->stages;

	s->rows[s->count++] = (struct symmetry_row){ .rank = first * each,
						     .first = first * each,
						     .last = (last + 1) * each - 1,
						     .stages_first = first,
						     .stages_last = last };
}

int symmetry_find(char *const *command, int world, struct symmetry *s, struct err *e)
{
	*s = (struct symmetry){ 0 };
	if (stages_of(command, world, &s->stages, e) < 0)
		return -1;
	add(s, world, 0, 0);
	if (s->stages > 2)
		add(s, world, 1, s->stages - 2);
	if (s->stages > 1)
		add(s, world, s->stages - 1, s->stages - 1);
	return 0;
}
