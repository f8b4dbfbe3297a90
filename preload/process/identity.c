#define _GNU_SOURCE
#include "process/identity.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "record/file.h"
#include "process/secret.h"
#include "record/tables.h"
#include "base/text.h"

extern char **environ;

/* The first variable that is set wins. Slurm's are last: under `srun torchrun` they count the tasks
 * of nodes, not ranks. */
static const char *const rank_names[] = { "RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
					  "PMI_RANK", "SLURM_PROCID",         NULL };
static const char *const local_rank_names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
						"MPI_LOCALRANKID", "SLURM_LOCALID", NULL };
static const char *const world_names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					   "SLURM_NTASKS", NULL };
static const char *const local_world_names[] = { "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
						 "SLURM_NTASKS_PER_NODE", NULL };
static const char *const node_names[] = { "NODE_RANK", NULL };
static const char *const job_names[] = { "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
					 "LSB_JOBID", NULL };

/* Variables kept in the trace: they change the memory use of a job, or identify the machine on
 * which it ran. */
static const char *const kept_prefixes[] = { "PYTORCH_",
					     "TORCH_",
					     "TORCHELASTIC_",
					     "TORCHINDUCTOR_",
					     "TRITON_",
					     "NCCL_",
					     "CUBLAS_",
					     "CUBLASLT_",
					     "CUDNN_",
					     "CUDA_",
					     "NVIDIA_",
					     "NVTE_",
					     "ACCELERATE_",
					     "FSDP_",
					     "MEGATRON_",
					     "DEEPSPEED_",
					     "DS_",
					     "TRANSFORMERS_",
					     "SLURM_",
					     "OMPI_COMM_WORLD_",
					     "MEMTRACE_",
					     "CUDASIM_",
					     "OMP_NUM_THREADS",
					     "RANK",
					     "LOCAL_RANK",
					     "WORLD_SIZE",
					     "LOCAL_WORLD_SIZE",
					     "NODE_RANK",
					     "GROUP_RANK",
					     "GROUP_WORLD_SIZE",
					     "MASTER_ADDR",
					     "MASTER_PORT",
					     NULL };

static const char *first_set(const char *const *names)
{
	const char *v;

	for (; *names; names++)
		if ((v = getenv(*names)) && *v && strcmp(v, "none") != 0)
			return v;
	return NULL;
}

static int number(const char *const *names, int otherwise)
{
	const char *v = first_set(names);
	char *end;
	long n;

	if (!v)
		return otherwise;
	n = strtol(v, &end, 10);
	return end == v || n < 0 || n > INT32_MAX ? otherwise : (int)n;
}

/* The rest of this file runs once in a process, when recording begins, perhaps on a thread with a
 * small stack: large variables are static. */
static long read_proc(unsigned pid, const char *what, char *buffer, size_t bytes)
{
	struct short_text path = { 0 };
	long n;

	text_str(&path, "/proc/");
	text_number(&path, pid);
	text_str(&path, what);
	n = file_read(path.s, buffer, bytes - 1);
	buffer[n < 0 ? 0 : n] = 0;
	return n < 0 ? 0 : n;
}

static int has_variable(unsigned pid, const char *name)
{
	static char environment[256u << 10];
	long n = read_proc(pid, "/environ", environment, sizeof(environment));
	size_t length = strlen(name);

	for (const char *e = environment; e < environment + n; e += strlen(e) + 1)
		if (strncmp(e, name, length) == 0 && e[length] == '=')
			return 1;
	return 0;
}

/* Field 4 of /proc/PID/stat, two fields after the name, which may contain any character. */
static unsigned parent_of(unsigned pid)
{
	static char stat[512]; /* two numbers and the name, of 64 bytes at most, come first */
	const char *p;

	read_proc(pid, "/stat", stat, sizeof(stat));
	p = strrchr(stat, ')');
	return p && strlen(p) > 4 ? (unsigned)strtoul(p + 4, NULL, 10) : 0;
}

