/* clang-format off */
/*
 * The trace file, which libmemtrace.so writes and memtrace reads. This header is the only definition of
 * the format.
 *
 *   header (MT_HEADER_BYTES)  identity, clocks, running counters of each device, the two lists of regions below
 *   table regions             strings, frames, stacks, modules, threads, meta: append-only entries
 *   segments                  fixed 32-byte records; a keyframe region each (the live set when the segment began)
 *
 * Records are written before the header that counts them, so the file is valid at every instant. A
 * reader takes of each region as much as its `used` covers, and skips records whose `kind` is still 0:
 * a thread reserved them and died before it wrote them.
 *
 * Version rule: MT_VERSION changes when an old reader would misread the file. A reader refuses any
 * other version. New kinds of events and entries do not change it: they are skipped and counted.
 * Integers are little-endian (`byte_order` shows it). All offsets are from the start of the file, all
 * sizes in bytes, all times in ns since `start_monotonic_ns`.
 */
/* clang-format on */
#ifndef MEMTRACE_TRACE_H
#define MEMTRACE_TRACE_H

#include <assert.h>
#include <stdint.h>

#define MT_MAGIC "memtrace" /* the first 8 bytes, no terminating zero */
#define MT_VERSION 1u
#define MT_BYTE_ORDER 0x01020304u
#define MT_HEADER_BYTES 65536u
#define MT_MAX_DEVICES 16
#define MT_MAX_SEGMENTS 512
#define MT_MAX_TABLES 256
#define MT_UNKNOWN UINT64_MAX
#define MT_NO_DEVICE 255u /* host memory */
#define MT_NO_STACK 0u    /* stack 0: neither module nor frames are known */
/* The outermost frame of a stack that is cut; it has no file. */
#define MT_DEEPER "... deeper frames are not kept"
#define MT_NO_THREAD 0xffffu

enum mt_event {
#define EVENT(name, id, layer, effect, meaning) MT_##name = id,
#include <memtrace/events.def>
#undef EVENT
};

/* `bytes` of MT_GRAD_MODE: what the thread's operations do with nodes of the autograd graph. */
enum mt_grad_mode {
	MT_NODES_NONE,    /* they make none: gradients are disabled */
	MT_NODES_MADE,    /* they make nodes */
	MT_NODES_UNKNOWN, /* it is not known */
	MT_NODES_NEEDLESS /* nodes that lead to no parameter which an optimizer of PyTorch has */
};

/* `bytes` of MT_PARAMETER. `address` is that of the tensor's storage; 0: that is not on the device.
 */
enum mt_parameter {
	MT_PARAMETER_GIVEN,    /* an optimizer of PyTorch gets it */
	MT_PARAMETER_USED,     /* a graph needs its gradient for the first time */
	MT_PARAMETER_REPLACED, /* another optimizer is taken to replace the one that had it */
	MT_PARAMETER_UNOWNED,  /* a graph needs its gradient, and no optimizer has it */
	MT_PARAMETER_CHANGED,  /* one that no optimizer has was changed in place (no address) */
	MT_PARAMETER_UNKNOWN   /* what optimizers have is not known any more (no address) */
};

enum mt_layer {
	MT_LAYER_ALLOCATED = 1,
	MT_LAYER_RESERVED,
	MT_LAYER_DEVICE,
	MT_LAYER_POOL,
	MT_LAYER_MANAGED,
	MT_LAYER_HOST,
	MT_LAYER_MAPPED,
	MT_LAYER_ALIAS,
	MT_LAYER_GRAPH,
	MT_LAYER_COMM,
	MT_LAYER_MARK,
	MT_LAYER_NODE,
};
enum mt_effect {
	MT_EFFECT_ALLOC = 1,
	MT_EFFECT_FREE,
	MT_EFFECT_LEVEL,
	MT_EFFECT_FAIL,
	MT_EFFECT_SAMPLE,
	MT_EFFECT_NOTE
};

/* One event. `kind` is written last (release). 0 means that the record was reserved and never
 * written. */
struct mt_record {
	uint64_t time_ns;
	uint64_t address;
	int64_t bytes;
	uint32_t stack;  /* an id of the tables: calling module and Python stack */
	uint16_t thread; /* an id of the tables, or MT_NO_THREAD */
	uint8_t kind;    /* enum mt_event */
	uint8_t device;  /* the ordinal that the process sees, or MT_NO_DEVICE */
};
static_assert(sizeof(struct mt_record) == 32, "records are 32 bytes");

