#include "export/pickle.h"

#include <string.h>

static void code(struct pickle *p, unsigned char c)
{
	output_add(p->out, &c, 1);
}

static void little_endian(struct pickle *p, uint64_t value, size_t n)
{
	unsigned char b[8];

	for (size_t i = 0; i < n; i++)
		b[i] = (unsigned char)(value >> 8 * i);
	output_add(p->out, b, n);
}

void pickle_begin(struct pickle *p, struct output *out)
{
	*p = (struct pickle){ .out = out };
	output_add(out, "\x80\x04", 2); /* PROTO 4 */
}

void pickle_end(struct pickle *p)
{
	code(p, '.'); /* STOP */
}

void pickle_integer(struct pickle *p, int64_t value)
{
	if (value >= 0 && value < 1 << 8) {
		code(p, 'K'); /* BININT1 */
		little_endian(p, (uint64_t)value, 1);
	} else if (value >= 0 && value < 1 << 16) {
		code(p, 'M'); /* BININT2 */
		little_endian(p, (uint64_t)value, 2);
	} else if (value >= INT32_MIN && value <= INT32_MAX) {
		code(p, 'J'); /* BININT */
		little_endian(p, (uint64_t)value, 4);
	} else {
		output_add(p->out, "\x8a\x08", 2); /* LONG1 of eight bytes */
		little_endian(p, (uint64_t)value, 8);
	}
}

void pickle_real(struct pickle *p, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	code(p, 'G'); /* BINFLOAT: big-endian */
	little_endian(p, __builtin_bswap64(bits), 8);
}

void pickle_boolean(struct pickle *p, int value)
{
	code(p, value ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
}

void pickle_text(struct pickle *p, struct str text)
{
	int is_short = text.length < 256;

	code(p, is_short ? 0x8c : 'X'); /* SHORT_BINUNICODE, BINUNICODE */
	little_endian(p, text.length, is_short ? 1 : 4);
	output_add(p->out, text.at, text.length);
}

void pickle_word(struct pickle *p, const char *text)
{
	pickle_text(p, (struct str){ text, strlen(text) });
}

uint32_t pickle_remember(struct pickle *p)
{
	code(p, 0x94); /* MEMOIZE */
	return p->remembered++;
}

void pickle_again(struct pickle *p, uint32_t number)
{
	int is_short = number < 256;

	code(p, is_short ? 'h' : 'j'); /* BINGET, LONG_BINGET */
	little_endian(p, number, is_short ? 1 : 4);
}

void pickle_dict(struct pickle *p)
{
	code(p, '}'); /* EMPTY_DICT */
}

void pickle_list(struct pickle *p)
{
	code(p, ']'); /* EMPTY_LIST */
}

void pickle_group(struct pickle *p)
{
	code(p, '('); /* MARK */
}

void pickle_set_items(struct pickle *p)
{
	code(p, 'u'); /* SETITEMS */
}

void pickle_append_items(struct pickle *p)
{
	code(p, 'e'); /* APPENDS */
}

void pickle_pair(struct pickle *p)
{
	code(p, 0x86); /* TUPLE2 */
}
