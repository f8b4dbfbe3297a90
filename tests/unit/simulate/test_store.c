/* The played store of ranks that run together: what one of them may set is waited for, what only an
 * absent rank can is played, and nothing is guessed while one of them still runs. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "util/buf.h"
#include "simulate/store.h"

enum { VALIDATE = 0, SET = 1, GET = 3, ADD = 4, WAIT = 6, CANCEL_WAIT = 12 };
enum { STOP_WAITING = 0, WAIT_CANCELED = 1, WORLD = 8 };
#define MIXED "/default_pg/memtrace:8:1.4/0//cuda//"
#define PAIR "/default_pg/memtrace:8:1.4/0//memtrace:2:0.1/3//cuda//"
#define APART "/default_pg/memtrace:8:1.4/0//memtrace:4:2/3//cuda//"

static const int ranks[] = { 1, 4 };

struct job {
	struct store store;
	int client[2];
};

static void open_job(struct job *j)
{
	struct err e = { 0 };

	assert_int_equal(store_open(&j->store, ranks, 2, WORLD, NULL, &e), 0);
	for (int i = 0; i < 2; i++) {
		struct sockaddr_in to = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)j->store.ports[i].number) };
		uint32_t magic = 0x3C85F7CE;
		unsigned char hello = VALIDATE;

		to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		j->client[i] = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(connect(j->client[i], (struct sockaddr *)&to, sizeof(to)), 0);
		setsockopt(j->client[i], IPPROTO_TCP, TCP_NODELAY, &(int){ 1 }, sizeof(int));
		assert_int_equal(send(j->client[i], &hello, 1, 0), 1);
		assert_int_equal(send(j->client[i], &magic, 4, 0), 4);
	}
}

static void close_job(struct job *j)
{
	close(j->client[0]);
	close(j->client[1]);
	store_close(&j->store);
}

static void put_text(struct buf *b, const char *text, uint64_t length)
{
	buf_add(b, &length, 8);
	buf_add(b, text, length);
}

static void say(struct job *j, int client, unsigned char command, const char *key,
		const char *value, int64_t number)
{
	struct buf b = { 0 };

	buf_add(&b, &command, 1);
	if (command == WAIT)
		buf_add(&b, &(uint64_t){ 1 }, 8);
	if (key)
		put_text(&b, key, strlen(key));
	if (command == SET)
		put_text(&b, value, (uint64_t)number);
	if (command == ADD)
		buf_add(&b, &number, 8);
	assert_int_equal(send(j->client[client], b.text, b.length, 0), (ssize_t)b.length);
	buf_release(&b);
	for (int i = 0; i < 3; i++) {
		poll(&(struct pollfd){ j->store.poll, POLLIN, 0 }, 1, 20);
		store_serve(&j->store);
	}
}

/* What has been answered; -1: nothing. */
static ssize_t answer(struct job *j, int client, void *into, size_t size)
{
	return recv(j->client[client], into, size, MSG_DONTWAIT);
}

static int answered(struct job *j, int client, int expected)
{
	unsigned char byte = 99;

	return answer(j, client, &byte, 1) == 1 && byte == expected;
}

static void settle(struct job *j)
{
	for (int i = 0; i < 3; i++)
		store_settle(&j->store);
}

static void keys_say_who_sets_them(void **state)
{
	(void)state;
	/* Rank 0 of the group makes the id: it is absent of the world, runs of the pair; 0 of the
	 * third group is absent. */
	assert_int_equal(together_setter(MIXED "0", 1), SETTER_ABSENT);
	assert_int_equal(together_setter(MIXED "0/nccl_storekey_0", 1), SETTER_ABSENT);
	assert_int_equal(together_setter("x/memtrace:8:0.4/0//cuda//7", 1), SETTER_RUNS);
	assert_int_equal(together_setter(PAIR "0", 1), SETTER_RUNS);
	assert_int_equal(together_setter(PAIR "anything", 1), SETTER_RUNS);
	assert_int_equal(together_setter(APART "0", 1), SETTER_ABSENT);
	/* Two ranks that send to one another: the lower makes it. */
	assert_int_equal(together_setter(MIXED "1:4", 1), SETTER_RUNS);
	assert_int_equal(together_setter(MIXED "0:4", 1), SETTER_ABSENT);
	/* 512 ranks and four ids: every 128th makes one; 300 and 3: every hundredth. */
	assert_int_equal(together_setter("memtrace:512:0.384/UniqueNCCLID:3", 4), SETTER_RUNS);
	assert_int_equal(together_setter("memtrace:512:0.384/UniqueNCCLID:1", 4), SETTER_ABSENT);
	assert_int_equal(together_setter("memtrace:300:100.7/UniqueNCCLID:1", 3), SETTER_RUNS);
	assert_int_equal(together_setter(MIXED "ready", 1), SETTER_UNKNOWN);
	assert_int_equal(together_setter("job/key", 1), SETTER_UNKNOWN);
	for (const char **bad =
		     (const char *[]){ "memtrace:", "memtrace:8", "memtrace:8:", "memtrace:8:x/0",
				       "memtrace:8:1.", "memtrace:8:1", NULL };
	     *bad; bad++)
		assert_int_equal(together_setter(*bad, 1), SETTER_UNKNOWN);
}

