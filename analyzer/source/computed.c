#include "source/computed.h"

#include "attribution/frames.h"

/* The statement of the job's own line on a stack, the innermost one; empty: it is not there. */
static struct str own_statement(struct job_source *s, uint32_t stack)
{
	const struct stack *of = tables_stack(s->tables, stack);

	for (uint32_t i = 0; i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_own_file(s, frame);
		return f ? python_text(f, python_statement(f, frame->line)) : (struct str){ 0 };
	}
	return (struct str){ 0 };
}

int job_source_computes(struct job_source *s, uint32_t stack)
{
	static const struct str moves[] = { WORD("cuda"),
					    WORD("to"),
					    WORD("device"),
					    WORD("load"),
					    WORD("load_state_dict"),
					    WORD("Parameter"),
					    WORD("register_buffer"),
					    WORD("prepare") };
	struct str statement = own_statement(s, stack);

	return statement.length && !python_has_any(statement, moves, ARRAY_SIZE(moves));
}

int job_source_masks(struct job_source *s, uint32_t stack)
{
	static const struct str triangles[] = { WORD("triu"), WORD("tril"), WORD("triu_"),
						WORD("tril_") };

	return python_has_any(own_statement(s, stack), triangles, ARRAY_SIZE(triangles));
}

int job_source_doubles(struct job_source *s, uint32_t stack)
{
	static const struct str types[] = { WORD("double"), WORD("float64") };

	return python_has_any(own_statement(s, stack), types, ARRAY_SIZE(types));
}
