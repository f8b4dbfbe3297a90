#define _GNU_SOURCE
#include "simulate/store.h"

#include "simulate/store_keys.h"
#include "simulate/store_protocol.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TIME_LIMIT = 300 };

struct store_client {
	struct store_client *next;
	int socket, is_known;
	int first_command; /* the number of SET: 1; 0 if connections are not validated (2.0) */
	struct buf in;
	size_t port;
	/* The key that its command, still in `in`, waits for: a rank that runs may set it. */
	char *wanted;
	uint64_t asked,
		turn; /* keys of the command; the client that waits longest has the lowest turn */
	double since;
};

/* The numbers of the protocol since connections begin with VALIDATE. */
enum store_command {
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

/* Without VALIDATE each number is one less. PyTorch 2.0 has one command more before DELETE_KEY,
 * which thus has the number of 2.1's APPEND; 2.0 does not call that one. */
static unsigned meaning(const struct store_client *c, unsigned number)
{
	return c->first_command || number == DELETE_KEY ? number : number + 1;
}

/* The value that was set or is emulated; empty, with r->wanted set, while the client must wait.
 * `asked`: keys of the command. */
static const struct buf *get(struct store *s, const char *key, uint64_t asked,
			     struct wire_reader *r)
{
	static const struct buf nothing;
	struct store_entry *e = store_find(s, key);

	if (!e && (s->ranks == 1 || together_setter(key, asked) == SETTER_ABSENT))
		e = store_emulate(s, key);
	if (e)
		return &e->value;
	if (!r->wanted)
		r->wanted = xstrdup(key);
	r->asked = asked;
	return &nothing;
}

static void compare_set(struct store *s, const char *key, struct str expected, struct str wanted,
			struct buf *out)
{
	struct store_entry *e = store_find(s, key);

	if (!e && expected.length) {
		wire_put_number(out, expected.length, 8);
		buf_add(out, expected.at, expected.length);
		return;
	}
	if (!e || (e->value.length == expected.length &&
		   !memcmp(e->value.text, expected.at, expected.length)))
		e = store_set(s, key, wanted.at, wanted.length);
	wire_put_value(out, &e->value);
}

/* Runs CHECK, WAIT, MULTI_GET or MULTI_SET: a count, then keys. */
static void many(struct store *s, enum store_command command, struct wire_reader *r,
		 struct buf *out)
{
	uint64_t count = wire_number(r, 8);
	int missing = 0;