static void ids_tell_the_device_who_runs(void **state)
{
	struct job j;
	char id[128], got[8 + 128], other[8 + 128];
	const struct together_group *row;
	(void)state;
	open_job(&j);
	row = j.store.board.shared->group;
	/* Its maker runs: the other waits until it is there. */
	memset(id, 7, sizeof(id));
	say(&j, 1, WAIT, PAIR "0", NULL, 0);
	settle(&j);
	assert_false(answered(&j, 1, STOP_WAITING));
	say(&j, 0, SET, PAIR "0", id, sizeof(id));
	assert_true(answered(&j, 1, STOP_WAITING));
	assert_int_equal(atomic_load(&j.store.board.shared->groups), 1);
	assert_true(row->id == together_hash(id, sizeof(id)));
	assert_int_equal(row->count, 2);
	assert_int_equal(row->rank[0], 0);
	assert_int_equal(row->rank[1], 1);
	/* Its maker is absent: both get the same, at once. */
	say(&j, 0, GET, MIXED "0", NULL, 0);
	say(&j, 1, GET, MIXED "0", NULL, 0);
	assert_int_equal(answer(&j, 0, got, sizeof(got)), sizeof(got));
	assert_int_equal(answer(&j, 1, other, sizeof(other)), sizeof(other));
	assert_memory_equal(got, other, sizeof(got));
	assert_true(row[1].id == together_hash(got + 8, 128));
	assert_int_equal(row[1].rank[0], 1);
	assert_int_equal(row[1].rank[1], 4);
	/* Another group's is another's, though the keys are alike but for a number. */
	say(&j, 0, GET, MIXED "1", NULL, 0);
	assert_int_equal(answer(&j, 0, other, sizeof(other)), sizeof(other));
	assert_memory_not_equal(got + 8, other + 8, 128);
	/* Of ranks 4 and 6, which send to one another, the first runs. */
	say(&j, 1, SET, MIXED "4:6", id, sizeof(id));
	assert_int_equal(row[3].count, 1);
	assert_int_equal(row[3].rank[0], 0);
	assert_int_equal(atomic_load(&j.store.board.shared->groups), 4);
	close_job(&j);
}

static void nothing_is_played_while_a_rank_runs(void **state)
{
	struct job j;
	struct together_rank *device;
	(void)state;
	open_job(&j);
	device = j.store.board.shared->rank;
	say(&j, 0, WAIT, "job/ready", NULL, 0);
	settle(&j);
	assert_false(answered(&j, 0, STOP_WAITING));
	/* The other waits in the device, but may have been woken: only one that has looked again
	 * still does. */
	atomic_store(&device[1].waits, 1);
	settle(&j);
	assert_false(answered(&j, 0, STOP_WAITING));
	atomic_store(&device[1].turns, 1000);
	settle(&j);
	assert_true(answered(&j, 0, STOP_WAITING));
	atomic_store(&device[1].waits, 0);
	/* Both wait here: the one that waits longer is helped first. */
	say(&j, 1, WAIT, "job/second", NULL, 0);
	say(&j, 0, WAIT, "job/third", NULL, 0);
	settle(&j);
	assert_string_equal(j.store.last_key, "job/second");
	assert_true(answered(&j, 1, STOP_WAITING));
	assert_false(answered(&j, 0, STOP_WAITING));
	assert_string_equal(store_wanted(&j.store, 0), "job/third");
	/* What the other sets is what the first gets. */
	say(&j, 1, SET, "job/third", "x", 1);
	assert_true(answered(&j, 0, STOP_WAITING));
	/* A wait that the client calls off. */
	say(&j, 0, WAIT, "job/fourth", NULL, 0);
	say(&j, 0, CANCEL_WAIT, NULL, NULL, 0);
	assert_true(answered(&j, 0, WAIT_CANCELED));
	assert_null(store_wanted(&j.store, 0));
	/* A rank that has ended waits for nobody. */
	j.store.ports[1].has_ended = 1;
	say(&j, 0, WAIT, "job/fifth", NULL, 0);
	settle(&j);
	assert_true(answered(&j, 0, STOP_WAITING));
	close_job(&j);
}

