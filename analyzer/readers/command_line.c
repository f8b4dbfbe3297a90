/* The launcher's part of a command line, the script, and the framework that the script's flags
 * belong to. */
#define _GNU_SOURCE /* basename */
#include "readers/command_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "readers/accelerate.h"
#include "readers/deepspeed.h"
#include "readers/files.h"
#include "readers/flags.h"
#include "readers/megatron.h"
#include "readers/torchtitan.h"
#include "readers/trainer.h"
#include "util/util.h"
#include "util/base64.h"
#include "util/json_text.h"

/* ---- the launcher ---- */

static int64_t count_of(const struct flags *f, const char *const *keys)
{
	for (; *keys; keys++) {
		const struct flag *flag = flags_find(f, *keys);
		char *end;
		int64_t n;

		if (!flag || !flag->value)
			continue;
		n = strtoll(flag->value, &end, 10);
		if (end != flag->value && (!*end || *end == ':' || *end == ',') && n > 0 &&
		    n <= 10000000)
			return n;
	}
	return 0;
}

/* DeepSpeed's launcher: base64 of {"host": [0,1,2,3], …}. */
static int64_t count_world_info(const char *value, int64_t *nodes)
{
	size_t length;
	char *text = base64_decode(value, &length);
	struct err ignored = { "" };
	struct doc_node *root = text ? doc_read_json(text, length, "world_info", &ignored) : NULL;
	int64_t ranks = 0;

	*nodes = 0;
	for (const struct doc_node *n = root && root->kind == DOC_MAP ? root->first : NULL; n;
	     n = n->next) {
		*nodes += 1;
		for (const struct doc_node *i = n->kind == DOC_LIST ? n->first : NULL; i;
		     i = i->next)
			ranks++;
	}
	doc_free(root);
	free(text);
	return ranks;
}

/* The number of ranks and nodes from torchrun, deepspeed, accelerate launch, srun. `outer`: the
 * flags before the launcher itself (srun), which starts one launcher on each node. */
static int read_launcher(struct reader *r, const char *launcher, const struct flags *outer,
			 const struct flags *f)
{
	static const char *const all[] = { "num_processes", "ntasks", "np", "n", NULL };
	static const char *const per_node[] = { "nproc_per_node", "num_gpus", "ntasks_per_node",
						NULL };
	static const char *const nodes[] = { "nnodes", "num_nodes", "num_machines",
					     "nodes",  "N",         NULL };
	const struct flag *file = flags_find(f, "config_file");
	const struct flag *info = flags_find(f, "world_info");
	int64_t n = count_of(f, nodes), each = count_of(f, per_node);
	int64_t world = count_of(f, all);

	if (!n)
		n = count_of(outer, nodes);
	if (info && info->value)
		world = count_world_info(info->value, &n);
	if (info && n && world % n == 0)
		each = world / n;
	if (file && file->value && r->read_file(r, file->value, 1))
		return -1;
	if (!world && each)
		world = each * (n ? n : 1);
	if (each && config_set_int(r->c, CONFIG_num_gpus_per_node, each, launcher, r->e))
		return -1;
	if (n && config_set_int(r->c, CONFIG_num_nodes, n, launcher, r->e))
		return -1;
	return world ? config_set_int(r->c, CONFIG_world_size, world, launcher, r->e) : 0;
}

static int launches(const char *module)
{
	return !strncmp(module, "torch.distributed", 17) ||
	       !strncmp(module, "accelerate.commands", 19) ||
	       !strncmp(module, "deepspeed.launcher", 18);
}

/* The index of the last launcher before the script: srun starts torchrun, torchrun the script. */
static int find_launcher(int argc, char **argv)
{
	static const char *const names[] = { "torchrun", "accelerate", "deepspeed", "mpirun",
					     "mpiexec",  "srun",       "torch" };
	int found = 0;

	for (int i = 0; i < argc; i++) {
		if (launches(argv[i]))
			found = i;
		for (size_t k = 0; k < ARRAY_SIZE(names); k++)
			if (!strcmp(basename(argv[i]), names[k]))
				found = i;
	}
	return found;
}

static int is_accelerate(int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (!strcmp(basename(argv[i]), "accelerate") ||
		    !strncmp(argv[i], "accelerate.commands", 19))
			return 1;
	return 0;
}

