#define _GNU_SOURCE
#include "sim/store.h"

#include "buf.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUCKETS = 4096, UNIQUE_ID = 128 };
#define LARGEST (UINT64_C(1) << 30) /* of a key, a value or a count: what is more is no client of ours */

struct store_entry {
	struct store_entry *next;
	char *key;
	struct buf value;
	int is_played; /* by us, for a rank that does not run */
};

struct store_client {
	struct store_client *next;
	int socket, is_known;
	int first_command; /* the number of SET: 1; 0 where connections are not validated (2.0) */
	struct buf in;
};

/* The numbers of the protocol since connections begin with VALIDATE; before, each is one less. */
enum command {
	VALIDATE,
	SET,
	COMPARE_SET,
	GET,
	ADD,
	CHECK,
	WAIT,
	GETNUMKEYS,
	DELETE_KEY,
	APPEND,
	MULTI_GET,
	MULTI_SET,
	CANCEL_WAIT,
	PING,
	QUEUE_PUSH,
	QUEUE_POP,
	QUEUE_LEN,
};
enum { READY = 0, NOT_READY = 1, STOP_WAITING = 0, WAIT_CANCELED = 1 };

/* ---- keys */

static struct store_entry **place(struct store *s, const char *key)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const char *k = key; *k; k++)
		hash = (hash ^ (unsigned char)*k) * 0x100000001b3;
	struct store_entry **e = &s->buckets[hash % BUCKETS];
	while (*e && strcmp((*e)->key, key))
		e = &(*e)->next;
	return e;
}

static struct store_entry *find(struct store *s, const char *key)
{
	return *place(s, key);
}

static struct store_entry *make(struct store *s, const char *key)
{
	struct store_entry **e = place(s, key);

	if (!*e) {
		*e = xcalloc(1, sizeof(**e));
		(*e)->key = xstrdup(key);
		s->keys++;
	}
	return *e;
}

static void set(struct store_entry *e, const void *value, size_t length)
{
	e->value.length = 0;
	buf_add(&e->value, value, length);
}

static int64_t drop(struct store *s, const char *key)
{
	struct store_entry **e = place(s, key), *old = *e;

	if (!old)
		return 0;
	*e = old->next;
	buf_release(&old->value);
	free(old->key);
	free(old);
	s->keys--;
	return 1;
}

static int64_t add(struct store *s, const char *key, int64_t amount)
{
	struct store_entry *e = make(s, key);
	char text[32];
	int64_t value = e->value.length ? strtoll(e->value.text, NULL, 10) : 0;

	/* A barrier of old, polled: somebody who asks without adding waits for the others, who come
	 * one by one. */
	if (!amount && value > 0 && value % s->world)
		amount = 1;
	if (__builtin_add_overflow(value, amount, &value))
		value = INT64_MAX;
	set(e, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)value));
	return value;
}

/* ---- what absent ranks would have said */

/* Are these the same but for one number? */
static int are_twins(const char *a, const char *b)
{
	int numbers = 0;

	while (*a || *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			size_t m = strspn(a, "0123456789"), n = strspn(b, "0123456789");

			numbers += m != n || memcmp(a, b, m);
			a += m;
			b += n;
		} else if (*a++ != *b++) {
			return 0;
		}
	}
	return numbers == 1;
}

static const struct store_entry *twin(const struct store *s, const char *key)
{
	for (size_t i = 0; i < BUCKETS; i++)
		for (const struct store_entry *e = s->buckets[i]; e; e = e->next)
			if (!e->is_played && are_twins(e->key, key))
				return e;
	return NULL;
}

/*
 * A key that nobody has set and somebody needs. If this rank has set the same key under another
 * number, an absent rank said the same under its own; else it is a communicator's id, which is only
 * compared.
 */
static struct store_entry *play(struct store *s, const char *key)
{
	const struct store_entry *same = twin(s, key);
	struct store_entry *e = make(s, key);
	char id[UNIQUE_ID];

	e->is_played = 1;
	s->played++;
	free(s->last_key);
	s->last_key = xstrdup(key);
	if (same) {
		set(e, same->value.text, same->value.length);
		return e;
	}
	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		memset(id, (int)(s->played & 0xff), sizeof(id));
	set(e, id, sizeof(id));
	return e;
}

static struct store_entry *get(struct store *s, const char *key)
{
	struct store_entry *e = find(s, key);

