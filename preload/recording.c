#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/counters.h"
#include "record/helper.h"
#include "record/clock.h"
#include "record/descriptors.h"
#include "memory/cuda.h"
#include "record/event.h"
#include "record/file.h"
#include "memory/graphs.h"
#include "marks/marks.h"
#include "hooks/bypass.h"
#include "hooks/real.h"
#include "record/keyframe.h"
#include "base/lock.h"
#include "hooks/lookup.h"
#include "memory/memory.h"
#include "memory/modules.h"
#include "hooks/nccl_comms.h"
#include "process/notice.h"
#include "memory/pools.h"
#include "python/pystack.h"
#include "record/recorder.h"
#include "record/segments.h"
#include "record/state.h"
#include "symbols/scope.h"
#include "process/settings.h"
#include "record/tables.h"
#include "base/text.h"
#include "hooks/vmm.h"
#include "process/identity.h"
#include "record/writer.h"

#define MIN_BUDGET (512u << 10)
#define REST_MS 10000               /* the longest time between two runs of the helper's work */
#define OWED_MS 20                  /* until an owed level of a graph is read */
#define BYPASS_AFTER_NS 5000000000u /* until then the job loads its libraries */
#define CONFIG_MS 500 /* the longest time that the first event waits for MEMTRACE_CONFIG */
#define EXIT_MS 500   /* the longest time that the end of a process waits for the writer */

static struct {
	struct identity identity;
	struct text directory, file_name;
	uint64_t start_ns;
	int exit_status; /* -1: exit() was not reached */
	int registered;  /* fork and exit handlers, once a process */
	pid_t recorder;  /* the process that recorded: its children without exec do not, since CUDA
			    cannot be used there */
	int writer_failed, refused; /* refused: no trace could be made */
	int has_reported_oom, has_reported_loss;
} me = { .exit_status = -1 };

/* ---- helper thread ---- */

/* The writer decides whether this process is the one to say that memory ran out. Unless this is the
 * LAST call, the line waits until the writer has begun. */
static void print_out_of_memory(int last)
{
	uint64_t requested, free_bytes;

	if ((!last && atomic_load(&recorder_control()->state) == WRITER_WAITING) ||
	    !event_take_out_of_memory(&requested, &free_bytes) || me.has_reported_oom)
		return;
	me.has_reported_oom = 1;
	notice_out_of_memory(requested, free_bytes);
}

static void print_losses(void)
{
	static const char *const why[] = {
#define X(name, id, message) [id] = message,
		MT_LOST_LIST(X)
#undef X
	};
	const struct mt_header *h = recorder_header();
	int ended = me.writer_failed ||
		    (h->state == MT_STATE_STOPPED && h->lost_reason != MT_LOST_NOT_CHOSEN);

	if ((!h->lost_events && !ended) || me.has_reported_loss)
		return;
	me.has_reported_loss = 1;
	notice_lost(ended ? "recording ended" : "events are missing", why[h->lost_reason],
		    h->lost_errno);
}

/* Ends recording if the writer failed. */
static void check_writer(void)
{
	struct writer_control *c = recorder_control();
	int error = atomic_load(&c->error);
	uint32_t state = atomic_load(&c->state);

	if (!error || state == WRITER_WAITING || me.writer_failed)
		return;
	me.writer_failed = 1;
	me.refused = state == WRITER_REFUSED;
	if (me.refused) {
		me.has_reported_loss = 1;
		recorder_discard();
		notice_lost("not recording", "no trace can be made", error);
		/* at last: the end of the process waits for this line only while recording is on */
		atomic_store(&recording_state, RECORDING_OFF);
	} else {
		recorder_stop(MT_LOST_NO_SPACE, error);
	}
}

static unsigned work(void)
{
	int waits_for_a_record;

	segments_prepare_next();
	tables_prepare();
	waits_for_a_record = keyframe_work();
	segments_prepare_next(); /* replayed records may be overwritten */
	graphs_read_owed();      /* a level that changed just after it was read, and that no event
				    followed */
	counters_note_unreported();
	if (!recording_already() || now_ns() - me.start_ns >= BYPASS_AFTER_NS)
		bypass_describe();
	writer_check(recorder_control());
	check_writer();
	print_out_of_memory(0);
	print_losses();
	if (graphs_owe())
		return OWED_MS;
	if (waits_for_a_record || atomic_load(&recorder_control()->owner) == WRITER_NOBODY)
		return WRITER_EVERY_MS;
	return REST_MS;
}

/* ---- start ---- */

