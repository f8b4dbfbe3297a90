#define _GNU_SOURCE
#include "simulate/rank_env.h"

#include "util/buf.h"
#include "util/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INJECTED "cudasim/python/sitecustomize.py"

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Removes SLURM_ variables: this process may be a task of a job array, and its ranks are not. */
static void forget_slurm(void)
{
	for (size_t i = 0; environ[i];) {
		char *name = strndup(environ[i], strcspn(environ[i], "="));

		if (!strncmp(environ[i], "SLURM_", 6) && name)
			unsetenv(name);
		else
			i++;
		free(name);
	}
}

void rank_env_name_run(void)
{
	const char *given = getenv("TORCHELASTIC_RUN_ID");
	char name[64];

	snprintf(name, sizeof(name), "simulate-%lld-%d", (long long)time(NULL), (int)getpid());
	if (!given || !*given || !strcmp(given, "none"))
		setenv("TORCHELASTIC_RUN_ID", name, 1);
}

static void set_slurm(const struct simulation *s, int rank)
{
	set_number("SLURM_PROCID", rank);
	set_number("SLURM_LOCALID", rank % s->gpus_a_node);
	set_number("SLURM_NODEID", rank / s->gpus_a_node);
	set_number("SLURM_NTASKS", s->world);
	set_number("SLURM_NPROCS", s->world);
	set_number("SLURM_NNODES", (s->world + s->gpus_a_node - 1) / s->gpus_a_node);
}

static void set_ranks(const char *name, const int *ranks, size_t count)
{
	struct buf list = { 0 };

	for (size_t i = 0; i < count; i++)
		buf_addf(&list, "%s%d", i ? "," : "", ranks[i]);
	setenv(name, list.text ? list.text : "", 1);
	buf_release(&list);
}

/* Sets the ranks that run, for the simulated device and for the injected Python modules. */
static void set_peers(const struct simulation *s, const struct store *store, size_t port)
{
	int running[TOGETHER_RANKS];

	unsetenv(store->ranks > 1 ? "CUDASIM_ALONE" : "CUDASIM_TOGETHER");
	if (store->ranks > 1)
		setenv("CUDASIM_TOGETHER", board_name(&store->board, port), 1);
	else
		setenv("CUDASIM_ALONE", "1", 1);
	for (size_t i = 0; i < store->ranks; i++)
		running[i] = store->ports[i].rank;
	set_ranks("SIMULATE_RANKS", running, store->ranks);
	set_ranks("SIMULATE_ASKED", s->ranks, s->rank_count);
}

void rank_env_set(const struct simulation *s, const struct worker *w, int rank,
		  const struct store *store, size_t port)
{
	int local_world = s->world < s->gpus_a_node ? s->world : s->gpus_a_node;

	set_number("RANK", rank);
	set_number("LOCAL_RANK", rank % s->gpus_a_node);
	set_number("WORLD_SIZE", s->world);
	set_number("LOCAL_WORLD_SIZE", local_world);
	set_number("GROUP_RANK", rank / s->gpus_a_node);
	set_number("GROUP_WORLD_SIZE", (s->world + s->gpus_a_node - 1) / s->gpus_a_node);
	set_number("NODE_RANK", rank / s->gpus_a_node);
	set_number("ROLE_RANK", rank);
	set_number("ROLE_WORLD_SIZE", s->world);
	setenv("ROLE_NAME", "default", 1);
	setenv("MASTER_ADDR", "127.0.0.1", 1);
	set_number("MASTER_PORT", store->ports[port].number);
	setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
	setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
	setenv("TORCHELASTIC_MAX_RESTARTS", "0", 1);
	setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0);
	setenv("OMP_NUM_THREADS", "1", 0);
	/* A rank that hangs is ended by SIGABRT: Python then prints the stack of each thread. */
	setenv("PYTHONFAULTHANDLER", "1", 0);
	set_peers(s, store, port);
	forget_slurm();
	if (w->is_slurm)
		set_slurm(s, rank);
}

int rank_env_inject(int steps, struct err *e)
{
	const char *old = getenv("PYTHONPATH");
	char *path = launch_find(INJECTED, e), *value;
	char number[16];

	if (!path)
		return -1;
	*strrchr(path, '/') = '\0';
	value = xasprintf("%s%s%s", path, old && *old ? ":" : "", old ? old : "");
	snprintf(number, sizeof(number), "%d", steps);
	setenv("PYTHONPATH", value, 1);
	if (steps)
		setenv("SIMULATE_STEPS", number, 1);
	free(value);
	free(path);
	return 0;
}
