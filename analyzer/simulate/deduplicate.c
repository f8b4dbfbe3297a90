#include "simulate/deduplicate.h"

#include "readers/command_line.h"
#include "config/rank_layout.h"

static int read_layout(char *const *command, int world, struct rank_layout *l, struct err *e)
{
	struct config c;
	int count = 0, status;
	int64_t stages = 1;

	while (command[count])
		count++;
	config_init(&c);
	status = config_read_command(&c, count, (char **)command, NULL, 0, e);
	if (!status && config_has(&c, CONFIG_pipeline_model_parallel_size))
		stages = c.pipeline_model_parallel_size;
	if (!status && (stages < 1 || stages > world || world % stages))
		status = err_set(
			e,
			"--deduplicate: %d ranks are no whole number of pipelines of %lld stages",
			world, (long long)stages);
	/* A command that declares no layout is one stage of equal ranks. */
	if (!status && !rank_layout_read(l, &c, world)) {
		*l = (struct rank_layout){ .expert_tensor = 1 };
		for (int a = 0; a < AXES; a++)
			l->size[a] = 1;
		l->size[AXIS_DP] = world / stages;
		l->size[AXIS_PP] = stages;
	}
	config_release(&c);
	return status;
}

/* The part of a coordinate: 0 the first, 1 between, 2 the last of `size`. */
static int part_of(int64_t at, int64_t size)
{
	return at == 0 ? 0 : at == size - 1 ? 2 : 1;
}

/* The first and the last coordinate of a part. */
static void places_of(int part, int64_t size, int *first, int *last)
{
	*first = part == 0 ? 0 : part == 1 ? 1 : (int)size - 1;
	*last = part == 0 ? 0 : part == 1 ? (int)size - 2 : (int)size - 1;
}

static void add_rank(struct rank_class *row, int rank, const int *at)
{
	row->first = row->count ? row->first : rank;
	row->last = rank;
	row->count++;
	if (row->rank < 0 && at[AXIS_PP] == row->stage_first &&
	    (row->expert_first < 0 || at[AXIS_EP] == row->expert_first))
		row->rank = rank;
}

int deduplicate_ranks(char *const *command, int world, int uneven, struct rank_classes *s,
		      struct err *e)
{
	struct rank_class rows[CLASS_PARTS][CLASS_PARTS] = { 0 };
	struct rank_layout l = { 0 };

	*s = (struct rank_classes){ 0 };
	if (read_layout(command, world, &l, e) < 0)
		return -1;
	uneven = uneven && l.size[AXIS_EP] > 1;
	for (int i = 0; i < CLASS_PARTS; i++)
		for (int j = 0; j < CLASS_PARTS; j++) {
			struct rank_class *row = &rows[i][j];

			*row = (struct rank_class){ .rank = -1,
						    .expert_first = -1,
						    .expert_last = -1 };
			places_of(i, l.size[AXIS_PP], &row->stage_first, &row->stage_last);
			if (uneven)
				places_of(j, l.size[AXIS_EP], &row->expert_first,
					  &row->expert_last);
		}
	for (int rank = 0; rank < world; rank++) {
		struct rank_coordinates c = rank_coordinates(&l, rank);

		add_rank(&rows[part_of(c.at[AXIS_PP], l.size[AXIS_PP])]
			      [uneven ? part_of(c.at[AXIS_EP], l.size[AXIS_EP]) : 0],
			 rank, c.at);
	}
	for (int i = 0; i < CLASS_PARTS; i++)
		for (int j = 0; j < CLASS_PARTS; j++)
			if (rows[i][j].count)
				s->rows[s->count++] = rows[i][j];
	return 0;
}
