#define _GNU_SOURCE
#include "recording.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "account.h"
#include "background.h"
#include "bypass.h"
#include "clock.h"
#include "cuda.h"
#include "file.h"
#include "graphs.h"
#include "keyframe.h"
#include "lock.h"
#include "lookup.h"
#include "memory.h"
#include "modules.h"
#include "nccl.h"
#include "notice.h"
#include "pools.h"
#include "pystack.h"
#include "recorder.h"
#include "settings.h"
#include "tables.h"
#include "text.h"
#include "vmm.h"
#include "who.h"

#define MIN_BUDGET (512u << 10)

_Atomic int recording_state;

static struct {
	struct who who;
	struct text directory;
	uint64_t start_ns;
	int exit_status; /* -1: exit() was not reached */
	int registered;  /* fork and exit handlers, once a process */
	struct {
		atomic_int pending;
		uint64_t requested, free_bytes;
		int said;
	} oom;
	int loss_said;
} me = { .exit_status = -1 };

static __thread struct {
	uint32_t recording; /* which recording `index` belongs to; a forked child starts another */
	uint16_t index;
} thread __attribute__((tls_model("initial-exec")));

static uint32_t generation;

uint64_t recording_time(void)
{
	return clock_ns() - me.start_ns;
}

uint16_t recording_thread(void)
{
	char name[17] = "";

	if (__builtin_expect(thread.recording == generation, 1))
		return thread.index;
	prctl(PR_GET_NAME, name);
	thread.index = tables_thread((uint32_t)syscall(SYS_gettid), name);
	thread.recording = generation;
	return thread.index;
}

uint64_t recording_event(enum mt_event kind, unsigned device, uint64_t address, int64_t bytes,
			 uint32_t place)
{
	struct mt_record r = {
		.time_ns = recording_time(),
		.address = address,
		.bytes = bytes,
		.place = place,
		.thread = recording_thread(),
		.kind = (uint8_t)kind,
		.device = (uint8_t)device,
	};

	return recorder_write(&r);
}

void recording_out_of_memory(uint64_t sequence, uint64_t requested, uint64_t free_bytes)
{
	if (sequence != MT_UNKNOWN)
		recorder_protect(sequence);
	me.oom.requested = requested;
	me.oom.free_bytes = free_bytes;
	atomic_store(&me.oom.pending, 1);
	background_wake();
}

/* ---- helper thread ---- */

static void say_what_is_due(void)
{
	struct mt_header *h = recorder_header();

	if (atomic_exchange(&me.oom.pending, 0) && !me.oom.said) {
		me.oom.said = 1;
		notice_out_of_memory(me.oom.requested, me.oom.free_bytes);
	}
	if (h->lost_events && !me.loss_said) {
		static const char *const why[] = {
#define X(name, id, message) [id] = message,
			MT_LOST_LIST(X)
#undef X
		};
		me.loss_said = 1;
		notice_lost(h->state == MT_STATE_STOPPED ? "recording ended" : "events are missing",
			    why[h->lost_reason], h->lost_errno);
	}
}

static void work(void)
{
	clock_correct();
	recorder_prepare();
	tables_prepare();
	keyframe_work();
	recorder_prepare(); /* what was replayed may be used again */
	account_trailing();
	say_what_is_due();
}

/* ---- start ---- */

