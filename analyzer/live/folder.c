#include "live/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "live/tail.h"

static int is_trace(const char *name)
{
	return name[0] != '.' && ends_with(name, ".mtr");
}

/* When the newest trace in a directory began to be written; 0: it has none. */
static int64_t newest_in(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *entry;
	int64_t newest = 0;

	while (d && (entry = readdir(d))) {
		char *file = xasprintf("%s/%s", path, entry->d_name);
		struct stat st;

		if (is_trace(entry->d_name) && !stat(file, &st))
			newest = larger_of(newest, (int64_t)st.st_mtim.tv_sec * 1000000000 +
							   st.st_mtim.tv_nsec);
		free(file);
	}
	if (d)
		closedir(d);
	return newest;
}

char *folder_default(void)
{
	static const char name[] = "memtrace";
	const char *named = getenv("MEMTRACE_DIR");
	const struct dirent *entry;
	char *best = NULL;
	int64_t newest = 0;
	DIR *d;

	if (named && *named)
		return xstrdup(named);
	d = opendir(".");
	while (d && (entry = readdir(d))) {
		const char *rest = entry->d_name + strlen(name);
		int64_t t;

		if (strncmp(entry->d_name, name, strlen(name)) != 0 || (*rest && *rest != '-'))
			continue;
		t = newest_in(entry->d_name);
		if (t <= newest)
			continue;
		newest = t;
		free(best);
		best = xstrdup(entry->d_name);
	}
	if (d)
		closedir(d);
	return best;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct live_process *)a)->path,
		      ((const struct live_process *)b)->path);
}

static void list_file(struct folder *f, size_t known, char *path)
{
	struct live_process key = { .path = path }, *found = NULL;

	if (known)
		found = bsearch(&key, f->list, known, sizeof(*f->list), by_path);
	if (found) {
		found->is_listed = 1;
		free(path);
		return;
	}
	f->list = grow(f->list, f->count, &f->room, sizeof(*f->list));
	f->list[f->count++] = (struct live_process){ .path = path, .is_listed = 1 };
}

static void drop_unlisted(struct folder *f)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->count; i++) {
		if (f->list[i].is_listed)
			f->list[kept++] = f->list[i];
		else
			live_process_release(&f->list[i]);
	}
	f->count = kept;
}

int folder_update(struct folder *f, struct err *e)
{
	DIR *d = opendir(f->path);
	size_t known = f->count;
	const struct dirent *entry;
	struct timespec now;

	if (!d)
		return err_set(e, "cannot open %s: %s", f->path, strerror(errno));
	for (size_t i = 0; i < f->count; i++)
		f->list[i].is_listed = 0;
	while ((entry = readdir(d)))
		if (is_trace(entry->d_name))
			list_file(f, known, xasprintf("%s/%s", f->path, entry->d_name));
	closedir(d);
	drop_unlisted(f);
	if (f->count > 1)
		qsort(f->list, f->count, sizeof(*f->list), by_path);
	for (size_t i = 0; i < f->count; i++)
		live_process_read(&f->list[i], f->silent_s);
	clock_gettime(CLOCK_REALTIME, &now);
	f->time_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
	return 0;
}

int folder_open(struct folder *f, const char *path, double silent_s, struct err *e)
{
	size_t length = strlen(path);

	*f = (struct folder){ .path = xstrdup(path), .silent_s = silent_s };
	while (length > 1 && f->path[length - 1] == '/')
		f->path[--length] = '\0';
	if (folder_update(f, e) < 0)
		return -1;
	if (!f->count)
		return err_set(e,
			       "%s has no traces (*.mtr): start the job with memtrace run -o %s -- "
			       "COMMAND, or name the directory of its traces",
			       f->path, f->path);
	return 0;
}

void folder_read_tails(struct folder *f, double budget_s)
{
	f->credit_s = f->credit_s > 0 ? budget_s : f->credit_s + budget_s;
	for (size_t i = 0; i < f->count && f->credit_s > 0; i++) {
		struct live_process *p = &f->list[f->next++ % f->count];
		double start = monotonic_seconds();

		if (p->state == LIVE_DAMAGED || p->tail_records == p->records)
			continue;
		live_tail_read(p);
		f->credit_s -= monotonic_seconds() - start;
	}
}

size_t folder_count(const struct folder *f, enum live_state s)
{
	size_t n = 0;

	for (size_t i = 0; i < f->count; i++)
		n += f->list[i].state == s;
	return n;
}

void folder_release(struct folder *f)
{
	for (size_t i = 0; i < f->count; i++)
		live_process_release(&f->list[i]);
	free(f->list);
	free(f->path);
	*f = (struct folder){ 0 };
}
