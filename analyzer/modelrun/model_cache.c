#include "modelrun/model_cache.h"

#include <memtrace/fnv.h>

#include "util/folders.h"
#include "util/util.h"
#include "util/whole_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int model_cache_hash(const char *path, uint64_t *hash, struct err *e)
{
	FILE *f = fopen(path, "rb");
	char part[65536];
	size_t n;
	int bad = !f;

	*hash = FNV_START;
	while (!bad && (n = fread(part, 1, sizeof(part), f)) > 0)
		*hash = fnv_add(*hash, part, n);
	bad = bad || ferror(f);
	if (f)
		fclose(f);
	return bad ? err_set(e, "%s: %s", path, strerror(errno)) : 0;
}

/* NULL: there is no home directory. */
static char *path_of(const char *key)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	unsigned long long hash = fnv_add(FNV_START, key, strlen(key));

	if (cache && *cache)
		return xasprintf("%s/memtrace/models/%016llx.json", cache, hash);
	if (home && *home)
		return xasprintf("%s/.cache/memtrace/models/%016llx.json", home, hash);
	return NULL;
}

json_t *model_cache_find(const char *key)
{
	char *path = path_of(key);
	json_t *kept = path ? json_load_file(path, 0, NULL) : NULL, *result = NULL;
	const char *of = json_string_value(json_object_get(kept, "key"));

	if (of && !strcmp(of, key))
		result = json_incref(json_object_get(kept, "result"));
	json_decref(kept);
	free(path);
	return result;
}

void model_cache_keep(const char *key, json_t *result)
{
	char *path = path_of(key);
	json_t *kept = json_pack("{s:s, s:O}", "key", key, "result", result);
	struct whole_file w;
	struct err ignored = { 0 };

	if (path && kept) {
		if (!folders_make(path, 0700, &ignored) && !whole_file_begin(&w, path, 0, &ignored))
			whole_file_end(&w, json_dumpf(kept, w.file, JSON_INDENT(1)), &ignored);
	}
	json_decref(kept);
	free(path);
}