static void fill_header(struct mt_header *h)
{
	const struct who *w = &me.who;
	struct timespec real;

	clock_gettime(CLOCK_REALTIME, &real);
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

	clock_gettime(CLOCK_REALTIME, &real);
	me.directory.n = 0;
	if (*settings.DIR) {
		text_str(&me.directory, settings.DIR);
	} else {
		text_str(&me.directory, "memtrace");
		if (*me.who.job_id)
			text_str(&me.directory, "-");
		text_str(&me.directory, me.who.job_id);
	}
	text_str(name, me.who.host);
	text_str(name, "-r");
	text_number(name, me.who.rank < 0 ? 0 : (uint64_t)me.who.rank);
	text_str(name, "-");
	text_number(name, me.who.pid);
	text_str(name, "-");
	text_number(name, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
	text_str(name, ".mtr");
}

static void keep_config(void)
{
	static char config[128u << 10];
	long n;

	if (!*settings.CONFIG)
		return;
	n = file_read(settings.CONFIG, config, sizeof(config));
	if (n < 0)
		notice_setting("MEMTRACE_CONFIG", "a file that can be read");
	else
		tables_meta(MT_META_CONFIG, "", config, (size_t)n);
}

static void in_forked_child(void)
{
	if (atomic_load(&recording_state) == RECORDING_ON)
		recorder_forget();
	background_forget();
	memory_forget();
	pools_forget();
	graphs_forget();
	vmm_forget();
	nccl_forget();
	modules_forget();
	account_forget();
	bypass_forget();
	pystack_forget();
	cuda_forget();
	keyframe_reset();
	me.exit_status = -1;
	atomic_store(&me.oom.pending, 0);
	me.oom.said = me.loss_said = 0;
	atomic_store(&recording_state, RECORDING_IDLE);
}

static void at_exit(int status, void *unused)
{
	(void)unused;
	me.exit_status = status;
}

static void no_complaint(const char *name, const char *expected)
{
	(void)name;
	(void)expected;
}

static void describe(void)
{
	cuda_describe();
	lookup_describe();
}

static int begin(void)
{
	struct recorder_setup setup;
	struct text name = { 0 };
	int e;

	settings_read(no_complaint);
	if (settings.DISABLE)
		return RECORDING_OFF;
	who_am_i(&me.who);
	name_file(&name);
	notice_begin(&me.who, me.directory.s, cuda_is_simulated());
	settings_read(notice_setting); /* again: only now is it known who may speak */
	if (settings.BUDGET < MIN_BUDGET) {
		notice_setting("MEMTRACE_BUDGET", "512KiB or more (it is 512KiB now)");
		settings.BUDGET = MIN_BUDGET;
	}
	setup = (struct recorder_setup){
		.directory = me.directory.s,
		.name = name.s,
		.budget = settings.BUDGET,
		.counters_only = !settings_rank_chosen(settings.RANKS, me.who.rank),
	};
	clock_begin();
	me.start_ns = now_ns();
	e = recorder_open(&setup);
	if (e) {
		notice_lost("not recording", "no trace can be made", -e);
		return RECORDING_OFF;
	}
	__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
	fill_header(recorder_header());
	who_describe();
	keep_config();
	if (!me.registered) {
		me.registered = 1;
		pthread_atfork(NULL, NULL, in_forked_child);
		on_exit(at_exit, NULL);
	}
	/* Without the helper the recording threads do its work themselves. */
	(void)background_start(describe, work);
	return RECORDING_ON;
}

/* Asked at each call before the first that begins a trace, which may never come. */
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

	if (atomic_compare_exchange_strong(&recording_state, &idle, RECORDING_STARTING))
		atomic_store(&recording_state, begin());
	while (atomic_load(&recording_state) == RECORDING_STARTING) {
		if (now_ns() - waited > LOCK_MS(1000)) {
			/* begin() hangs in some other thread (a dead file server): without us,
			 * until it is through */
			atomic_compare_exchange_strong(&recording_state, &starting, RECORDING_OFF);
			break;
		}
		sched_yield();
	}
	return atomic_load(&recording_state) == RECORDING_ON;
}

__attribute__((destructor)) static void end(void)
{
	const struct mt_device *most;
	struct mt_header *h;
	int helper_gone;

	if (atomic_load(&recording_state) != RECORDING_OFF && recording_is_allowed() &&
	    cuda_is_simulated_unseen()) {
		settings_read(no_complaint);
		notice_order();
	}
	/* A child made without fork()'s handlers (_Fork, clone) has our state and not our mappings.
	 */
	if (atomic_load(&recording_state) != RECORDING_ON || (unsigned)getpid() != me.who.pid)
		return;
	atomic_store(&recording_state, RECORDING_OFF);
	helper_gone = background_stop(500);
	h = recorder_header();
	most = &h->device[0];
	say_what_is_due();
	lookup_describe();
	recorder_close(me.exit_status, helper_gone);
	for (unsigned d = 0; d < MT_MAX_DEVICES; d++)
		if (h->device[d].device_peak > most->device_peak)
			most = &h->device[d];
	if (!me.oom.said)
		notice_end(most->allocated_peak, most->reserved_peak, most->device_peak,
			   h->lost_events);
}