/* Was this process made by Python's multiprocessing (torch.multiprocessing.spawn)? */
static int is_multiprocessing(unsigned pid, unsigned ppid)
{
	static char mine[4096], theirs[4096];
	long n = read_proc(pid, "/cmdline", mine, sizeof(mine)),
	     m = read_proc(ppid, "/cmdline", theirs, sizeof(theirs));

	for (long i = 0; i < n; i++)
		if (!mine[i])
			mine[i] = ' ';
	return strstr(mine, "multiprocessing") != NULL ||
	       (n == m && n > 0 && memcmp(mine, theirs, (size_t)n) == 0);
}

/*
 * The process that started the run: the nearest ancestor without a rank variable (the agent of
 * torchrun, even if a shell script starts each worker); the parent of a child of multiprocessing;
 * else the process itself. Lightning's first process sets the variables itself, and starts the
 * others.
 */
static unsigned launcher_of(struct identity *w)
{
	const char *name = NULL;
	unsigned pid = w->ppid;

	for (const char *const *n = rank_names; *n && !name; n++)
		if (getenv(*n))
			name = *n;
	w->is_child = !name && is_multiprocessing(w->pid, w->ppid);
	if (!name && !w->is_child && w->rank >= 0) {
		name = local_rank_names[0];
		pid = w->pid;
	}
	if (!name)
		return w->is_child ? w->ppid : w->pid;
	for (unsigned i = 0; i < 8 && pid > 1 && has_variable(pid, name); i++)
		pid = parent_of(pid);
	return pid > 1 ? pid : w->ppid;
}

/* Lightning's launcher says which node and which process of it this is: on the first node, the
 * rank. The size of the nodes before another one is not known. */
static int rank_on_first_node(const struct identity *w)
{
	return w->world_size > w->local_rank && number(node_names, -1) == 0 ? w->local_rank : -1;
}

/* Field 22 of /proc/PID/stat: start time in clock ticks since boot. */
static uint64_t start_of(unsigned pid)
{
	static char stat[512]; /* 22 numbers and the name */
	int field = 2;
	char *p;

	read_proc(pid, "/stat", stat, sizeof(stat));
	p = strrchr(stat, ')');
	for (; p && *p && field < 22; p++)
		if (*p == ' ')
			field++;
	return p ? strtoull(p, NULL, 10) * (1000000000u / (unsigned long)sysconf(_SC_CLK_TCK)) : 0;
}

static void copy_clean(char *to, size_t bytes, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < bytes && from[i]; i++)
		to[i] = isalnum((unsigned char)from[i]) || strchr("._-", from[i]) ? from[i] : '_';
	to[i] = 0;
}

/*
 * The run id is equal in all processes of a run and different in two runs. It contains the
 * scheduler's job and step; on one node also the launcher: the parent (torchrun's agent, a Python
 * that spawned this process) or, without one, this process.
 */
static void name_run(struct identity *w)
{
	const char *step = getenv("SLURM_STEP_ID"), *port = getenv("MASTER_PORT"),
		   *address = getenv("MASTER_ADDR");
	int many_nodes =
		w->world_size > 0 && w->local_world_size > 0 && w->world_size > w->local_world_size;
	unsigned launcher = launcher_of(w);
	struct short_text t = { 0 };

	w->launcher_start_ns = start_of(launcher);
	text_str(&t, w->job_id);
	if (*w->job_id && step) {
		text_str(&t, ".");
		text_str(&t, step);
	}
	if (many_nodes && !*w->job_id && address) {
		text_str(&t, address);
		text_str(&t, "_");
		text_str(&t, port ? port : "");
	} else if (!many_nodes || !*w->job_id) {
		text_str(&t, *w->job_id ? "-" : "");
		text_number(&t, launcher);
		text_str(&t, "-");
		text_number(&t, w->launcher_start_ns / 10000000);
	}
	copy_clean(w->run_id, sizeof(w->run_id), t.s);
}

