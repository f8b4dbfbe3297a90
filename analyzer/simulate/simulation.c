#define _GNU_SOURCE
#include "simulate/simulation.h"

#include "util/buf.h"
#include "util/launch.h"
#include "simulate/signals.h"
#include "simulate/launcher.h"
#include "simulate/processes.h"
#include "simulate/rank_env.h"
#include "simulate/broadcasts.h"
#include "simulate/store.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPER "cudasim/python/accelerate_worker.py"
#define MEMORY_SHARE 0.8 /* of what is available, for ranks at the same time */

#define ABORT_TIME 5.0 /* seconds that a process has after SIGABRT to print its stacks */
#define GRACE                                                                                     \
	10.0 /* seconds until the other ranks get SIGTERM after one failed; SIGKILL after as many \
		again */

struct running {
	struct outcome *outcome;  /* NULL: free */
	struct outcome auxiliary; /* of a rank that runs only for the data that it broadcasts */
	pid_t pid;
	struct store *store; /* `own`, or the shared one of ranks that run together */
	struct store own;
	size_t port;
	double began, aborted;
};

enum { AUXILIARY = 16, SLOTS = TOGETHER_RANKS + AUXILIARY };

struct simulation_run {
	struct running all[SLOTS];
	struct store shared; /* of ranks that run together */
	struct outcome *outcomes;
	struct broadcasts broadcasts;
	unsigned char *has_begun; /* by rank */
	size_t next, done, active;
	long resident;
	double failed; /* when the first rank failed; 0: none */
};

static double now(void)
{
	return monotonic_seconds();
}

static char **worker_command(const struct simulation *s, const struct worker *w, int rank)
{
	char **argv = xcalloc(w->count + 2, sizeof(*argv));
	size_t n = 0;

	for (size_t i = 0; i <= w->count; i++) {
		if (w->local_rank && i == w->local_rank_at)
			argv[n++] = xasprintf("%s%d", w->local_rank, rank % s->gpus_a_node);
		argv[n++] = w->argv[i];
	}
	return argv;
}

static int start(const struct simulation *s, const struct worker *w, struct running *r,
		 struct err *e)
{
	int rank = r->outcome->rank;

