#include "simulate/processes.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -1: there is no such process (any more). */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[512];
	const char *end;
	FILE *f;
	size_t n;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	end = strrchr(text, ')'); /* the process name may have brackets */
	/* a zombie does not count */
	return end && end[1] && end[2] != 'Z' && sscanf(end + 3, "%d", &parent) == 1 ? parent : -1;
}

int processes_signal(pid_t root, int signal)
{
	DIR *all = opendir("/proc");
	int count = 0;

	for (struct dirent *d; all && (d = readdir(all));) {
		pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);

		if (pid <= 0 || parent_of(pid) != root)
			continue;
		count += 1 + processes_signal(pid, signal);
		kill(pid, signal);
	}
	if (all)
		closedir(all);
	return count;
}