void identity_read(struct identity *w)
{
	const char *job = first_set(job_names);
	static struct utsname u;
	static const char *const restart_names[] = { "TORCHELASTIC_RESTART_COUNT",
						     "SLURM_RESTART_COUNT", NULL };

	memset(w, 0, sizeof(*w));
	w->rank = number(rank_names, -1);
	w->local_rank = number(local_rank_names, -1);
	w->world_size = number(world_names, -1);
	w->local_world_size = number(local_world_names, -1);
	w->restart_count = number(restart_names, 0);
	if (w->rank < 0)
		w->rank = rank_on_first_node(w);
	w->pid = (unsigned)getpid();
	w->ppid = (unsigned)getppid();
	copy_clean(w->host, sizeof(w->host), uname(&u) == 0 ? u.nodename : "unknown");
	copy_clean(w->job_id, sizeof(w->job_id), job ? job : "");
	name_run(w);
}

#define MAX_KEPT (128u << 10) /* bytes of command line, configuration or one variable */
#define MAX_NAME 128          /* bytes of a variable's name */

/* Stores the masked text M. If the text was cut, also stores a note that WHAT is longer. */
static void store(const char *key, const char *name, struct masked *m, int cut, const char *what)
{
	static const char said[] = " is longer than 128 KiB: the trace has its beginning";
	char note[MAX_NAME + sizeof(said)];
	size_t n = strlen(what);

	tables_meta(key, name, m->s, m->n);
	if (!cut && !m->cut)
		return;
	memcpy(note, what, n);
	memcpy(note + n, said, sizeof(said));
	tables_meta(MT_META_NOTE, what, note, n + sizeof(said) - 1);
}

/* Buffers of the one thread that begins a trace and describes the process. */
static char whole[MAX_KEPT], kept[MAX_KEPT];

static void describe_arguments(void)
{
	struct masked m = { kept, 0, sizeof(kept), 0 };
	long n = file_read("/proc/self/cmdline", whole, sizeof(whole));
	int cut = n == (long)sizeof(whole);

	n = n < 0 ? 0 : n == (long)sizeof(whole) ? n - 1 : n;
	whole[n] = 0;
	secret_mask_arguments(&m, whole, (size_t)n);
	store(MT_META_ARGV, "", &m, cut, "the command line");
}

void identity_add_config(const char *text, size_t n, int cut)
{
	struct masked m = { kept, 0, sizeof(kept), 0 };

	secret_mask_file(&m, text, n);
	store(MT_META_CONFIG, "", &m, cut, "MEMTRACE_CONFIG");
}

static int is_kept(const char *name, size_t n)
{
	for (const char *const *p = kept_prefixes; *p; p++) {
		size_t length = strlen(*p);
		if (n >= length && memcmp(name, *p, length) == 0 &&
		    ((*p)[length - 1] == '_' || n == length))
			return 1;
	}
	return 0;
}

static void describe_environment(void)
{
	for (char **e = environ; e && *e; e++) {
		const char *equals = strchr(*e, '=');
		struct masked m = { kept, 0, sizeof(kept), 0 };
		char name[MAX_NAME];
		size_t n = equals ? (size_t)(equals - *e) : 0;
		if (!n || n >= sizeof(name) || !is_kept(*e, n))
			continue;
		memcpy(name, *e, n);
		name[n] = 0;
		secret_mask_value(&m, name, equals + 1, strlen(equals + 1));
		store(MT_META_ENV, name, &m, 0, name);
	}
}

void identity_describe(void)
{
	ssize_t n;

	describe_arguments();
	describe_environment();
	if (getcwd(whole, sizeof(whole)))
		tables_meta(MT_META_CWD, "", whole, strlen(whole));
	n = readlink("/proc/self/exe", whole, sizeof(whole));
	if (n > 0)
		tables_meta(MT_META_EXE, "", whole, (size_t)n);
}