	r->pid = 0;
	if (!r->store && !s->whole) {
		r->store = &r->own;
		if (store_open(&r->own, &rank, 1, s->world, s->messages, e) < 0)
			return -1;
	}
	r->began = now();
	r->aborted = 0;
	fflush(NULL);
	r->pid = fork();
	if (r->pid < 0)
		return err_set(e, "cannot start rank %d: %s", rank, strerror(errno));
	if (r->pid)
		return 0;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	setenv("MEMTRACE_DIR", s->directory, 1);
	setenv("MEMTRACE_QUIET", "1", 0);
	if (s->output_to_stderr && dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		_exit(LAUNCH_FAILED);
	if (r->outcome == &r->auxiliary) {
		setenv("MEMTRACE_DISABLE", "1", 1);
		if (freopen("/dev/null", "w", stdout) == NULL)
			_exit(127);
	}
	if (s->whole && s->timeout)
		setenv("PYTHONFAULTHANDLER", "1", 0);
	if (s->whole)
		_exit(launch_exec((char **)s->command));
	rank_env_set(s, w, rank, r->store, r->port);
	_exit(launch_exec(worker_command(s, w, rank)));
}

/* Has the process ended? Then its status is in the outcome, and *resident is at least its largest
 * resident size. */
static int collect(struct running *r, long *resident)
{
	struct rusage usage;
	int status;

	if (wait4(r->pid, &status, WNOHANG, &usage) != r->pid)
		return 0;
	r->pid = 0;
	r->outcome->seconds = now() - r->began;
	r->outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (r->store == &r->own) {
		r->outcome->last_key = r->own.last_key;
		r->own.last_key = NULL;
		store_close(&r->own);
	} else if (r->store) {
		r->store->ports[r->port].has_ended = 1;
	}
	*resident = usage.ru_maxrss > *resident ? usage.ru_maxrss : *resident;
	r->outcome = NULL;
	return 1;
}

static void notice_waits(const struct simulation *s, const struct running *r)
{
	const char *key = store_wanted(r->store, r->port);
	char *where = board_where(&r->store->board, r->port);

	if (*where)
		notice(s->messages, "rank %d is in %s", r->outcome->rank, where);
	if (key)
		notice(s->messages, "rank %d waits for the store's key %s", r->outcome->rank, key);
	free(where);
}

/* Sends SIGABRT to a process that runs too long, so that it prints its stacks, and SIGKILL if it
 * does not end. */
static void watch(const struct simulation *s, struct running *r)
{
	if (!s->timeout || now() - r->began < s->timeout)
		return;
	if (r->aborted) {
		if (now() - r->aborted > ABORT_TIME)
			kill(r->pid, SIGKILL);
		return;
	}
	r->outcome->timed_out = 1;
	if (s->whole) {
		notice(s->messages,
		       "the command has run for %d s (--timeout); the stacks of its threads:",
		       s->timeout);
		processes_abort(r->pid, (int)(ABORT_TIME * 1000));
	} else {
		notice(s->messages,
		       "rank %d has run for %d s (--timeout); the stacks of its threads:",
		       r->outcome->rank, s->timeout);
		if (s->together && r->store)
			notice_waits(s, r);
		kill(r->pid, SIGABRT);
	}
	/* A command's processes before it may have used up as much time. */
	r->aborted = now();
}

/* Ends the processes that a killed launcher leaves: they are children of this process now. */
static void kill_orphans(void)
{
	double began = now();

	while (processes_signal(getpid(), 0) && now() - began < ABORT_TIME)
		usleep(100000);
	processes_signal(getpid(), SIGKILL);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static long available_kib(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

/* How many ranks may run now. The first rank shows how much memory one needs. */
static size_t allowed(const struct simulation *s, size_t finished, size_t active, long resident)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), more;

	if (s->together)
		return s->rank_count;
	if (s->jobs)
		return (size_t)s->jobs;
	if (!finished || !resident)
		return 1;
	more = (long)((double)available_kib() * MEMORY_SHARE) / resident + (long)active;
	more = more > cpus ? cpus : more;
	return more < 1 ? 1 : (size_t)more;
}

static void report_progress(const struct simulation *s, const struct simulation_run *run,
			    double began)
{
	if (s->whole || !s->messages || !s->messages->progress)
		return;
	s->messages->progress(&(struct simulation_progress){ .done = run->done,
							     .total = s->rank_count,
							     .active = run->active,
							     .seconds = now() - began });
}

static void serve(struct running *all, size_t slots)
{
	struct pollfd wanted[SLOTS];
	struct store *stores[SLOTS];
	nfds_t count = 0;

	for (size_t i = 0; i < slots; i++) {
		struct store *store = all[i].outcome ? all[i].store : NULL;
		nfds_t seen = 0;

		while (seen < count && stores[seen] != store)
			seen++;
		if (!store || seen < count)
			continue;
		stores[count] = store;
		wanted[count++] = (struct pollfd){ store->poll, POLLIN, 0 };
	}
	poll(wanted, count, 20);
	for (nfds_t i = 0; i < count; i++) {
		store_serve(stores[i]);
		store_settle(stores[i]);
	}
}

/* Ends the other ranks some time after one has failed, as a launcher does. In this time they may
 * fail of the same cause. */
static void end_others(struct running *all, size_t slots, double failed)
{
	double since = failed > 0 ? now() - failed : 0;

	for (size_t i = 0; i < slots && since > GRACE; i++) {
		if (!all[i].outcome || all[i].pid <= 0)
			continue;
		all[i].outcome->was_ended = 1;
		kill(all[i].pid, since > 2 * GRACE ? SIGKILL : SIGTERM);
	}
}

static struct running *free_slot(struct simulation_run *run)
{
	for (size_t i = 0; i < SLOTS; i++)
		if (!run->all[i].outcome)
			return &run->all[i];
	return NULL;
}

static int begin(const struct simulation *s, const struct worker *w, struct simulation_run *run,
		 size_t index, struct running *r, struct err *e)
{
	r->outcome = &run->outcomes[index];
	r->outcome->rank = s->whole ? -1 : s->ranks[index];
	r->store = s->together ? &run->shared : NULL;
	r->port = s->together ? index : 0;
	run->active++;
	if (!s->whole)
		run->has_begun[r->outcome->rank] = 1;
	return start(s, w, r, e);
}

/* Starts the next rank that has not begun, if another one may run. */
static int begin_next(const struct simulation *s, const struct worker *w,
		      struct simulation_run *run, struct err *e)
{
	struct running *r = free_slot(run);
	size_t total = s->whole ? 1 : s->rank_count;

