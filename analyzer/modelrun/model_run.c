#define _GNU_SOURCE /* nftw, environ */
#include "modelrun/model_run.h"

#include "readers/document.h"
#include "estimate/device.h"
#include "modelrun/model_cache.h"
#include "modelrun/python_find.h"
#include "modelrun/run_fields.h"
#include "simulate/summary.h"
#include "util/buf.h"
#include "util/launch.h"
#include "util/shell.h"
#include "util/version.h"

#include <errno.h>
#include <ftw.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SCRIPT "cudasim/python/memtrace_model.py"
#define MOST_RANKS 1000000

/* One run: its folder, with what goes in and what comes out. */
struct model_job {
	const struct config *c;
	struct python python;
	char *folder, *script, *asked; /* the text of JOB.json */
};

/* The variables of a job by which a run's memory differs. */
static const char *const variables[] = { "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
					 "PYTORCH_NO_CUDA_MEMORY_CACHING",
					 "CUBLAS_WORKSPACE_CONFIG" };

/* Variables of the user's shell by which a run, or its trace, differs: they are no part of the job,
 * and the result is kept for other shells. */
static const char *const foreign[] = { "PYTORCH_",      "CUBLAS_",      "CUDNN_", "CUDA_DEVICE_",
				       "CUDA_VISIBLE_", "CUDA_MODULE_", "NCCL_",  "TORCH_NCCL_",
				       "CUDASIM_",      "MEMTRACE_" };

static int is_foreign(const char *variable)
{
	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (!strncmp(variable, foreign[i], strlen(foreign[i])))
			return 1;
	return 0;
}

/* A shell cannot unset a name that has other characters. */
static size_t name_length(const char *variable)
{
	size_t length = strspn(variable, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
					 "0123456789_");

	return variable[length] == '=' ? length : 0;
}

static void add_foreign(struct buf *b)
{
	for (char **v = environ; v && *v; v++)
		if (is_foreign(*v) && name_length(*v))
			buf_addf(b, " %.*s", (int)name_length(*v), *v);
}

static json_t *environment_of(const struct config *c)
{
	json_t *all =
		config_has(c, CONFIG_environment) ? json_loads(c->environment, 0, NULL) : NULL;
	json_t *kept = json_object();

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		if (json_is_string(json_object_get(all, variables[i])))
			json_object_set(kept, variables[i], json_object_get(all, variables[i]));
	json_decref(all);
	return kept;
}

static void add_environment(struct buf *b, const struct config *c)
{
	json_t *kept = environment_of(c);

	buf_puts(b, "unset");
	add_foreign(b);
	buf_puts(b, "; ");
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *value = json_string_value(json_object_get(kept, variables[i]));

		if (!value)
			continue;
		buf_addf(b, "%s=", variables[i]);
		shell_add_word(b, (struct str){ value, strlen(value) });
		buf_puts(b, " ");
	}
	json_decref(kept);
}

/* The text of JOB.json: what the file of the model is called, the fields that the run obeys, and
 * the sizes of a model without a file, as text. */
static char *text_of_job(const struct config *c)
{
	json_t *fields = json_object(), *sizes = json_object(), *root;
	char *text;

	for (int f = 0; f < CONFIG_FIELDS; f++) {
		const char *key = run_field_key(c, f);
		struct buf value = { 0 };
		json_t *as_text;

		if (!run_field_is_told(c, f))
			continue;
		config_value(c, f, &value);
		as_text = json_stringn(value.text ? value.text : "", value.length);
		json_object_set_new(key ? sizes : fields, key ? key : config_name(f), as_text);
		buf_release(&value);
	}
	root = json_pack("{s:s?, s:o, s:o, s:o}", "model", c->model_file, "sizes", sizes, "job",
			 fields, "environment", environment_of(c));
	text = json_dumps(root, JSON_SORT_KEYS);
	json_decref(root);
	return text;
}

/* DeepSpeed takes a job without ranks for one of MPI. */
static int has_ranks(const struct config *c, int64_t world)
{
	return world > 1 || (config_has(c, CONFIG_framework) && !strcmp(c->framework, "deepspeed"));
}

/* The options of `memtrace simulate` that decide a run's result: its GPU, and its ranks, of which
 * the first runs. */