	if (count > LARGEST)
		r->is_wrong = 1;
	for (uint64_t i = 0; i < count && !r->is_short && !r->is_wrong; i++) {
		char *key = wire_key(r);
		struct str value = { "", 0 };

		if (command == MULTI_SET)
			value = wire_text(r);
		if (!r->is_short && command == MULTI_SET)
			store_set(s, key, value.at, value.length);
		else if (!r->is_short && command == MULTI_GET)
			wire_put_value(out, get(s, key, count, r));
		else if (!r->is_short && command == WAIT)
			get(s, key, count, r);
		else if (!r->is_short)
			missing += !store_find(s, key);
		free(key);
	}
	if (command == CHECK)
		wire_put_number(out, missing ? NOT_READY : READY, 1);
	if (command == WAIT)
		wire_put_number(out, STOP_WAITING, 1);
}

static void one(struct store *s, enum store_command command, struct wire_reader *r, struct buf *out)
{
	char *key = wire_key(r);
	struct str first = { "", 0 }, second = first;
	uint64_t amount = 0;

	if (command == SET || command == APPEND || command == COMPARE_SET || command == QUEUE_PUSH)
		first = wire_text(r);
	if (command == COMPARE_SET)
		second = wire_text(r);
	if (command == ADD)
		amount = wire_number(r, 8);
	if (r->is_short) {
		free(key);
		return;
	}
	if (command == SET)
		store_set(s, key, first.at, first.length);
	else if (command == APPEND || command == QUEUE_PUSH)
		buf_add(&store_make(s, key)->value, first.at, first.length);
	else if (command == COMPARE_SET)
		compare_set(s, key, first, second, out);
	else if (command == GET)
		wire_put_value(out, get(s, key, 1, r));
	else if (command == ADD)
		wire_put_number(out, (uint64_t)store_add(s, key, (int64_t)amount), 8);
	else if (command == DELETE_KEY)
		wire_put_number(out, (uint64_t)store_drop(s, key), 8);
	else /* queues: no other rank pushes anything */
		wire_put_number(out, 0, 8);
	free(key);
}

static void run(struct store *s, struct store_client *c, struct wire_reader *r, struct buf *out)
{
	unsigned number = (unsigned)wire_number(r, 1), command;

	if (!c->is_known && !r->is_short) {
		c->is_known = 1;
		c->first_command = number == VALIDATE;
	}
	command = meaning(c, number);
	switch (command) {
	case VALIDATE:
		wire_number(r, 4);
		break;
	case PING:
		wire_put_number(out, wire_number(r, 4), 4);
		break;
	case CANCEL_WAIT:
		wire_put_number(out, WAIT_CANCELED, 1);
		break;
	case GETNUMKEYS:
		wire_put_number(out, store_count(s), 8);
		break;
	case CHECK:
	case WAIT:
	case MULTI_GET:
	case MULTI_SET:
		many(s, command, r, out);
		break;
	default:
		if (command > QUEUE_LEN)
			r->is_wrong = 1;
		else
			one(s, command, r, out);
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

/* The client's command waits for a key; *done skips it when the client has called it off. */
static void wait_for(struct store *s, struct store_client *c, struct wire_reader *r,
		     struct buf *out, size_t *done)
{
	if (r->left && meaning(c, (unsigned char)*r->at) == CANCEL_WAIT) {
		wire_put_number(out, WAIT_CANCELED, 1);
		*done = c->in.length - r->left + 1;
		free(r->wanted);
		return;
	}
	if (c->since == 0) {
		c->since = monotonic_seconds();
		c->turn = ++s->waits;
	}
	c->wanted = r->wanted;
	c->asked = r->asked;
}

/* Runs the commands that have arrived. Returns -1 if the client is to be dropped. */
static int answer(struct store *s, struct store_client *c)
{
	struct buf out = { 0 };
	size_t done = 0;
	int status = 0;

	free(c->wanted);
	c->wanted = NULL;
	while (done < c->in.length && !status && !c->wanted) {
		struct wire_reader r = { .at = c->in.text + done, .left = c->in.length - done };
		size_t before = out.length;

		run(s, c, &r, &out);
		if (r.is_wrong)
			status = -1;
		if (r.is_short || r.wanted)
			out.length = before;
		if (r.is_short || r.is_wrong) {
			free(r.wanted);
			break;
		}
		if (r.wanted)
			wait_for(s, c, &r, &out, &done);
		else
			done = c->in.length - r.left;
	}
	if (!c->wanted)
		c->since = 0;
	if (!status && send_all(c->socket, &out) < 0)
		status = -1;
	if (done) {
		memmove(c->in.text, c->in.text + done, c->in.length - done);
		c->in.length -= done;
	}
	buf_release(&out);
	return status;
}

static void drop_client(struct store *s, struct store_client *c)
{
	struct store_client **at = &s->clients;

	while (*at && *at != c)
		at = &(*at)->next;
	if (*at)
		*at = c->next;
	/* a rank that has just been forked has the socket still open: closing is not enough */
	epoll_ctl(s->poll, EPOLL_CTL_DEL, c->socket, NULL);
	close(c->socket);
	buf_release(&c->in);
	free(c->wanted);
	free(c);
}

/* Answers the clients whose key is set now. */
static void answer_waiting(struct store *s)
{
	struct store_client *c = s->clients;

	while (c) {
		if (c->wanted && store_find(s, c->wanted)) {
			if (answer(s, c) < 0)
				drop_client(s, c);
			c = s->clients; /* its commands may have set a key for another client */
		} else {
			c = c->next;
		}
	}
}

static void receive(struct store *s, struct store_client *c)
{
	char block[65536];
	ssize_t n = recv(c->socket, block, sizeof(block), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	s->board.is_settling = 0;
	if (n > 0)
		buf_add(&c->in, block, (size_t)n);
	if (n <= 0 || answer(s, c) < 0)
		drop_client(s, c);
	answer_waiting(s);
}

static void accept_client(struct store *s, const struct store_port *port)
{
	struct store_client *c;
	struct epoll_event event = { .events = EPOLLIN };
	int socket = accept4(port->socket, NULL, NULL, SOCK_CLOEXEC);

	if (socket < 0)
		return;
	c = xcalloc(1, sizeof(*c));
	c->socket = socket;
	c->port = (size_t)(port - s->ports);
	c->next = s->clients;
	s->clients = c;
	event.data.ptr = c;
	if (epoll_ctl(s->poll, EPOLL_CTL_ADD, socket, &event) < 0)
		drop_client(s, c);
}

void store_serve(struct store *s)
{
	struct epoll_event event;

	/* One event at a time: an answer can drop the client of another event. */
	while (epoll_wait(s->poll, &event, 1, 0) == 1) {
		const struct store_port *port = NULL;

		for (size_t i = 0; i < s->ranks; i++)
			if (event.data.ptr == &s->ports[i])
				port = &s->ports[i];
		if (port)
			accept_client(s, port);
		else
			receive(s, event.data.ptr);
	}
}

/* ---- several ranks that wait */

const char *store_wanted(const struct store *s, size_t port)
{
	for (const struct store_client *c = s->clients; c; c = c->next)
		if (c->port == port && c->wanted)
			return c->wanted;
	return NULL;
}

/* Ends a wait that takes too long, as the simulated device does: the rank's connection is closed.
 */
static void check_time_limit(struct store *s)
{
	struct store_client *c = s->clients;
	double time = monotonic_seconds();

	while (c && (!c->wanted || time - c->since < s->time_limit))
		c = c->next;
	if (!c)
		return;
	notice(s->messages,
	       "rank %d: time limit (CUDASIM_TIMEOUT) reached; it waits for the store's key %s, which a rank that runs has to "
	       "set and has not",
	       s->ports[c->port].rank, c->wanted);
	drop_client(s, c);
}

void store_settle(struct store *s)
{
	const struct store_client *first = NULL;
	int waits[TOGETHER_RANKS] = { 0 };

	if (s->ranks == 1)
		return;
	for (size_t i = 0; i < s->ranks; i++)
		waits[i] = s->ports[i].has_ended;
	for (const struct store_client *c = s->clients; c; c = c->next) {
		if (!c->wanted)
			continue;
		waits[c->port] = 1;
		if (together_setter(c->wanted, c->asked) == SETTER_UNKNOWN &&
		    (!first || c->turn < first->turn))
			first = c;
	}
	if (first && board_is_quiet(&s->board, waits, s->ranks)) {
		s->board.is_settling = 0;
		store_emulate(s, first->wanted);
		answer_waiting(s);
	}
	check_time_limit(s);
}

/* ---- opening and closing */

static int open_port(struct store *s, struct store_port *port, struct err *e)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = port };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	port->socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (port->socket < 0 || bind(port->socket, (struct sockaddr *)&address, length) < 0 ||
	    listen(port->socket, 64) < 0 ||
	    getsockname(port->socket, (struct sockaddr *)&address, &length) < 0 ||
	    epoll_ctl(s->poll, EPOLL_CTL_ADD, port->socket, &event) < 0)
		return err_set(e, "cannot listen on 127.0.0.1: %s", strerror(errno));
	port->number = ntohs(address.sin_port);
	return 0;
}

int store_open(struct store *s, const int *ranks, size_t count, int world,
	       const struct messages *messages, struct err *e)
{
	const char *limit = getenv("CUDASIM_TIMEOUT");

	*s = (struct store){ .world = world,
			     .poll = epoll_create1(EPOLL_CLOEXEC),
			     .messages = messages };
	s->time_limit = limit ? (int)strtol(limit, NULL, 10) : 0;
	if (s->time_limit <= 0)
		s->time_limit = TIME_LIMIT;
	if (s->poll < 0)
		return err_set(e, "cannot wait for connections: %s", strerror(errno));
	if (count > 1 && board_open(&s->board, messages, e) < 0)
		return -1;
	for (; s->ranks < count; s->ranks++) {
		s->ports[s->ranks].rank = ranks[s->ranks];
		if (open_port(s, &s->ports[s->ranks], e) < 0)
			return -1;
	}
	return 0;
}

void store_close(struct store *s)
{
	while (s->clients)
		drop_client(s, s->clients);
	store_drop_all(s);
	free(s->last_key);
	for (size_t i = 0; i < s->ranks; i++)
		close(s->ports[i].socket);
	board_close(&s->board);
	if (s->poll > 0)
		close(s->poll);
	*s = (struct store){ 0 };
}