	return e ? e : play(s, key);
}

/* ---- the wire: whole commands only; what is short is tried again when more has come */

struct reader {
	const char *at;
	size_t left;
	int is_short, is_wrong;
};

static const void *take(struct reader *r, uint64_t length)
{
	const char *at = r->at;

	if (length > LARGEST)
		r->is_wrong = 1;
	if (r->is_wrong || r->is_short || r->left < length) {
		r->is_short = 1;
		return NULL;
	}
	r->at += length;
	r->left -= length;
	return at;
}

static uint64_t take_number(struct reader *r, size_t width)
{
	const void *at = take(r, width);
	uint64_t value = 0;

	if (at)
		memcpy(&value, at, width);
	return value;
}

static struct str take_text(struct reader *r)
{
	uint64_t length = take_number(r, 8);
	const char *at = take(r, length);

	return (struct str){ at ? at : "", at ? length : 0 };
}

/* Keys are used as C strings: one with a zero in it ends there. */
static char *take_key(struct reader *r)
{
	struct str key = take_text(r);
	char *copy = xcalloc(1, key.length + 1);

	memcpy(copy, key.at, key.length);
	return copy;
}

static void put_number(struct buf *out, uint64_t value, size_t width)
{
	buf_add(out, &value, width);
}

static void put_value(struct buf *out, const struct buf *value)
{
	put_number(out, value->length, 8);
	buf_add(out, value->text, value->length);
}

static void compare_set(struct store *s, const char *key, struct str expected, struct str wanted,
			struct buf *out)
{
	struct store_entry *e = find(s, key);

	if (!e && expected.length) {
		put_number(out, expected.length, 8);
		buf_add(out, expected.at, expected.length);
		return;
	}
	if (!e || (e->value.length == expected.length &&
		   !memcmp(e->value.text, expected.at, expected.length)))
		set(e = make(s, key), wanted.at, wanted.length);
	put_value(out, &e->value);
}

/* CHECK, WAIT, MULTI_GET and MULTI_SET: a count, then keys. */
static void many(struct store *s, enum command command, struct reader *r, struct buf *out)
{
	uint64_t count = take_number(r, 8);
	int missing = 0;

	if (count > LARGEST)
		r->is_wrong = 1;
	for (uint64_t i = 0; i < count && !r->is_short && !r->is_wrong; i++) {
		char *key = take_key(r);
		struct str value = { "", 0 };

		if (command == MULTI_SET)
			value = take_text(r);
		if (!r->is_short && command == MULTI_SET)
			set(make(s, key), value.at, value.length);
		else if (!r->is_short && command == MULTI_GET)
			put_value(out, &get(s, key)->value);
		else if (!r->is_short && command == WAIT)
			get(s, key);
		else if (!r->is_short)
			missing += !find(s, key);
		free(key);
	}
	if (command == CHECK)
		put_number(out, missing ? NOT_READY : READY, 1);
	if (command == WAIT)
		put_number(out, STOP_WAITING, 1);
}

static void one(struct store *s, enum command command, struct reader *r, struct buf *out)
{
	char *key = take_key(r);
	struct str first = { "", 0 }, second = first;
	uint64_t amount = 0;

	if (command == SET || command == APPEND || command == COMPARE_SET || command == QUEUE_PUSH)
		first = take_text(r);
	if (command == COMPARE_SET)
		second = take_text(r);
	if (command == ADD)
		amount = take_number(r, 8);
	if (r->is_short) {
		free(key);
		return;
	}
	if (command == SET)
		set(make(s, key), first.at, first.length);
	else if (command == APPEND || command == QUEUE_PUSH)
		buf_add(&make(s, key)->value, first.at, first.length);
	else if (command == COMPARE_SET)
		compare_set(s, key, first, second, out);
	else if (command == GET)
		put_value(out, &get(s, key)->value);
	else if (command == ADD)
		put_number(out, (uint64_t)add(s, key, (int64_t)amount), 8);
	else if (command == DELETE_KEY)
		put_number(out, (uint64_t)drop(s, key), 8);
	else /* queues: nobody else puts anything in */
		put_number(out, 0, 8);
	free(key);
}