static void add_options(struct buf *b, const struct config *c)
{
	const struct gpu *gpu = config_has(c, CONFIG_gpu) ? gpu_find(c->gpu) : NULL;
	int64_t world = config_has(c, CONFIG_world_size) ? c->world_size : 1;

	if (config_has(c, CONFIG_data_parallel_size) && c->data_parallel_size > world)
		world = c->data_parallel_size;
	buf_puts(b, "--memory 8TiB ");
	if (gpu)
		buf_addf(b, "--gpu %s ", gpu->name);
	if (has_ranks(c, world) && world <= MOST_RANKS)
		buf_addf(b, "--world-size %lld --ranks 0 ", (long long)world);
}

/* The files of memtrace that decide a run's result: their contents are part of its key. */
static const char *const programs[] = { "libcudasim.so", "libmemtrace.so", SCRIPT,
					"cudasim/python/memtrace_inputs.py",
					"cudasim/python/memtrace_train.py" };

static int add_programs(struct buf *key, struct err *e)
{
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		char *path = launch_find(programs[i], e);
		uint64_t hash = 0;
		int status = path ? model_cache_hash(path, &hash, e) : -1;

		free(path);
		if (status)
			return -1;
		buf_addf(key, "%s %016llx\n", programs[i], (unsigned long long)hash);
	}
	return 0;
}

/* All that decides the result, as one text. NULL: a file cannot be read. */
static char *key_of(const struct model_job *j, struct err *e)
{
	struct buf key = { 0 };
	size_t length;
	char *model = NULL;

	if (j->c->model_file)
		model = doc_file_text(j->c->model_file, &length, e);
	if ((model || !j->c->model_file) && !add_programs(&key, e)) {
		add_options(&key, j->c);
		buf_addf(&key, "\nmemtrace %s\n%s%s\n%s\n%s", MEMTRACE_VERSION, j->python.versions,
			 j->python.others, j->asked, model ? model : "");
	} else {
		buf_release(&key);
	}
	free(model);
	return key.length ? buf_take(&key) : NULL;
}

static int write_file(const char *path, const char *text, struct err *e)
{
	FILE *f = fopen(path, "w");
	int bad = !f || fputs(text, f) < 0;

	if ((f && fclose(f)) || bad)
		return err_set(e, "%s: %s", path, strerror(errno));
	return 0;
}

static void add_path(struct buf *b, const char *folder, const char *name)
{
	char *path = xasprintf("%s%s%s", folder ? folder : "", folder ? "/" : "", name);

	shell_add_word(b, (struct str){ path, strlen(path) });
	buf_puts(b, " ");
	free(path);
}

/* `memtrace simulate` of the script, by this program itself, in an environment of its own. NULL:
 * the program's path is unknown. */
static char *command_of(const struct model_job *j, struct err *e)
{
	char *self = launch_self(e);
	struct buf b = { 0 };

	if (!self)
		return NULL;
	add_environment(&b, j->c);
	buf_puts(&b,
		 "MEMTRACE_QUIET=1 CUDASIM_QUIET=1 HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false ");
	add_path(&b, NULL, self);
	free(self);
	buf_puts(&b, "simulate -o ");
	add_path(&b, j->folder, "traces");
	add_options(&b, j->c);
	buf_puts(&b, "-- ");
	add_path(&b, NULL, j->python.path);
	add_path(&b, NULL, j->script);
	add_path(&b, j->folder, "job.json");
	add_path(&b, j->folder, "result.json");
	buf_puts(&b, ">");
	add_path(&b, j->folder, "log");
	buf_puts(&b, "2>&1 </dev/null");
	return buf_take(&b);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st, (void)kind, (void)at;
	return remove(path);
}

/* Adds the peak of the trace to the result. */
static int add_report(const struct model_job *j, json_t *result, struct err *e)
{
	char *folder = xasprintf("%s/traces", j->folder);
	struct report r = { 0 };
	const struct rank *rank = NULL;
	json_t *categories = json_object();
	int status = summary_read(folder, 0, 0, &r);

	for (size_t i = 0; !status && i < r.count; i++)
		if (!rank || r.ranks[i].peak_allocated > rank->peak_allocated)
			rank = &r.ranks[i];
	if (rank) {
		for (enum category x = 0; x < CATEGORIES; x++)
			json_object_set_new(categories, category_key(x),
					    json_integer(rank->peak.by_category[x]));
		json_object_set_new(result, "peak_bytes", json_integer(rank->peak_allocated));
		json_object_set_new(result, "device_bytes", json_integer(rank->peak_device));
		json_object_set_new(result, "peak_phase",
				    json_string(rank->peak.phase ? rank->peak.phase : "unknown"));
		for (size_t i = 0; i < rank->owner_count; i++)
			json_object_set_new(result, rank->owners[i].key,
					    json_integer(rank->owners[i].at_peak));
	}
	json_object_set_new(result, "by_category", categories);
	report_release(&r);
	free(folder);
	return rank ? 0 : err_set(e, "the run of the model left no trace");
}