/* What the ranks map they can write: the store counts its rows by itself. */
static void the_board_is_not_believed(void **state)
{
	struct job j;
	struct together *board;
	char id[128];
	(void)state;
	open_job(&j);
	board = j.store.board.shared;
	memset(id, 5, sizeof(id));
	atomic_store(&board->groups, UINT32_MAX);
	board->group[0].count = TOGETHER_RANKS;
	say(&j, 0, SET, PAIR "0", id, sizeof(id));
	assert_int_equal(atomic_load(&board->groups), 1);
	assert_true(board->group[0].id == together_hash(id, sizeof(id)));
	assert_int_equal(board->group[0].count, 2);
	assert_int_equal(board->group[0].rank[1], 1);
	close_job(&j);
}

/* As long as an id, but what the injected code exchanges, or a job's own. */
static void other_values_take_no_row(void **state)
{
	struct job j;
	char value[128] = { 9 };
	(void)state;
	open_job(&j);
	say(&j, 0, SET, "memtrace:2:0.1/objects/1.4/3/1", value, sizeof(value));
	say(&j, 0, SET, "/default_pg/memtrace:8:1.4/0/step/7", value, sizeof(value));
	assert_int_equal(atomic_load(&j.store.board.shared->groups), 0);
	assert_int_equal(together_setter("/default_pg/memtrace:8:1.4/0/step/7", 1), SETTER_UNKNOWN);
	close_job(&j);
}

static int64_t added(struct job *j, int client, int64_t amount)
{
	int64_t value = -1;

	say(j, client, ADD, "barrier", NULL, amount);
	assert_int_equal(answer(j, client, &value, sizeof(value)), sizeof(value));
	return value;
}

/* PyTorch's: each adds one and asks; the six absent ones come when both are there. */
static void a_barrier_waits_for_those_that_run(void **state)
{
	struct job j;
	(void)state;
	open_job(&j);
	assert_int_equal(added(&j, 0, 1), 1);
	assert_int_equal(added(&j, 0, 0), 1);
	assert_int_equal(added(&j, 1, 1), 2);
	assert_int_equal(added(&j, 1, 0), WORLD);
	assert_int_equal(added(&j, 0, 0), WORLD);
	close_job(&j);
}

static void a_wait_for_one_that_runs_ends(void **state)
{
	struct job j;
	char byte;
	(void)state;
	setenv("CUDASIM_TIMEOUT", "1", 1);
	open_job(&j);
	say(&j, 0, WAIT, PAIR "0", NULL, 0);
	settle(&j);
	assert_int_equal(answer(&j, 0, &byte, 1), -1);
	usleep(1100000);
	settle(&j);
	assert_int_equal(answer(&j, 0, &byte, 1), 0); /* said, and hung up */
	close_job(&j);
	unsetenv("CUDASIM_TIMEOUT");
}

/* A rank that is being started still has what its parent had open. */
static void a_connection_may_end_while_a_rank_is_started(void **state)
{
	struct job j;
	(void)state;
	open_job(&j);
	say(&j, 0, ADD, APART "x", NULL, 1);
	pid_t rank = fork();
	if (!rank) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	assert_int_equal(shutdown(j.client[0], SHUT_RDWR), 0);
	say(&j, 1, ADD, APART "y", NULL, 1);
	assert_int_equal(kill(rank, SIGKILL), 0);
	assert_int_equal(waitpid(rank, NULL, 0), rank);
	assert_int_equal(added(&j, 1, 1), 1);
	close_job(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_say_who_sets_them),
		cmocka_unit_test(ids_tell_the_device_who_runs),
		cmocka_unit_test(nothing_is_played_while_a_rank_runs),
		cmocka_unit_test(the_board_is_not_believed),
		cmocka_unit_test(other_values_take_no_row),
		cmocka_unit_test(a_barrier_waits_for_those_that_run),
		cmocka_unit_test(a_wait_for_one_that_runs_ends),
		cmocka_unit_test(a_connection_may_end_while_a_rank_is_started),
	};
	return cmocka_run_group_tests_name("played store", tests, NULL, NULL);
}
