/*
 * Loads a library of CUDA and makes its first call, which is when it looks up the driver's names;
 * then writes
 *
 *   result NUMBER
 *   runtime ADDRESS ADDRESS   of the library's cudaMalloc, by dlsym() and by dlvsym()
 *   base PATH ADDRESS         of each loaded object
 *
 * visit LIBRARY FUNCTION [THIRD]: the function is given room for whatever it returns, 1, THIRD (0)
 * and 1. With VISIT_RELOADS another thread loads the driver and closes it, again and again, as a
 * runtime does that cannot use it. If it dies of a signal, the thread's name and its stack are
 * written to standard error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int print(struct dl_phdr_info *o, size_t size, void *data)
{
	(void)size, (void)data;
	if (o->dlpi_name[0])
		printf("base %s %#lx\n", o->dlpi_name, (unsigned long)o->dlpi_addr);
	return 0;
}

static void died(int number)
{
	void *frames[64];
	char name[17] = "";

	prctl(PR_GET_NAME, name);
	if (write(STDERR_FILENO, name, strlen(name)) >= 0 && write(STDERR_FILENO, ":\n", 2) >= 0)
		backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
	signal(number, SIG_DFL);
	raise(number);
}

static atomic_int is_over;

static void *reload(void *unused)
{
	while (!is_over) {
		void *driver = dlopen("libcuda.so.1", RTLD_NOW);

		if (driver)
			dlclose(driver);
	}
	return unused;
}

static void tell_of_deaths(void)
{
	void *frame;

	backtrace(&frame, 1); /* loads what it needs */
	signal(SIGSEGV, died);
	signal(SIGBUS, died);
}

int main(int argc, char **argv)
{
	static char room[1 << 16];
	size_t third = argc == 4 ? (size_t)atoi(argv[3]) : 0;
	int (*call)(void *, size_t, size_t, size_t);
	void *library;
	pthread_t thread;
	int has_thread = 0;

	tell_of_deaths();
	if (getenv("VISIT_RELOADS"))
		has_thread = pthread_create(&thread, NULL, reload, NULL) == 0;
	library = argc >= 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
	call = library ? (int (*)(void *, size_t, size_t, size_t))dlsym(library, argv[2]) : NULL;
	if (!call) {
		fprintf(stderr, "visit: %s\n", argc >= 3 ? dlerror() : "LIBRARY FUNCTION");
		return 2;
	}
	printf("result %d\n", call(room, 1, third, 1));
	printf("runtime %p %p\n", dlsym(library, "cudaMalloc"),
	       dlvsym(library, "cudaMalloc", "libcudart.so.13"));
	dl_iterate_phdr(print, NULL);
	is_over = 1;
	if (has_thread)
		pthread_join(thread, NULL);
	return 0;
}