/*
 * A run of records. `first_sequence` is the number of its first record among all that were ever
 * recorded: segments are sorted by it, and a gap between two shows that the space of a segment was
 * reused. The keyframe holds the allocations that were live when the segment began, as the records
 * that allocated them, and before them the last LEVEL and SAMPLE record of each device. Without a
 * keyframe (keyframe_offset 0, `has_keyframe` 0) a segment can only be replayed after the one
 * before.
 */
struct mt_segment {
	uint64_t offset;
	uint64_t capacity;       /* records */
	uint64_t used;           /* records reserved by writers; may pass `capacity`: clamp */
	uint64_t first_sequence; /* MT_UNKNOWN while the segment is prepared and not yet in use */
	uint64_t keyframe_offset;
	uint64_t keyframe_capacity; /* records */
	uint64_t keyframe_records;
	uint64_t has_keyframe; /* written last */
};
static_assert(sizeof(struct mt_segment) == 64, "a cache line each: writers share `used`");

/* A run of table entries. */
struct mt_table {
	uint64_t offset;
	uint64_t capacity; /* bytes */
	uint64_t used;     /* bytes of whole entries; written last */
};

enum mt_entry_kind {
	MT_ENTRY_STRING = 1, /* payload: bytes, no terminating zero */
	MT_ENTRY_FRAME = 2,  /* payload: struct mt_frame */
	MT_ENTRY_STACK = 3, /* payload: uint32_t module, then uint32_t frame ids, innermost first */
	MT_ENTRY_MODULE = 4, /* payload: path of the shared object */
	MT_ENTRY_THREAD = 5, /* payload: uint32_t tid, then its name (bytes) */
	MT_ENTRY_META = 6,   /* payload: key, a zero, value; see MT_META_* ; a later value of a key
				replaces an earlier one */
};

/* Entries start at multiples of 8. The ids of a kind count up from 1, and entries refer to earlier
 * entries only. */
struct mt_entry {
	uint32_t kind;
	uint32_t id;    /* 0 for meta */
	uint32_t bytes; /* of the payload, without padding */
	uint32_t reserved;
};
static_assert(sizeof(struct mt_entry) == 16, "entries have a 16-byte head");

struct mt_frame {
	uint32_t function; /* string ids */
	uint32_t file;
	uint32_t line;
	uint32_t reserved;
};

/* Keys of meta entries. Values are text; MT_META_ARGV separates the arguments by zeros. Values that
 * look like a secret are "***". The command line, the configuration and each variable are cut at
 * 128 KiB; a note then says so. */
#define MT_META_ARGV "argv"
#define MT_META_ENV "env:"      /* env:NAME */
#define MT_META_GPU_NAME "gpu:" /* gpu:ORDINAL */
#define MT_META_GPU_UUID                                                                              \
	"gpu-uuid:" /* gpu-uuid:ORDINAL, as nvidia-smi -L has it: "GPU-…"; of an instance "MIG-…" \
		     */
#define MT_META_GPU_PCI \
	"gpu-pci:" /* gpu-pci:ORDINAL: "0000:1A:00.0"; instances of one GPU have the same */
#define MT_META_VERSION                                                                             \
	"version:" /* version:torch, version:python, version:cuda_runtime, version:cuda_driver, … \
		    */
#define MT_META_CONFIG "config" /* the text of the file that MEMTRACE_CONFIG names */
#define MT_META_COMM                                                                 \
	"comm:" /* comm:SEQUENCE of its COMM_INIT: "size=8 rank=3 parent=SEQUENCE|-" \
		 */
#define MT_META_COMM_USED                                                                        \
	"comm-used:" /* comm-used:SEQUENCE: bytes that NCCL has allocated while the communicator \
			was used; the last entry holds */
#define MT_META_ALLOCATOR \
	"allocator" /* the module of PyTorch's caching allocator, if it is not libc10_cuda.so */
#define MT_META_CWD "cwd"
#define MT_META_EXE "exe"
/* These four only in what an analyzer makes of another tool's file. */
#define MT_OPERATORS "operator" /* the file of frames that are PyTorch's operators: "aten::mm" */
#define MT_META_SETTINGS \
	"settings" /* the file tells the allocator's: MT_META_ENV has them if there are any */
#define MT_META_PEAK_OF \
	"peak-of:" /* peak-of:ORDINAL: of which part of the job the peak is; see PEAK_SCOPES */
#define MT_META_BEFORE                                                                           \
	"before:" /* before:ORDINAL: so many of the device's first records are of what was there \
		     before the history */
#define MT_META_NOTE                                                                 \
	"note:" /* note:TOPIC, for example the reason why there are no Python stacks \
		 */

/*
 * Running counters of one device. They can be read while the job runs, and are kept even if events
 * are not recorded. Each is one aligned 64-bit store: there is no lock, and a reader may see two
 * counters at slightly different times.
 */
