/* memtrace jupyter: a kernel of Jupyter whose notebooks are recorded. */
#include "cmd/command.h"
#include "util/buf.h"
#include "util/folders.h"
#include "util/launch.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPEC "/kernel.json"
/* In the metadata of a kernel that this command made. */
#define OURS "memtrace"

static int install, uninstall, user;
static const char *prefix, *name = "memtrace", *python = "python3";
static const struct opt rows[] = {
	{ "install", 0, OPT_FLAG, &install, NULL, "install the kernel, or replace it", 0, 0 },
	{ "uninstall", 0, OPT_FLAG, &uninstall, NULL, "remove the kernel", 0, 0 },
	{ "user", 0, OPT_FLAG, &user, NULL, "for this user alone (the default without --prefix)", 0,
	  0 },
	{ "prefix", 0, OPT_TEXT, &prefix, "DIR",
	  "in DIR/share/jupyter: of a virtual environment, or /usr/local", 0, 0 },
	{ "name", 0, OPT_TEXT, &name, "NAME", "the kernel's name (memtrace)", 0, 0 },
	{ "python", 0, OPT_TEXT, &python, "PYTHON",
	  "the Python with ipykernel and PyTorch (python3)", 0, 0 },
};

/* The directory with the kernels, as Jupyter looks for it. */
static int add_kernels(struct buf *path, struct err *e)
{
	const char *data = getenv("JUPYTER_DATA_DIR"), *home = getenv("HOME");

	if (prefix)
		buf_addf(path, "%s/share/jupyter/kernels", prefix);
	else if (data && *data)
		buf_addf(path, "%s/kernels", data);
	else if (home && *home)
		buf_addf(path, "%s/.local/share/jupyter/kernels", home);
	else
		return err_set(e, "HOME is not set: give --prefix");
	return 0;
}

/* The folder with the Python module, beside this program; without it, Python is to find the module
 * itself. */
static void add_module_path(const char *self, json_t *argv)
{
	struct buf folder = { 0 }, line = { 0 };
	const char *slash = strrchr(self, '/');
	char *quoted;

	buf_addf(&folder, "%.*s/python/memtrace/__init__.py", slash ? (int)(slash - self) : 0,
		 self);
	if (access(folder.text, R_OK) == 0) {
		json_t *text =
			json_stringn(folder.text, folder.length - strlen("/memtrace/__init__.py"));

		quoted = json_dumps(text, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
		buf_addf(&line, "--IPKernelApp.exec_lines=import sys; sys.path.append(%s)",
			 quoted ? quoted : "''");
		json_array_append_new(argv, json_string(line.text));
		free(quoted);
		json_decref(text);
	}
	buf_release(&folder);
	buf_release(&line);
}

static json_t *spec(const char *self)
{
	json_t *argv =
		json_pack("[s,s,s,s,s,s]", self, "run", "--", python, "-m", "ipykernel_launcher");

	add_module_path(self, argv);
	json_array_append_new(argv, json_string("--IPKernelApp.exec_lines=%load_ext memtrace"));
	json_array_append_new(argv, json_string("-f"));
	json_array_append_new(argv, json_string("{connection_file}"));
	return json_pack("{s:o,s:s,s:s,s:s,s:{s:s}}", "argv", argv, "display_name",
			 "Python (GPU memory recorded by memtrace)", "language", "python",
			 "interrupt_mode", "signal", "metadata", OURS, MEMTRACE_VERSION);
}

/* Was the kernel at this path made by this command? A path without a kernel is as good. */
static int check_ours(const char *path, struct err *e)
{
	json_t *old = access(path, F_OK) == 0 ? json_load_file(path, 0, NULL) : NULL;
	int is_ours = json_object_get(json_object_get(old, "metadata"), OURS) != NULL;
	int is_there = access(path, F_OK) == 0;

	json_decref(old);
	if (is_there && !is_ours)
		return err_set(e, "%s is not a kernel of memtrace: choose another --name", path);
	return is_there;
}

static int write_spec(const char *path, struct err *e)
{
	char *self = launch_self(e);
	struct buf next = { 0 };
	json_t *j;
	int status = -1;

	if (!self)
		return -1;
	j = spec(self);
	free(self);
	buf_addf(&next, "%s.new", path);
	if (!j)
		err_set(e, "--python must be text in UTF-8");
	else if (json_dump_file(j, next.text, JSON_INDENT(1)) < 0 || rename(next.text, path) < 0)
		err_set(e, "cannot write %s: %s", path, strerror(errno));
	else
		status = 0;
	json_decref(j);
	buf_release(&next);
	return status;
}

/* Jupyter takes these characters alone. */
static int check_name(struct err *e)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-";

	if (!*name || name[0] == '.' || name[strspn(name, allowed)])
		return err_set(e,
			       "--name %s: a kernel's name has letters, digits, '.', '_' and "
			       "'-' only",
			       name);
	return 0;
}

static int change(struct buf *folder, const char *path, struct err *e)
{
	int there;

	if (install && folders_make(path, 0777, e) < 0)
		return -1;
	there = check_ours(path, e);
	if (there < 0)
		return -1;
	if (install)
		return write_spec(path, e);
	if (!there)
		return err_set(e, "there is no kernel %s", path);
	if (unlink(path) < 0 || (rmdir(folder->text) < 0 && errno != ENOTEMPTY))
		return err_set(e, "cannot remove %s: %s", path, strerror(errno));
	return 0;
}

static int run(char **arguments, size_t count)
{
	struct buf folder = { 0 }, path = { 0 }, told = { 0 };
	struct err e = { 0 };
	int status = STATUS_SUCCESS;

	(void)arguments;
	if (count)
		err_set(&e, "jupyter takes no arguments");
	else if (install + uninstall != 1)
		err_set(&e, "jupyter needs --install or --uninstall");
	else if (user && prefix)
		err_set(&e, "--user and --prefix exclude each other");
	else if (!check_name(&e) && !add_kernels(&folder, &e)) {
		buf_addf(&folder, "/%s", name);
		buf_addf(&path, "%s" SPEC, folder.text);
		(void)change(&folder, path.text, &e);
	}
	if (e.text[0]) {
		status = command_fail(STATUS_USAGE, &e);
	} else {
		buf_addf(&told, "%s ", install ? "made" : "removed");
		buf_add_clean(&told, (struct str){ path.text, path.length });
		buf_puts(&told, "\n");
		status = command_print(told.text, told.length);
	}
	buf_release(&folder);
	buf_release(&path);
	buf_release(&told);
	return status;
}

const struct command cmd_jupyter = {
	.name = "jupyter",
	.summary = "install a Jupyter kernel that records notebooks",
	.usage = "--install | --uninstall [OPTIONS]",
	.about =
		"Installs a kernel of Jupyter that runs Python with the recorder: each notebook writes a trace,\n"
		"and each of its cells is a phase of it.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.words = "",
	.run = run,
};
