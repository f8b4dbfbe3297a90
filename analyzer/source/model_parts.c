#include "source/model_parts.h"

#include "util/glob.h"

#include <string.h>

int model_parts_has(const struct model_parts *parts, struct str name, int is_attribute)
{
	for (size_t i = 0; i < parts->count; i++)
		if (parts->list[i].name.length == name.length &&
		    !memcmp(parts->list[i].name.at, name.at, name.length) &&
		    parts->list[i].is_attribute == is_attribute)
			return 1;
	return 0;
}

int model_parts_add(struct model_parts *parts, struct model_part part)
{
	if (model_parts_has(parts, part.name, part.is_attribute))
		return 1;
	if (parts->count == MODEL_PARTS)
		return 0;
	parts->list[parts->count++] = part;
	return 1;
}

/* Is it a method that calls no forward()? */
static int is_setting(struct str name)
{
	static const char *const patterns[] = { "parameters",
						"named_*",
						"train",
						"eval",
						"to",
						"cuda",
						"cpu",
						"half",
						"float",
						"double",
						"bfloat16",
						"zero_grad",
						"*state_dict",
						"requires_grad_",
						"apply",
						"modules",
						"children",
						"compile",
						"register_*",
						"gradient_checkpointing_*",
						"save_pretrained",
						NULL };

	return python_matches_any(name, patterns);
}

/* Is it a call, where the name of a part ends? */
static int is_call(struct str text, size_t at)
{
	size_t begin = at, end = at;

	while (at < text.length && text.at[at] == '.') {
		begin = at + 1;
		end = at = python_end_of_name(text, begin);
	}
	return at < text.length && text.at[at] == '(' &&
	       !(end > begin && is_setting(python_part(text, begin, end)));
}

size_t model_parts_find_call(const struct model_parts *parts, struct str text, size_t from)
{
	size_t first = text.length;

	for (size_t i = 0; i < parts->count; i++) {
		const struct model_part *p = &parts->list[i];

		for (size_t at = from;; at += p->name.length) {
			at = python_find_word(text, at, p->name);
			if (at >= first)
				break;
			if ((at && text.at[at - 1] == '.') == p->is_attribute &&
			    is_call(text, at + p->name.length)) {
				first = at;
				break;
			}
		}
	}
	return first;
}
