#include "import/unpickle.h"

#include <stdlib.h>
#include <string.h>

struct pickle_reader {
	struct pickle_data *p;
	const unsigned char *data;
	size_t size, at;
	struct err *e;
};

/* Many events of a hostile file may share one large dictionary. */
#define MAX_KEYS 64

/* In a snapshot an event or a block is two containers in 30 bytes or more. A hostile file has a
 * container in each byte, which takes 64 bytes of memory. A small file may have
 * FREE_CONTAINERS in any case. */
#define BYTES_A_CONTAINER 8
#define FREE_CONTAINERS 65536

static const struct items no_items;

static int refuse(struct pickle_reader *r, size_t at, const char *why)
{
	return err_set(r->e, "not a memory snapshot: %s at byte %zu", why, at);
}

static struct items *new_items(struct pickle_reader *r)
{
	struct items *items = xcalloc(1, sizeof(*items));

	items->next = r->p->all;
	r->p->all = items;
	r->p->container_count++;
	return items;
}

/* Most containers get all of their items at once. */
static void add_items(struct items *to, const struct pickled *v, size_t count)
{
	if (!to->at && count) {
		to->at = xcalloc(count, sizeof(*to->at));
		to->room = count;
	}
	while (to->room - to->count < count)
		to->at = grow(to->at, to->room, &to->room, sizeof(*to->at));
	if (count)
		memcpy(to->at + to->count, v, count * sizeof(*v));
	to->count += count;
}

/* The stack has no memory before its first value. */
static void add_from_stack(struct items *to, const struct pickle_data *p, size_t from)
{
	if (p->stack_count > from)
		add_items(to, p->stack + from, p->stack_count - from);
}

static void push(struct pickle_reader *r, struct pickled v)
{
	struct pickle_data *p = r->p;

	p->stack = grow(p->stack, p->stack_count, &p->stack_room, sizeof(*p->stack));
	p->stack[p->stack_count++] = v;
}

static void push_integer(struct pickle_reader *r, int64_t value)
{
	push(r, (struct pickled){ .type = VALUE_INTEGER, .integer = value });
}

static void push_items(struct pickle_reader *r, enum value_type type)
{
	push(r, (struct pickled){ .type = type, .items = new_items(r) });
}

/* A little-endian number of n bytes; -1 at the end of the file. */
static int number(struct pickle_reader *r, size_t n, uint64_t *value)
{
	*value = 0;
	if (r->size - r->at < n)
		return refuse(r, r->at, "the file ends");
	for (size_t i = 0; i < n && i < 8; i++)
		*value |= (uint64_t)r->data[r->at + i] << 8 * i;
	r->at += n;
	return 0;
}

/* The text behind a length of n bytes. */
static int text(struct pickle_reader *r, size_t n)
{
	uint64_t length;

	if (number(r, n, &length) < 0)
		return -1;
	if (length > r->size - r->at || length > UINT32_MAX)
		return refuse(r, r->at, "a text beyond the end");
	push(r, (struct pickled){ .type = VALUE_TEXT,
				  .length = (uint32_t)length,
				  .text = (const char *)r->data + r->at });
	r->at += length;
	return 0;
}

/* LONG1: two's complement of any length; only 64 bits have a meaning here. */
static int long_number(struct pickle_reader *r)
{
	uint64_t length, value;
	size_t begin = r->at;

	if (number(r, 1, &length) < 0)
		return -1;
	if (length > 9 || (length == 9 && (r->size - r->at < 9 || r->data[r->at + 8])))
		return refuse(r, begin, "an integer of more than 64 bits");
	if (number(r, length, &value) < 0)
		return -1;
	if (length && length < 8 && value >> (8 * length - 1))
		value |= ~0ull << 8 * length;
	push_integer(r, (int64_t)value);
	return 0;
}

static int real(struct pickle_reader *r)
{
	struct pickled v = { .type = VALUE_REAL };
	uint64_t bits;

	if (number(r, 8, &bits) < 0)
		return -1;
	bits = __builtin_bswap64(bits);
	memcpy(&v.real, &bits, sizeof(v.real));
	push(r, v);
	return 0;
}

static int put_memo(struct pickle_reader *r, uint64_t index)
{
	struct pickle_data *p = r->p;

	if (!p->stack_count)
		return refuse(r, r->at, "an empty stack");
	if (index > p->memo_count) /* writers number without gaps */
		return refuse(r, r->at, "a memo number out of order");
	if (index == p->memo_count) {
		p->memo = grow(p->memo, p->memo_count, &p->memo_room, sizeof(*p->memo));
		p->memo_count++;
	}
	p->memo[index] = p->stack[p->stack_count - 1];
	return 0;
}

