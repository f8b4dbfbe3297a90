#include "simulate/broadcasts.h"

#include "util/util.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int broadcasts_open(struct broadcasts *s, struct err *e)
{
	const char *tmp = getenv("TMPDIR");

	*s = (struct broadcasts){ .directory = xasprintf("%s/memtrace-sent-XXXXXX",
							 tmp && *tmp ? tmp : "/tmp") };
	if (!mkdtemp(s->directory)) {
		err_set(e, "cannot make a directory %s: %s", s->directory, strerror(errno));
		free(s->directory);
		s->directory = NULL;
		return -1;
	}
	setenv("SIMULATE_SENT", s->directory, 1);
	return 0;
}

int broadcasts_next_wanted(struct broadcasts *s, int world)
{
	char *path = xasprintf("%s/wanted", s->directory), line[32];
	FILE *f = fopen(path, "re");
	int rank = -1;

	free(path);
	if (!f)
		return -1;
	if (fseek(f, (long)s->seen, SEEK_SET) == 0 && fgets(line, sizeof(line), f) &&
	    strchr(line, '\n')) {
		s->seen += strlen(line);
		rank = atoi(line);
	}
	fclose(f);
	return rank >= 0 && rank < world ? rank : -1;
}

void broadcasts_end(const struct broadcasts *s, int rank)
{
	char *path = xasprintf("%s/%d.ended", s->directory, rank);
	FILE *f = fopen(path, "we");

	if (f)
		fclose(f);
	free(path);
}

void broadcasts_close(struct broadcasts *s)
{
	DIR *d = s->directory ? opendir(s->directory) : NULL;
	const struct dirent *entry;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(d), entry->d_name, 0);
	if (d)
		closedir(d);
	if (s->directory)
		rmdir(s->directory);
	free(s->directory);
	s->directory = NULL;
}