struct mt_device {
	uint64_t total_bytes; /* the device's size by cudaMemGetInfo; 0: not asked yet */
	uint64_t allocated;   /* by PyTorch's allocator: tensors; or pool memory, or cudaMalloc
				 without caching */
	uint64_t allocated_peak;
	uint64_t reserved;
	uint64_t reserved_peak;
	uint64_t other;       /* runtime allocations of other callers than PyTorch's allocator */
	uint64_t untracked;   /* used on the device and in no counter above, at the last sample */
	uint64_t device_peak; /* peak of reserved + other + untracked */
	uint64_t allocs;      /* events of the ALLOCATED layer, or of the calls that count as it */
	uint64_t frees;
	uint64_t ooms;
	uint64_t peak_sequence; /* record index of allocated_peak */
	uint64_t last_time_ns;
	uint64_t device_peak_sequence; /* 1 + index of the record at device_peak; 0: not known */
	uint64_t refused; /* failed requests of libraries; 0 in traces of before it was counted */
	uint64_t unused[1];
};
static_assert(sizeof(struct mt_device) == 128, "two cache lines a device");

enum mt_state {
	MT_STATE_RECORDING = 1,
	MT_STATE_STOPPED = 2, /* recording ended early (`lost_reason`); the job goes on and counters
				 are kept */
	MT_STATE_ENDED = 3,   /* the process ended normally: `exit_status` and `end_ns` are set */
};

/* Reasons for which recording stopped or lost something: X(name, id, message). */
#define MT_LOST_LIST(X)                                                                  \
	X(NOTHING, 0, "nothing was lost")                                                \
	X(NO_SPACE, 1, "no space left for the trace")                                    \
	X(TOO_SLOW, 2, "a segment was not ready in time")                                \
	X(NOT_CHOSEN, 3, "MEMTRACE_RANKS leaves this rank out: counters and peaks only") \
	X(TABLES_FULL, 4, "the tables of stacks are full: later stacks are unknown")     \
	X(MAP_FAILED, 5, "the trace could not be mapped")                                \
	X(BUSY, 6, "another thread kept the recorder busy")                              \
	X(LIMIT, 7, "a counted limit of the recorder was reached")                       \
	X(NO_MEMORY, 8, "no memory for the live set")                                    \
	X(STALLED, 9, "the file system did not take what was recorded in time")
enum mt_lost {
#define X(name, id, message) MT_LOST_##name = id,
	MT_LOST_LIST(X)
#undef X
};

#define MT_FLAG_SIMULATED 1u /* the device was libcudasim.so: nothing was measured on a GPU */
#define MT_FLAG_STACKS 2u    /* Python stacks are recorded */

struct mt_header {
	char magic[8];
	uint32_t version;
	uint32_t byte_order;
	uint32_t header_bytes;
	uint32_t record_bytes;
	uint32_t flags;
	uint32_t state;              /* enum mt_state */
	uint64_t start_monotonic_ns; /* time 0 of all time_ns */
	uint64_t start_realtime_ns;  /* the same instant since the Unix epoch */
	uint64_t end_ns;
	int32_t exit_status; /* the argument of exit(); -1: not known */
	uint32_t pid;
	uint32_t ppid;
	int32_t rank; /* -1: none */
	int32_t local_rank;
	int32_t world_size;
	int32_t local_world_size;
	int32_t restart_count;
	uint64_t parent_start_ns; /* start of the launcher since boot: part of the run's identity */
	char host[64];
	char job_id[64];      /* of the scheduler or the launcher; empty: none */
	char run_id[64];      /* the same for all processes of a run */
	uint64_t stack_min;   /* MEMTRACE_STACK_MIN */
	uint64_t budget;      /* MEMTRACE_BUDGET */
	uint32_t lost_reason; /* enum mt_lost */
	int32_t lost_errno;
	uint64_t
		lost_events; /* not recorded, for lost_reason: the live set is not exact any more */
	uint64_t lost_stacks;     /* stacks that were not kept: the tables were full, or busy */
	uint64_t reused_records;  /* discarded on purpose, to stay within the budget */
	uint64_t inline_prepares; /* times the recording thread had to prepare a segment itself */
	uint64_t inline_prepare_ns;
	uint64_t segments; /* entries in use below */
	uint64_t tables;
	struct mt_device device[MT_MAX_DEVICES];
	struct mt_table table[MT_MAX_TABLES];
	struct mt_segment segment[MT_MAX_SEGMENTS] __attribute__((aligned(64)));
	uint64_t busy_stacks; /* of lost_stacks, those for which the tables were busy */
};
static_assert(sizeof(struct mt_header) <= MT_HEADER_BYTES, "the header has a fixed place");

#endif
