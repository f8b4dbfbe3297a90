#define _GNU_SOURCE
#include "who.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tables.h"
#include "text.h"

extern char **environ;

/* First set wins. Slurm's come last: under `srun torchrun` they count nodes' tasks, not ranks. */
static const char *const rank_names[] = { "RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
					  "PMI_RANK", "SLURM_PROCID",         NULL };
static const char *const local_rank_names[] = { "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
						"MPI_LOCALRANKID", "SLURM_LOCALID", NULL };
static const char *const world_names[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
					   "SLURM_NTASKS", NULL };
static const char *const local_world_names[] = { "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
						 "SLURM_NTASKS_PER_NODE", NULL };
static const char *const job_names[] = { "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
					 "LSB_JOBID", NULL };

/* Variables kept in the trace: those that change what memory a job uses, or say where it ran. */
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

/* Field 22 of /proc/PID/stat: start in clock ticks since boot. */
static uint64_t start_of(unsigned pid)
{
	struct text path = { 0 };
	char stat[1024], *p;
	long n;
	int field = 2;

	text_str(&path, "/proc/");
	text_number(&path, pid);
	text_str(&path, "/stat");
	n = file_read(path.s, stat, sizeof(stat) - 1);
	stat[n < 0 ? 0 : n] = 0;
	p = strrchr(stat, ')'); /* the name before it may hold anything */
	for (; p && *p && field < 22; p++)
		if (*p == ' ')
			field++;
	return p ? strtoull(p, NULL, 10) * (1000000000u / (unsigned long)sysconf(_SC_CLK_TCK)) : 0;
}

static int same_executable(unsigned pid)
{
	struct text path = { 0 };
	char mine[1024], theirs[1024];
	ssize_t a = readlink("/proc/self/exe", mine, sizeof(mine)), b;

	text_str(&path, "/proc/");
	text_number(&path, pid);
	text_str(&path, "/exe");
	b = readlink(path.s, theirs, sizeof(theirs));
	return a > 0 && a == b && memcmp(mine, theirs, (size_t)a) == 0;
}

static void copy_clean(char *to, size_t bytes, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < bytes && from[i]; i++)
		to[i] = isalnum((unsigned char)from[i]) || strchr("._-", from[i]) ? from[i] : '_';
	to[i] = 0;
}

/*
 * The same for every process of a run, different for two runs: the scheduler's job and step; on one
 * node also the launcher, which is the parent (torchrun's agent, a Python that spawned us) or,
 * without one, this process.
 */
