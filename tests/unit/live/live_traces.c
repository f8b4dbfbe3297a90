/*
 * Processes that write traces as a traced job's writer does, for tests of `top`: they hold the
 * file's lock, and write records before the header that counts them. live_traces DIR COUNT
 * [FATE=RANK...]
 *
 * A fate begins after two seconds: `dies` ends without a record of its end, `hangs` writes no more,
 * `fails` runs out of memory and ends with status 1, `exits` ends with status 1, `grows` keeps 1
 * MiB more with every step. The parent waits for a line on standard input, and ends them all.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "write_trace.h"

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)
#define TICKS_A_SECOND 2
#define FATE_TICK (2 * TICKS_A_SECOND)

struct process {
	struct writer w;
	int fd, rank;
	const char *fate; /* "": none */
	uint32_t model, optimizer;
	uint16_t python, autograd;
	uint64_t address;
};

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void start(struct process *p, int count)
{
	struct writer *w = &p->w;
	uint32_t torch, call, main;

	write_start(w);
	w->header.state = MT_STATE_RECORDING;
	w->header.exit_status = -1;
	w->header.start_monotonic_ns = clock_ns(CLOCK_MONOTONIC);
	w->header.start_realtime_ns = clock_ns(CLOCK_REALTIME);
	w->header.pid = (uint32_t)getpid();
	w->header.rank = p->rank;
	w->header.world_size = count;
	gethostname(w->header.host, sizeof(w->header.host) - 1);
	w->header.device[0].total_bytes = 80 * GIB;
	w->header.device[0].untracked = 500 * MIB;
	p->python = write_thread(w, 100, "python");
	p->autograd = write_thread(w, 101, "pt_autograd_0");
	torch = write_module(w, "/p/site-packages/torch/lib/libc10_cuda.so");
	main = write_frame(w, "main", "/job/train.py", 10);
	call = write_frame(w, "Module._call_impl", "/p/site-packages/torch/nn/modules/module.py",
			   1);
	p->model = write_stack(w, torch, write_frame(w, "Net.forward", "/job/net.py", 2), call,
			       main, 0);
	p->optimizer = write_stack(
		w, torch,
		write_frame(w, "AdamW._init_group", "/p/site-packages/torch/optim/adamw.py", 4),
		write_frame(w, "AdamW.step", "/p/site-packages/torch/optim/adamw.py", 3), main, 0);
}

static void event(struct process *p, int kind, uint64_t address, int64_t n, uint32_t stack,
		  uint16_t thread)
{
	struct mt_device *d = &p->w.header.device[0];

	p->w.time = clock_ns(CLOCK_MONOTONIC) - p->w.header.start_monotonic_ns;
	write_event(&p->w, kind, address, n, stack, thread);
	d->allocated += (uint64_t)n;
	d->allocs += kind == MT_TENSOR_ALLOC;
	d->frees += kind == MT_TENSOR_FREE;
	if (d->allocated > d->allocated_peak)
		d->allocated_peak = d->allocated;
	if (d->allocated > d->reserved)
		d->reserved = d->reserved_peak = d->allocated;
	if (d->reserved + d->untracked > d->device_peak)
		d->device_peak = d->reserved + d->untracked;
}

static void step(struct process *p, int64_t kept)
{
	int64_t n = 10 * MIB + p->rank * 4096;
	uint64_t forward = p->address += GIB;

	event(p, MT_TENSOR_ALLOC, forward, n, p->model, p->python);
	event(p, MT_TENSOR_FREE, forward, -n, 0, p->autograd);
	p->address += GIB;
	event(p, MT_TENSOR_ALLOC, p->address, kept ? kept : MIB, p->optimizer, p->python);
	if (!kept)
		event(p, MT_TENSOR_FREE, p->address, -MIB, p->optimizer, p->python);
}

/* The records, then the header. */
static void save(const struct process *p)
{
	size_t size;
	unsigned char *file = write_finish(&p->w, &size);

	if (pwrite(p->fd, file + MT_HEADER_BYTES, size - MT_HEADER_BYTES, MT_HEADER_BYTES) < 0 ||
	    pwrite(p->fd, file, sizeof(struct mt_header), 0) < 0)
		_exit(4);
	free(file);
}

static int is(const struct process *p, const char *fate)
{
	return !strcmp(p->fate, fate);
}

static void meet_fate(struct process *p)
{
	int fails = is(p, "fails");

	if (is(p, "dies"))
		_exit(3);
	while (is(p, "hangs"))
		pause();
	if (!fails && !is(p, "exits"))
		return;
	if (fails) {
		p->w.time = clock_ns(CLOCK_MONOTONIC) - p->w.header.start_monotonic_ns;
		write_event(&p->w, MT_TENSOR_OOM, GIB, 90 * GIB, p->model, p->python);
		p->w.header.device[0].ooms = 1;
	}
	p->w.header.state = MT_STATE_ENDED;
	p->w.header.exit_status = 1;
	p->w.header.end_ns = clock_ns(CLOCK_MONOTONIC) - p->w.header.start_monotonic_ns;
	save(p);
	_exit(1);
}

static void run(struct process *p, const char *directory, int count)
{
	const struct timespec pause = { .tv_nsec = 1000000000 / TICKS_A_SECOND };
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char path[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start(p, count);
	snprintf(path, sizeof(path), "%s/%s-r%d-%d-%llu.mtr", directory, p->w.header.host, p->rank,
		 (int)getpid(), (unsigned long long)p->w.header.start_realtime_ns);
	p->fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (p->fd < 0 || fcntl(p->fd, F_SETLK, &lock) < 0)
		_exit(4);
	for (int tick = 0;; tick++) {
		for (int i = 0; i < 8; i++)
			step(p, is(p, "grows") ? MIB : 0);
		save(p);
		if (tick >= FATE_TICK)
			meet_fate(p);
		nanosleep(&pause, NULL);
	}
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;

	for (int rank = 0; rank < count; rank++) {
		struct process p = { .rank = rank, .fate = "" };
		char fate[32];

		for (int i = 3; i < argc; i++) {
			const char *equals = strchr(argv[i], '=');

			if (equals && atoi(equals + 1) == rank) {
				snprintf(fate, sizeof(fate), "%.*s", (int)(equals - argv[i]),
					 argv[i]);
				p.fate = fate;
			}
		}
		if (fork() == 0)
			run(&p, argv[1], count);
	}
	signal(SIGCHLD, SIG_IGN);
	return getchar() == EOF ? 0 : 0;
}