static void fill_header(struct mt_header *h)
{
	const struct identity *w = &me.identity;
	struct timespec real;

	real_clock(CLOCK_REALTIME, &real);
	h->start_monotonic_ns = me.start_ns;
	h->start_realtime_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	h->pid = w->pid;
	h->ppid = w->ppid;
	h->rank = w->rank;
	h->local_rank = w->local_rank;
	h->world_size = w->world_size;
	h->local_world_size = w->local_world_size;
	h->restart_count = w->restart_count;
	h->parent_start_ns = w->launcher_start_ns;
	memcpy(h->host, w->host, sizeof(h->host));
	memcpy(h->job_id, w->job_id, sizeof(h->job_id));
	memcpy(h->run_id, w->run_id, sizeof(h->run_id));
	h->stack_min = settings.STACK_MIN;
	h->flags = cuda_is_simulated() ? MT_FLAG_SIMULATED : 0;
}

/* HOST-rRANK-PID-STARTNS.mtr in MEMTRACE_DIR, or in memtrace-JOBID, or in memtrace */
static void name_file(struct text *name)
{
	struct timespec real;

	real_clock(CLOCK_REALTIME, &real);
	me.directory.n = 0;
	if (*settings.DIR != '/' && getcwd(me.directory.s, sizeof(me.directory.s))) {
		me.directory.n = strlen(me.directory.s);
		text_str(&me.directory, "/");
	}
	if (*settings.DIR) {
		text_str(&me.directory, settings.DIR);
	} else {
		text_str(&me.directory, "memtrace");
		if (*me.identity.job_id)
			text_str(&me.directory, "-");
		text_str(&me.directory, me.identity.job_id);
	}
	text_str(name, me.identity.host);
	text_str(name, "-r");
	text_number(name, me.identity.rank < 0 ? 0 : (uint64_t)me.identity.rank);
	text_str(name, "-");
	text_number(name, me.identity.pid);
	text_str(name, "-");
	text_number(name, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
	text_str(name, ".mtr");
}

static void store_config(void)
{
	static char config[128u << 10];
	long n;

	if (!*settings.CONFIG)
		return;
	n = file_read_within(settings.CONFIG, config, sizeof(config), CONFIG_MS);
	if (n < 0)
		notice_setting("MEMTRACE_CONFIG", "a file that can be read");
	else
		identity_add_config(config, (size_t)n, n == (long)sizeof(config));
}

static void in_forked_child(void)
{
	recorder_forget();
	helper_forget();
	memory_forget();
	pools_forget();
	graphs_forget();
	vmm_forget();
	comms_forget();
	modules_forget();
	counters_forget();
	bypass_forget();
	pystack_forget();
	cuda_forget();
	scope_forget();
	real_forget();
	keyframe_reset();
	me.exit_status = -1;
	event_forget();
	me.has_reported_oom = me.has_reported_loss = 0;
	atomic_store(&recording_state, me.recorder ? RECORDING_OFF : RECORDING_IDLE);
}

static void at_exit(int status, void *unused)
{
	(void)unused;
	me.exit_status = status;
}

static void ignore_setting(const char *name, const char *expected)
{
	(void)name;
	(void)expected;
}

/* A child of fork(), and one of _Fork() or clone() that runs no handler, finds RECORDING_IDLE
 * (zero) in the page. */
static void wipe_on_fork(void)
{
	(void)madvise(&recording_page, sizeof(recording_page), MADV_WIPEONFORK);
}

static void helper_begins(void)
{
	writer_watch_this_thread(recorder_control());
	cuda_describe();
	lookup_describe();
}

static void helper_ends(void)
{
	writer_unwatch_this_thread(recorder_control());
}

/* Reads the settings and the process's identity. Returns 0 if the process is not to be recorded. */
static int read_environment(void)
{
	settings_read(ignore_setting);
	if (settings.DISABLE)
		return 0;
	identity_read(&me.identity);
	name_file(&me.file_name);
	notice_begin(&me.identity, me.directory.s, cuda_is_simulated());
	settings_read(notice_setting); /* again: only now is it known which process may print */
	if (settings.BUDGET < MIN_BUDGET) {
		notice_setting("MEMTRACE_BUDGET", "512KiB or more (it is 512KiB now)");
		settings.BUDGET = MIN_BUDGET;
	}
	return 1;
}

static int begin(void)
{
	struct helper helper = { .once = helper_begins, .work = work, .end = helper_ends };
	struct recorder_setup setup;
	int e;

	clock_find();
	descriptors_forget(); /* a child made before the fork handler was registered, too */
	if (!read_environment())
		return RECORDING_OFF;
	setup = (struct recorder_setup){
		.directory = me.directory.s,
		.name = me.file_name.s,
		.budget = settings.BUDGET,
		.counters_only = !settings_rank_chosen(settings.RANKS, me.identity.rank),
		.with_process = settings.WRITER_PROCESS,
	};
	clock_begin();
	e = recorder_open(&setup);
	if (e) {
		notice_lost("not recording", "no memory can be had for the recording", -e);
		return RECORDING_OFF;
	}
	recorder_control()->begin = clock_read(clock_uses_counter);
	recorder_control()->uses_counter = clock_uses_counter;
	me.start_ns = recorder_control()->begin.ns;
	event_begin();
	me.recorder = getpid();
	wipe_on_fork();
	fill_header(recorder_header());
	identity_describe();
	store_config();
	if (!me.registered) {
		me.registered = 1;
		pthread_atfork(NULL, NULL, in_forked_child);
		on_exit(at_exit, NULL);
	}
	recorder_begin();
	/* Without the helper, the recording threads do its work; but they must not write the
	 * file. */
	helper.wakeups = &recorder_control()->helper_wakeups;
	if (helper_start(&helper) != 0 && !recorder_has_process()) {
		notice_lost("not recording",
			    "neither a process nor a thread can be started to write the trace",
			    EAGAIN);
		return RECORDING_OFF;
	}
	return RECORDING_ON;
}

/* pthread_cancel() must not end the thread in begin(): it may hold the allocator's lock, and
 * recording would be half begun. */
static int begin_uncancelled(void)
{
	int old, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	state = begin();
	pthread_setcancelstate(old, NULL);
	return state;
}

/* Called by each wrapper until a trace begins, which may never happen. */
int recording_is_allowed(void)
{
	static atomic_int looked;
	int idle = RECORDING_IDLE;

	if (!atomic_load(&looked)) {
		if (settings_disabled())
			atomic_compare_exchange_strong(&recording_state, &idle, RECORDING_OFF);
		atomic_store(&looked, 1);
	}
	return atomic_load(&recording_state) != RECORDING_OFF;
}

int recording_start(void)
{
	int idle = RECORDING_IDLE, starting = RECORDING_STARTING;
	uint64_t waited = now_ns();

	if (me.recorder && me.recorder != getpid()) /* a child without fork()'s handlers */
		atomic_store(&recording_state, RECORDING_OFF);
	if (atomic_compare_exchange_strong(&recording_state, &idle, RECORDING_STARTING)) {
		idle = RECORDING_STARTING;
		atomic_compare_exchange_strong(&recording_state, &idle, begin_uncancelled());
		marks_begin();
	}
	while (atomic_load(&recording_state) == RECORDING_STARTING) {
		if (now_ns() - waited > LOCK_MS(1000)) {
			/* begin() hangs in another thread (a dead file server): this thread goes
			 * on without it */
			atomic_compare_exchange_strong(&recording_state, &starting, RECORDING_OFF);
			break;
		}
		sched_yield();
	}
	return atomic_load(&recording_state) == RECORDING_ON;
}

/* Returns 1 if this process is the one of its run that says the peak. */
static int end_recording(void)
{
	struct writer_control *c = recorder_control();
	int had_helper = helper_is_running(), is_first;

	(void)helper_stop(EXIT_MS); /* its last run may have something to describe */
	print_out_of_memory(1);
	is_first = !me.has_reported_oom && notice_is_first_to_end();
	recorder_close(me.exit_status);
	if (!writer_finish(c, EXIT_MS) && had_helper && writer_take_over(c)) {
		writer_check(c);
		(void)writer_finish(c, EXIT_MS);
	}
	check_writer();
	print_losses();
	return is_first;
}

__attribute__((destructor)) static void end(void)
{
	const struct mt_device *most;
	struct mt_header *h;
	int is_first;

	if (atomic_load(&recording_state) != RECORDING_OFF && recording_is_allowed() &&
	    cuda_is_simulated_unseen()) {
		settings_read(ignore_setting);
		notice_order();
	}
	/* A child made without fork()'s handlers (_Fork, clone) has our state and not our mappings.
	 */
	if (atomic_load(&recording_state) != RECORDING_ON || getpid() != me.recorder)
		return;
	atomic_store(&recording_state, RECORDING_OFF);
	h = recorder_header();
	most = &h->device[0];
	lookup_describe();
	is_first = end_recording();
	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		if (h->device[d].device_peak > most->device_peak)
			most = &h->device[d];
	if (is_first && !me.refused)
		notice_end(most->allocated_peak, most->reserved_peak, most->device_peak,
			   h->lost_events);
}
