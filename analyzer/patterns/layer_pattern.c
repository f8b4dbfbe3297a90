/* A parser by recursive descent: sum, product, factor, list. */
#include "patterns/layer_pattern.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "util/util.h"

#define MAX_PATTERN_LAYERS 100000
#define DEPTH 32

struct pattern {
	const char *at;
	unsigned depth;
};

/* The value of an expression: a list of 0 and 1, or a number. */
struct value {
	int is_list;
	int64_t number;
	struct buf list; /* '0' or '1' for each layer */
};

static int sum(struct pattern *p, struct value *v);

static void space(struct pattern *p)
{
	p->at += strspn(p->at, " \t\n");
}

static int end_with(struct pattern *p, char bracket)
{
	if (*p->at != bracket)
		return -1;
	p->at++;
	return 0;
}

static int digits(struct pattern *p, int64_t *number)
{
	char *end;

	space(p);
	if (*p->at < '0' || *p->at > '9')
		return -1;
	*number = strtoll(p->at, &end, 10);
	p->at = end;
	return *number > MAX_PATTERN_LAYERS ? -1 : 0;
}

static int list(struct pattern *p, struct value *v)
{
	v->is_list = 1;
	p->at++;
	for (space(p); *p->at && *p->at != ']'; space(p)) {
		int64_t bit;

		if (digits(p, &bit) || bit > 1 || v->list.length >= MAX_PATTERN_LAYERS)
			return -1;
		buf_add(&v->list, bit ? "1" : "0", 1);
		space(p);
		if (*p->at == ',')
			p->at++;
		else if (*p->at != ']')
			return -1;
	}
	return end_with(p, ']');
}

static int factor(struct pattern *p, struct value *v)
{
	int status;

	space(p);
	if (*p->at == '[')
		return list(p, v);
	if (*p->at != '(')
		return digits(p, &v->number);
	if (++p->depth > DEPTH)
		return -1;
	p->at++;
	status = sum(p, v);
	p->depth--;
	space(p);
	return status || end_with(p, ')') ? -1 : 0;
}

static int multiply(struct value *v, struct value *by)
{
	int64_t times = v->is_list ? by->number : v->number;
	struct buf *once = v->is_list ? &v->list : &by->list, all = { 0 };

	if (v->is_list == by->is_list || (int64_t)once->length * times > MAX_PATTERN_LAYERS)
		return -1;
	for (int64_t i = 0; i < times; i++)
		buf_add(&all, once->text ? once->text : "", once->length);
	buf_release(&v->list);
	v->list = all;
	v->is_list = 1;
	return 0;
}

static int product(struct pattern *p, struct value *v)
{
	int status = factor(p, v);

	for (space(p); !status && *p->at == '*'; space(p)) {
		struct value by = { 0 };

		p->at++;
		status = factor(p, &by) || multiply(v, &by) ? -1 : 0;
		buf_release(&by.list);
	}
	return status;
}

static int sum(struct pattern *p, struct value *v)
{
	int status = product(p, v);

	for (space(p); !status && *p->at == '+'; space(p)) {
		struct value more = { 0 };

		p->at++;
		status = product(p, &more);
		if (!status && (!v->is_list || !more.is_list ||
				v->list.length + more.list.length > MAX_PATTERN_LAYERS))
			status = -1;
		if (!status && more.list.length)
			buf_add(&v->list, more.list.text, more.list.length);
		buf_release(&more.list);
	}
	return status;
}

char *layer_pattern(const char *text)
{
	struct pattern p = { text, 0 };
	struct value v = { 0 };
	struct buf out = { 0 };
	int status = sum(&p, &v);

	space(&p);
	if (status || *p.at || (!v.is_list && v.number < 1)) {
		buf_release(&v.list);
		return NULL;
	}
	if (!v.is_list) {
		buf_addf(&out, "%lld", (long long)v.number);
		return buf_take(&out);
	}
	buf_puts(&out, "[");
	for (size_t i = 0; i < v.list.length; i++)
		buf_addf(&out, "%s%c", i ? "," : "", v.list.text[i]);
	buf_puts(&out, "]");
	buf_release(&v.list);
	return buf_take(&out);
}
