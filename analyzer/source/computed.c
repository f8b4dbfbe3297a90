#include "source/computed.h"

#include "attribution/frames.h"

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
	const struct stack *of = tables_stack(s->tables, stack);

	for (uint32_t i = 0; i < of->frame_count; i++) {
		const struct mt_frame *frame = tables_frame(s->tables, of->frames[i]);
		const struct python_file *f;
		struct str statement;

		if (frame_is(s->tables, of->frames[i], FRAME_LIBRARY))
			continue;
		f = job_source_is_own(tables_string(s->tables, frame->file))
			    ? job_source_file(s, frame)
			    : NULL;
		if (!f)
			return 0;
		statement = python_text(f, python_statement(f, frame->line));
		return !python_has_any(statement, moves, ARRAY_SIZE(moves));
	}
	return 0;
}