/* The last line that the job wrote, for a job that ended without a result. */
static char *last_line(const struct model_job *j)
{
	char *path = xasprintf("%s/log", j->folder);
	struct err ignored = { "" };
	size_t length = 0;
	char *text = doc_file_text(path, &length, &ignored), *line = NULL, *at;

	free(path);
	while (text && length && (text[length - 1] == '\n' || text[length - 1] == ' '))
		text[--length] = '\0';
	at = text ? strrchr(text, '\n') : NULL;
	if (text)
		line = xstrdup(at ? at + 1 : text);
	free(text);
	return line;
}

static json_t *run_job(const struct model_job *j, const struct messages *messages, struct err *e)
{
	char *in = xasprintf("%s/job.json", j->folder),
	     *out = xasprintf("%s/result.json", j->folder);
	char *command = command_of(j, e), *line = NULL;
	json_t *result = NULL;
	const char *error;

	if (!command || write_file(in, j->asked, e) < 0)
		goto out;
	notice(messages, "runs the model on the simulated device (%s)", j->python.versions);
	if (system(command) == -1)
		err_set(e, "cannot start a shell: %s", strerror(errno));
	result = json_load_file(out, 0, NULL);
	error = json_string_value(json_object_get(result, "error"));
	if (error)
		err_set(e, "%s", error);
	else if (!json_is_object(result))
		err_set(e, "the run of the model ended without a result: %s",
			(line = last_line(j)) ? line : "it wrote nothing");
	else
		add_report(j, result, e);
	if (e->text[0]) {
		json_decref(result);
		result = NULL;
	}
out:
	free(line);
	free(command);
	free(out);
	free(in);
	return result;
}

static json_t *run_in_folder(struct model_job *j, const struct messages *messages, struct err *e)
{
	const char *temporary = getenv("TMPDIR");
	json_t *result;

	j->folder = xasprintf("%s/memtrace-XXXXXX", temporary && *temporary ? temporary : "/tmp");
	if (!mkdtemp(j->folder)) {
		err_set(e, "%s: %s", j->folder, strerror(errno));
		return NULL;
	}
	result = run_job(j, messages, e);
	nftw(j->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return result;
}

static int64_t number_of(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? n : 0;
}

static char *word_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return xstrdup(text ? text : "unknown");
}

static void fill(struct model_result *r, const json_t *o, const char *versions)
{
	const json_t *categories = json_object_get(o, "by_category");

	*r = (struct model_result){ .model = word_of(o, "class"),
				    .versions = xstrdup(versions),
				    .phase = word_of(o, "peak_phase"),
				    .text_alone = json_is_true(json_object_get(o, "text_alone")),
				    .takes_images =
					    json_is_true(json_object_get(o, "takes_images")),
				    .parameters = number_of(o, "num_parameters"),
				    .peak = number_of(o, "peak_bytes"),
				    .steady = number_of(o, "steady_bytes"),
				    .reserved = number_of(o, "reserved_bytes"),
				    .device = number_of(o, "device_bytes"),
				    .context = number_of(o, "context"),
				    .nccl = number_of(o, "nccl") };
	for (enum category x = 0; x < CATEGORIES; x++)
		r->by_category[x] = number_of(categories, category_key(x));
}

int model_run(struct model_result *r, const struct config *c, const struct run_options *o,
	      struct err *e)
{
	struct model_job j = { .c = c };
	json_t *result = NULL;
	char *key = NULL;

	if (run_fields_check(c, e) < 0)
		return -1;
	j.script = launch_find(SCRIPT, e);
	if (!j.script || python_find(&j.python, o->python, e) < 0)
		goto out;
	j.asked = text_of_job(c);
	key = key_of(&j, e);
	if (!key)
		goto out;
	result = model_cache_find(key);
	if (!result && (result = run_in_folder(&j, o->messages, e)))
		model_cache_keep(key, result);
	if (result)
		fill(r, result, j.python.versions);
out:
	json_decref(result);
	free(key);
	free(j.asked);
	free(j.folder);
	free(j.script);
	python_release(&j.python);
	return result ? 0 : -1;
}

void model_result_release(struct model_result *r)
{
	free(r->model);
	free(r->versions);
	free(r->phase);
}