static int get_memo(struct pickle_reader *r, size_t n)
{
	uint64_t index;

	if (number(r, n, &index) < 0)
		return -1;
	if (index >= r->p->memo_count)
		return refuse(r, r->at, "an unknown memo number");
	push(r, r->p->memo[index]);
	return 0;
}

/* The place of the last mark on the stack; SIZE_MAX: there is none. */
static size_t last_mark(const struct pickle_data *p)
{
	for (size_t i = p->stack_count; i-- > 0;)
		if (p->stack[i].type == VALUE_MARK)
			return i;
	return SIZE_MAX;
}

/* Adds the values from `from` on to the container before `base`, and takes all from `base` on off
 * the stack. */
static int add_values(struct pickle_reader *r, size_t from, size_t base, enum value_type type)
{
	struct pickle_data *p = r->p;
	struct pickled *to = base && base <= p->stack_count ? &p->stack[base - 1] : NULL;

	if (!to || to->type != type || (type == VALUE_DICT && (p->stack_count - from) % 2))
		return refuse(r, r->at, "items without their container");
	for (size_t i = from; i < p->stack_count; i++)
		if (p->stack[i].type == VALUE_MARK)
			return refuse(r, r->at, "a mark among items");
	add_from_stack(to->items, p, from);
	p->stack_count = base;
	return 0;
}

static int add_from_mark(struct pickle_reader *r, enum value_type type)
{
	size_t mark = last_mark(r->p);

	if (mark == SIZE_MAX)
		return refuse(r, r->at, "no mark");
	return add_values(r, mark + 1, mark, type);
}

/* A tuple of the last `count` values; of those behind the mark if it is SIZE_MAX. */
static int tuple(struct pickle_reader *r, size_t count)
{
	struct pickle_data *p = r->p;
	size_t mark = count == SIZE_MAX ? last_mark(p) : 0, from;
	struct items *items;

	if (mark == SIZE_MAX || (count != SIZE_MAX && p->stack_count < count))
		return refuse(r, r->at, "a tuple without its items");
	from = count == SIZE_MAX ? mark + 1 : p->stack_count - count;
	items = new_items(r);
	add_from_stack(items, p, from);
	p->stack_count = count == SIZE_MAX ? mark : from;
	push(r, (struct pickled){ .type = VALUE_LIST, .items = items });
	return 0;
}

static int skip(struct pickle_reader *r, size_t n)
{
	uint64_t ignored;

	return number(r, n, &ignored);
}

static int refuse_opcode(struct pickle_reader *r, unsigned char code)
{
	static const struct {
		unsigned char code;
		const char *name;
	} names[] = {
		{ 'c', "GLOBAL" },     { 0x93, "STACK_GLOBAL" }, { 'R', "REDUCE" },
		{ 'b', "BUILD" },      { 'i', "INST" },          { 'o', "OBJ" },
		{ 0x81, "NEWOBJ" },    { 0x92, "NEWOBJ_EX" },    { 'P', "PERSID" },
		{ 'Q', "BINPERSID" },  { 0x82, "EXT1" },         { 0x83, "EXT2" },
		{ 0x84, "EXT4" },      { 'B', "BINBYTES" },      { 'C', "SHORT_BINBYTES" },
		{ 0x8e, "BINBYTES8" }, { 0x96, "BYTEARRAY8" },   { 0x97, "NEXT_BUFFER" },
		{ 0x8f, "EMPTY_SET" }, { 0x90, "ADDITEMS" },     { 0x91, "FROZENSET" },
		{ 0x8b, "LONG4" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].code == code)
			return err_set(
				r->e,
				"not a memory snapshot: the pickle has the opcode %s at byte %zu, which "
				"is not read",
				names[i].name, r->at - 1);
	return err_set(r->e, "not a memory snapshot: opcode 0x%02x at byte %zu", code, r->at - 1);
}

static int run_numbers(struct pickle_reader *r, unsigned char code)
{
	uint64_t n;

	switch (code) {
	case 'K': /* BININT1 */
	case 'M': /* BININT2 */
		if (number(r, code == 'K' ? 1 : 2, &n) < 0)
			return -1;
		push_integer(r, (int64_t)n);
		return 0;
	case 'J': /* BININT */
		if (number(r, 4, &n) < 0)
			return -1;
		push_integer(r, (int32_t)(uint32_t)n);
		return 0;
	case 0x8a:
		return long_number(r);
	case 'G': /* BINFLOAT */
		return real(r);
	case 'N':
		push(r, (struct pickled){ .type = VALUE_NONE });
		return 0;
	case 0x88: /* NEWTRUE */
	case 0x89: /* NEWFALSE */
		push(r, (struct pickled){ .type = VALUE_BOOLEAN, .integer = code == 0x88 });
		return 0;
	default:
		return refuse_opcode(r, code);
	}
}