	while (!s->whole && run->next < total && run->has_begun[s->ranks[run->next]])
		run->next++;
	if (!r || run->next >= total || run->active >= TOGETHER_RANKS ||
	    run->active >= allowed(s, run->done, run->active, run->resident))
		return 0;
	return begin(s, w, run, run->next++, r, e);
}

static int begin_auxiliary(const struct simulation *s, const struct worker *w,
			   struct simulation_run *run, int rank, struct running *r, struct err *e)
{
	notice(s->messages,
	       "also running rank %d, unrecorded: other ranks need the data that it broadcasts",
	       rank);
	run->has_begun[rank] = 1;
	r->auxiliary = (struct outcome){ .rank = rank };
	r->outcome = &r->auxiliary;
	r->store = NULL;
	r->port = 0;
	run->active++;
	return start(s, w, r, e);
}

/* Starts the ranks that others wait for, without a limit on their number: the others would wait for
 * ever. */
static int begin_wanted(const struct simulation *s, const struct worker *w,
			struct simulation_run *run, struct err *e)
{
	int rank, status = 0;

	while (!status && (rank = broadcasts_next_wanted(&run->broadcasts, s->world)) >= 0) {
		struct running *r = free_slot(run);
		size_t i = 0;

		if (run->has_begun[rank])
			continue;
		while (i < s->rank_count && s->ranks[i] != rank)
			i++;
		if (!r) /* nothing will come from it */
			broadcasts_end(&run->broadcasts, rank);
		else if (i < s->rank_count)
			status = begin(s, w, run, i, r, e);
		else
			status = begin_auxiliary(s, w, run, rank, r, e);
	}
	return status;
}

static void end_auxiliary(const struct simulation *s, struct outcome *o)
{
	if (o->status)
		notice(s->messages, "rank %d, which other ranks wait for, ended with status %d",
		       o->rank, o->status);
	free(o->last_key);
	o->last_key = NULL;
}

/* One turn: starts ranks, collects those that have ended, and checks the time of the others. */
static int turn(const struct simulation *s, const struct worker *w, struct simulation_run *run,
		struct err *e)
{
	int status = s->whole ? 0 : begin_wanted(s, w, run, e);

	for (size_t i = 0; i < SLOTS; i++) {
		struct running *r = &run->all[i];
		const struct outcome *o = r->outcome;

		if (!o) {
			if (!status)
				status = begin_next(s, w, run, e);
		} else if (!collect(r, &run->resident)) {
			watch(s, r);
		} else {
			if (!s->whole)
				broadcasts_end(&run->broadcasts, o->rank);
			run->active--;
			if (o == &r->auxiliary) {
				end_auxiliary(s, &r->auxiliary);
				continue;
			}
			if (o->status && run->failed == 0)
				run->failed = now();
			run->done++;
		}
	}
	return status;
}

/* Ends all that still run: after an error, or auxiliary ranks. */
static void stop_all(struct running *all, size_t slots)
{
	double until = now() + GRACE;

	for (size_t i = 0; i < slots; i++)
		if (all[i].outcome && all[i].pid > 0)
			kill(all[i].pid, SIGTERM);
	for (size_t i = 0; i < slots; i++) {
		struct running *r = &all[i];

		if (!r->outcome || r->pid <= 0)
			continue;
		while (waitpid(r->pid, NULL, WNOHANG) == 0) {
			if (now() > until)
				kill(r->pid, SIGKILL);
			usleep(10000);
		}
		if (r->store == &r->own)
			store_close(&r->own);
	}
}

static int run_all(const struct simulation *s, const struct worker *w, struct outcome *outcomes,
		   struct err *e)
{
	size_t total = s->whole ? 1 : s->rank_count;
	struct simulation_run *run = xcalloc(1, sizeof(*run));
	double began = now();
	int status = 0;

	signals_catch();
	run->outcomes = outcomes;
	if (!s->whole) {
		run->has_begun = xcalloc((size_t)s->world, 1);
		status = broadcasts_open(&run->broadcasts, e);
	}
	if (!status && s->together)
		status =
			store_open(&run->shared, s->ranks, s->rank_count, s->world, s->messages, e);
	while (run->done < total && !status && !signals_caught()) {
		status = turn(s, w, run, e);
		if (s->together)
			end_others(run->all, SLOTS, run->failed);
		report_progress(s, run, began);
		serve(run->all, SLOTS);
	}
	stop_all(run->all, SLOTS);
	if (s->together)
		store_close(&run->shared);
	broadcasts_close(&run->broadcasts);
	free(run->has_begun);
	free(run);
	signals_release();
	return status;
}

int simulation_run(const struct simulation *s, struct outcome *outcomes, struct err *e)
{
	struct worker w = { 0 };
	char *helper = launch_find(HELPER, e);
	int status;

	if (!helper)
		return -1;
	if (s->whole)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	else
		rank_env_name_run();
	status = s->whole ? 0 : launcher_parse(s->command, helper, &w, e);
	if (!status)
		status = run_all(s, &w, outcomes, e);
	if (s->whole && !status && outcomes[0].timed_out)
		kill_orphans();
	worker_release(&w);
	free(helper);
	return status;
}