static void name_run(struct who *w)
{
	const char *step = getenv("SLURM_STEP_ID"), *port = getenv("MASTER_PORT"),
		   *address = getenv("MASTER_ADDR");
	int many_nodes =
		w->world_size > 0 && w->local_world_size > 0 && w->world_size > w->local_world_size;
	unsigned launcher = first_set(rank_names) || same_executable(w->ppid) ? w->ppid : w->pid;
	struct text t = { 0 };

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

void who_am_i(struct who *w)
{
	const char *job = first_set(job_names);
	struct utsname u;
	static const char *const restart_names[] = { "TORCHELASTIC_RESTART_COUNT",
						     "SLURM_RESTART_COUNT", NULL };

	memset(w, 0, sizeof(*w));
	w->rank = number(rank_names, -1);
	w->local_rank = number(local_rank_names, -1);
	w->world_size = number(world_names, -1);
	w->local_world_size = number(local_world_names, -1);
	w->restart_count = number(restart_names, 0);
	w->pid = (unsigned)getpid();
	w->ppid = (unsigned)getppid();
	copy_clean(w->host, sizeof(w->host), uname(&u) == 0 ? u.nodename : "unknown");
	copy_clean(w->job_id, sizeof(w->job_id), job ? job : "");
	name_run(w);
}

static int ends_with_word(const char *name, size_t n, const char *word)
{
	size_t w = strlen(word);

	return n >= w && strncasecmp(name + n - w, word, w) == 0 &&
	       (n == w || !isalnum((unsigned char)name[n - w - 1]));
}

int who_is_secret(const char *name, size_t n, const char *value)
{
	static const char *const words[] = { "token",         "secret",        "password",
					     "passwd",        "passphrase",    "credential",
					     "credentials",   "apikey",        "api_key",
					     "api-key",       "access_key",    "access-key",
					     "secret_key",    "secret-key",    "private_key",
					     "private-key",   "auth_key",      "auth-key",
					     "access_key_id", "access-key-id", "pat",
					     "auth",          "cookie",        NULL };
	static const char *const shapes[] = { "hf_",         "sk-",    "ghp_",  "gho_",
					      "github_pat_", "glpat-", "xoxb-", "xoxp-",
					      "AKIA",        "ASIA",   "eyJ",   NULL };
	const char *scheme = strstr(value, "://"), *at;

	for (const char *const *w = words; *w; w++)
		if (ends_with_word(name, n, *w))
			return 1;
	for (const char *const *s = shapes; *s; s++)
		if (strncmp(value, *s, strlen(*s)) == 0 && strlen(value) >= 16)
			return 1;
	/* user:password@host in a URL */
	return scheme && (at = strchr(scheme + 3, '@')) &&
	       memchr(scheme + 3, ':', (size_t)(at - scheme - 3)) &&
	       !memchr(scheme + 3, '/', (size_t)(at - scheme - 3));
}

/* Copies the arguments, with "***" for what looks like a secret: the value of --option=value, or
 * the argument after --option. */
static void describe_arguments(void)
{
	static char line[128u << 10], out[sizeof(line) + 4096];
	long n = file_read("/proc/self/cmdline", line, sizeof(line) - 1);
	const char *option = "";
	size_t o = 0;

	n = n < 0 ? 0 : n;
	line[n] = 0;
	for (char *a = line; a < line + n; a += strlen(a) + 1) {
		const char *equals = a[0] == '-' ? strchr(a, '=') : NULL, *keep = a;
		size_t kept = strlen(a);
		int hide = equals ? who_is_secret(a, (size_t)(equals - a), equals + 1)
				  : who_is_secret(option, strlen(option), a);
		if (hide && !(a[0] == '-' && !equals))
			kept = equals ? (size_t)(equals + 1 - a) : 0;
		else
			hide = 0;
		if (o + kept + 4 > sizeof(out))
			break;
		memcpy(out + o, keep, kept);
		memcpy(out + o + kept, "***", 3);
		o += kept + (hide ? 3 : 0);
		out[o++] = 0;
		option = a[0] == '-' && !equals ? a : "";
	}
	tables_meta(MT_META_ARGV, "", out, o ? o - 1 : 0);
}

static void describe_environment(void)
{
	for (char **e = environ; e && *e; e++) {
		const char *equals = strchr(*e, '=');
		struct text name = { 0 };
		if (!equals)
			continue;
		for (const char *const *p = kept_prefixes; *p; p++) {
			size_t n = strlen(*p);
			if (strncmp(*e, *p, n) != 0 || ((*p)[n - 1] != '_' && *e + n != equals))
				continue;
			text_bytes(&name, *e, (size_t)(equals - *e));
			if (who_is_secret(name.s, name.n, equals + 1))
				tables_meta(MT_META_ENV, name.s, "***", 3);
			else
				tables_meta(MT_META_ENV, name.s, equals + 1, strlen(equals + 1));
			break;
		}
	}
}

void who_describe(void)
{
	char path[4096];
	ssize_t n;

	describe_arguments();
	describe_environment();
	if (getcwd(path, sizeof(path)))
		tables_meta(MT_META_CWD, "", path, strlen(path));
	n = readlink("/proc/self/exe", path, sizeof(path));
	if (n > 0)
		tables_meta(MT_META_EXE, "", path, (size_t)n);
}