static int run_memo(struct pickle_reader *r, unsigned char code)
{
	uint64_t n;

	switch (code) {
	case 0x94: /* MEMOIZE */
		return put_memo(r, r->p->memo_count);
	case 'q': /* BINPUT */
	case 'r': /* LONG_BINPUT */
		return number(r, code == 'q' ? 1 : 4, &n) < 0 ? -1 : put_memo(r, n);
	case 'h': /* BINGET */
	case 'j': /* LONG_BINGET */
		return get_memo(r, code == 'h' ? 1 : 4);
	default:
		return run_numbers(r, code);
	}
}

static int run_containers(struct pickle_reader *r, unsigned char code)
{
	size_t count = r->p->stack_count;

	switch (code) {
	case '(':
		push(r, (struct pickled){ .type = VALUE_MARK });
		return 0;
	case '}':
	case ']':
		push_items(r, code == '}' ? VALUE_DICT : VALUE_LIST);
		return 0;
	case 'u': /* SETITEMS */
	case 'e': /* APPENDS */
		return add_from_mark(r, code == 'u' ? VALUE_DICT : VALUE_LIST);
	case 's': /* SETITEM */
		return count < 3 ? refuse(r, r->at, "an empty stack")
				 : add_values(r, count - 2, count - 2, VALUE_DICT);
	case 'a': /* APPEND */
		return count < 2 ? refuse(r, r->at, "an empty stack")
				 : add_values(r, count - 1, count - 1, VALUE_LIST);
	case ')': /* EMPTY_TUPLE */
		return tuple(r, 0);
	case 0x85: /* TUPLE1 to TUPLE3 */
	case 0x86:
	case 0x87:
		return tuple(r, code - 0x84u);
	case 't':
		return tuple(r, SIZE_MAX);
	default:
		return run_memo(r, code);
	}
}

static int run(struct pickle_reader *r, unsigned char code)
{
	switch (code) {
	case 0x80: /* PROTO */
		return skip(r, 1);
	case 0x95: /* FRAME */
		return skip(r, 8);
	case 0x8c: /* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8 */
		return text(r, 1);
	case 'X':
		return text(r, 4);
	case 0x8d:
		return text(r, 8);
	case '0': /* POP */
	case '2': /* DUP: neither is in a snapshot */
		return refuse_opcode(r, code);
	default:
		return run_containers(r, code);
	}
}

int unpickle(struct pickle_data *to, const void *data, size_t size, struct err *e)
{
	struct pickle_reader r = { .p = to, .data = data, .size = size, .e = e };
	size_t most = FREE_CONTAINERS + size / BYTES_A_CONTAINER;

	*to = (struct pickle_data){ 0 };
	while (r.at < r.size) {
		unsigned char code = r.data[r.at++];

		if (code == '.') { /* STOP */
			if (to->stack_count != 1 || to->stack[0].type == VALUE_MARK)
				return refuse(&r, r.at, "no single value");
			to->root = to->stack[0];
			return 0;
		}
		if (run(&r, code) < 0)
			return -1;
		if (to->container_count > most)
			return refuse(&r, r.at, "too many containers for its size");
	}
	return refuse(&r, r.at, "the file ends");
}

void pickle_data_release(struct pickle_data *p)
{
	for (struct items *i = p->all, *next; i; i = next) {
		next = i->next;
		free(i->at);
		free(i);
	}
	free(p->stack);
	free(p->memo);
	*p = (struct pickle_data){ 0 };
}

int value_is(struct pickled v, const char *with)
{
	return v.type == VALUE_TEXT && v.length == strlen(with) && !memcmp(v.text, with, v.length);
}

struct pickled dict_get(struct pickled dict, const char *key)
{
	size_t length = strlen(key);

	if (dict.type == VALUE_DICT)
		for (size_t i = 0; i + 1 < dict.items->count && i < 2 * MAX_KEYS; i += 2) {
			const struct pickled *k = &dict.items->at[i];

			if (k->type == VALUE_TEXT && k->length == length &&
			    !memcmp(k->text, key, length))
				return k[1];
		}
	return (struct pickled){ .type = VALUE_NONE };
}

const struct items *list_items(struct pickled list)
{
	return list.type == VALUE_LIST ? list.items : &no_items;
}

int64_t value_size(struct pickled v, int64_t otherwise)
{
	return v.type == VALUE_INTEGER && v.integer >= 0 ? v.integer : otherwise;
}
