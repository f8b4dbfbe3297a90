#include "simulate/processes.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

#define WAIT_MS 10   /* between two looks at a process that ends */
#define TURN_MS 1000 /* at most for one process */

/* Waits until a process has ended, or its turn. */
static void await_end(pid_t pid, int *left_ms)
{
	int end_ms = *left_ms > TURN_MS ? *left_ms - TURN_MS : 0;

	while (*left_ms > end_ms && parent_of(pid) >= 0) {
		usleep(WAIT_MS * 1000);
		*left_ms -= WAIT_MS;
	}
}

/* Ends the descendants of `pid`, and then itself. `left_ms`: the time that may still pass. */
static void abort_tree(pid_t pid, int *left_ms)
{
	DIR *all = opendir("/proc");

	for (struct dirent *d; all && (d = readdir(all));) {
		pid_t child = (pid_t)strtol(d->d_name, NULL, 10);

		if (child > 0 && parent_of(child) == pid)
			abort_tree(child, left_ms);
	}
	if (all)
		closedir(all);
	kill(pid, SIGABRT);
	kill(pid, SIGCONT);
	await_end(pid, left_ms);
}

void processes_abort(pid_t root, int limit_ms)
{
	kill(root, SIGSTOP);
	processes_signal(root, SIGSTOP);
	abort_tree(root, &limit_ms);
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