static void run(struct store *s, struct store_client *c, struct reader *r, struct buf *out)
{
	unsigned command = (unsigned)take_number(r, 1);

	if (!c->is_known && !r->is_short) {
		c->is_known = 1;
		c->first_command = command == VALIDATE;
	}
	switch (command + (c->first_command ? 0 : 1)) {
	case VALIDATE:
		take_number(r, 4);
		break;
	case PING:
		put_number(out, take_number(r, 4), 4);
		break;
	case CANCEL_WAIT:
		put_number(out, WAIT_CANCELED, 1);
		break;
	case GETNUMKEYS:
		put_number(out, s->keys, 8);
		break;
	case CHECK:
	case WAIT:
	case MULTI_GET:
	case MULTI_SET:
		many(s, command + (c->first_command ? 0 : 1), r, out);
		break;
	default:
		if (command > QUEUE_LEN)
			r->is_wrong = 1;
		else
			one(s, command + (c->first_command ? 0 : 1), r, out);
	}
}

/* ---- connections */

static int send_all(int socket, const struct buf *out)
{
	for (size_t at = 0; at < out->length;) {
		ssize_t n = send(socket, out->text + at, out->length - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		at += (size_t)n;
	}
	return 0;
}

/* 0, or -1 when the client is to be let go. */
static int answer(struct store *s, struct store_client *c)
{
	struct buf out = { 0 };
	size_t done = 0;
	int status = 0;

	while (done < c->in.length && !status) {
		struct reader r = { .at = c->in.text + done, .left = c->in.length - done };
		size_t before = out.length;

		run(s, c, &r, &out);
		if (r.is_wrong)
			status = -1;
		if (r.is_short) {
			out.length = before;
			break;
		}
		done = c->in.length - r.left;
	}
	if (!status && send_all(c->socket, &out) < 0)
		status = -1;
	if (done) {
		memmove(c->in.text, c->in.text + done, c->in.length - done);
		c->in.length -= done;
	}
	buf_release(&out);
	return status;
}

static void let_go(struct store *s, struct store_client *c)
{
	struct store_client **at = &s->clients;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	close(c->socket);
	buf_release(&c->in);
	free(c);
}

static void receive(struct store *s, struct store_client *c)
{
	char block[65536];
	ssize_t n = recv(c->socket, block, sizeof(block), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		buf_add(&c->in, block, (size_t)n);
	if (n <= 0 || answer(s, c) < 0)
		let_go(s, c);
}

static void greet(struct store *s)
{
	struct store_client *c;
	struct epoll_event event = { .events = EPOLLIN };
	int socket = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);

	if (socket < 0)
		return;
	c = xcalloc(1, sizeof(*c));
	c->socket = socket;
	c->next = s->clients;
	s->clients = c;
	event.data.ptr = c;
	if (epoll_ctl(s->poll, EPOLL_CTL_ADD, socket, &event) < 0)
		let_go(s, c);
}

void store_serve(struct store *s)
{
	struct epoll_event event;

	/* One at a time: an answer can let go the client of another event. */
	while (epoll_wait(s->poll, &event, 1, 0) == 1) {
		if (event.data.ptr)
			receive(s, event.data.ptr);
		else
			greet(s);
	}
}

int store_open(struct store *s, int rank, int world, struct err *e)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	struct epoll_event event = { .events = EPOLLIN };

	*s = (struct store){ .rank = rank, .world = world };
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	s->poll = epoll_create1(EPOLL_CLOEXEC);
	if (s->listener < 0 || s->poll < 0 ||
	    bind(s->listener, (struct sockaddr *)&address, length) < 0 ||
	    listen(s->listener, 64) < 0 ||
	    getsockname(s->listener, (struct sockaddr *)&address, &length) < 0 ||
	    epoll_ctl(s->poll, EPOLL_CTL_ADD, s->listener, &event) < 0)
		return err_set(e, "cannot listen on 127.0.0.1: %s", strerror(errno));
	s->port = ntohs(address.sin_port);
	s->buckets = xcalloc(BUCKETS, sizeof(struct store_entry *));
	return 0;
}

void store_close(struct store *s)
{
	while (s->clients)
		let_go(s, s->clients);
	for (size_t i = 0; s->buckets && i < BUCKETS; i++)
		while (s->buckets[i])
			drop(s, s->buckets[i]->key);
	free(s->buckets);
	free(s->last_key);
	if (s->listener > 0)
		close(s->listener);
	if (s->poll > 0)
		close(s->poll);
	*s = (struct store){ 0 };
}