/* The index of the training script or module; argc: there is none. */
static int find_script(int argc, char **argv)
{
	for (int i = 0; i < argc; i++) {
		if (ends_with(argv[i], ".py") && !is_flag(argv[i]))
			return i;
		if ((!strcmp(argv[i], "-m") || !strcmp(argv[i], "--module")) && i + 1 < argc) {
			if (launches(argv[i + 1]))
				i++;
			else if (strchr(argv[i + 1], '.') || !strcmp(argv[i], "-m"))
				return i + 1;
		}
	}
	return argc;
}

/* ---- the whole ---- */

/* The sizes of a script that belongs to no known framework whose options' names say what they are.
 */
static int read_plain_sizes(struct reader *r, const struct flags *f)
{
	static const struct {
		const char *key, *option;
		enum config_field field;
	} sizes[] = {
		{ "micro_batch_size", "--micro-batch-size", CONFIG_micro_batch_size },
		{ "tensor_model_parallel_size", "--tensor-model-parallel-size",
		  CONFIG_tensor_model_parallel_size },
		{ "pipeline_model_parallel_size", "--pipeline-model-parallel-size",
		  CONFIG_pipeline_model_parallel_size },
	};

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		const char *const keys[] = { sizes[i].key, NULL };
		int64_t n = count_of(f, keys);

		if (n && config_set_int(r->c, sizes[i].field, n, sizes[i].option, r->e))
			return -1;
	}
	return 0;
}

static int read_script(struct reader *r, const struct flags *f, const char *script)
{
	if (config_read_deepspeed_flags(r, f))
		return -1;
	if (megatron_knows(f) || !strncmp(basename(script), "pretrain_", 9))
		return megatron_read_script(r, basename(script)) ? -1 : config_read_megatron(r, f);
	if (!strncmp(script, "torchtitan", 10) || torchtitan_knows(f))
		return config_read_torchtitan(r, f);
	if (trainer_knows(f))
		return config_read_trainer(r, f);
	if (r->c->from_framework)
		return 0;
	if (f->count)
		config_note(
			r->c,
			"%s: its arguments are no framework's that is known; declare the job with --config",
			*script ? script : "the command line");
	return read_plain_sizes(r, f);
}

static int read_launchers(struct reader *r, int argc, char **argv)
{
	int at = find_launcher(argc, argv), status;
	struct flags outer = { 0 }, own = { 0 };

	flags_split(&outer, at, argv);
	flags_split(&own, argc - at, argv + at);
	status = read_launcher(r, argv[at], &outer, &own);
	if (!status && is_accelerate(argc, argv))
		status = config_read_accelerate_flags(r, &own);
	flags_release(&outer);
	flags_release(&own);
	return status;
}

static int read_argv(struct reader *r, int argc, char **argv)
{
	int script = find_script(argc, argv), start = script < argc ? script : 0, status = 0;
	struct flags own = { 0 };

	if (argc == 0)
		return 0;
	if (start > 0 && read_launchers(r, start, argv))
		return -1;
	flags_split(&own, argc - start, argv + start);
	status = read_script(r, &own, script < argc ? argv[script] : "");
	flags_release(&own);
	return status;
}

/* Sets the field `environment` to one JSON object of the "K=V" strings. */
static int keep_environment(struct reader *r, char **env, unsigned count)
{
	json_t *object;
	char *text;
	int status;

	if (!count)
		return 0;
	for (unsigned i = 0; i < count; i++)
		if (!strchr(env[i], '='))
			return err_set(r->e, "--env %.60s: not K=V", env[i]);
	object = json_object();
	for (unsigned i = 0; i < count; i++) {
		const char *equals = strchr(env[i], '=');
		char *name = xasprintf("%.*s", (int)(equals - env[i]), env[i]);

		json_set_text(object, name, equals + 1);
		free(name);
	}
	text = json_dumps(object, JSON_COMPACT);
	r->key = "environment";
	r->origin = "environment";
	status = reader_put(r, CONFIG_environment, text);
	free(text);
	json_decref(object);
	return status;
}

int config_read_arguments(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			  int lenient, struct err *e)
{
	struct reader r;

	reader_init(&r, c, "command line", e);
	r.lenient = lenient;
	if (keep_environment(&r, env, env_count) || config_read_accelerate_env(&r, env, env_count))
		return -1;
	for (unsigned i = 0; i < env_count; i++) {
		r.key = r.origin = "WORLD_SIZE";
		if (!strncmp(env[i], "WORLD_SIZE=", 11) &&
		    reader_put(&r, CONFIG_world_size, env[i] + 11))
			return -1;
	}
	r.origin = "command line";
	r.key = "";
	return read_argv(&r, argc, argv);
}

int config_read_command(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			struct err *e)
{
	return config_read_arguments(c, argc, argv, env, env_count, 0, e);
}
