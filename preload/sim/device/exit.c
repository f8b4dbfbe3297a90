/* The start and the end of the library in a process. */
#define _GNU_SOURCE
#include "device/common.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

/* NVML is a library of its own name, which programs dlopen. It is loaded from the folder of this
 * one, so that one preload is enough; programs that never use it pay for a dlopen. Its absence
 * is no error. */
__attribute__((constructor)) static void load_nvml(void)
{
	static const char sibling[] = "libcudasim-nvml.so";
	char path[4096];
	Dl_info self;
	if (!dladdr((const void *)load_nvml, &self) || !self.dli_fname)
		return;
	const char *slash = strrchr(self.dli_fname, '/');
	size_t directory = slash ? (size_t)(slash + 1 - self.dli_fname) : 0;
	if (directory + sizeof sibling > sizeof path)
		return;
	memcpy(path, self.dli_fname, directory);
	memcpy(path + directory, sibling, sizeof sibling);
	dlopen(path, RTLD_LAZY | RTLD_GLOBAL);
}

static bool interpreter_finalizing(void)
{
	static const char *const names[] = { "Py_IsFinalizing", "_Py_IsFinalizing" };
	for (size_t i = 0; i < LENGTH(names); i++) {
		int (*finalizing)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, names[i]);
		if (finalizing)
			return finalizing();
	}
	return false;
}

/* CPython before 3.14 ends a thread that asks for the GIL while the interpreter finalises with
 * pthread_exit(), which unwinds its stack. PyTorch's autograd threads may then still drop Python
 * objects, in destructors that are noexcept: the unwinding reaches one and the process dies with
 * "terminate called without an active exception". A real device, slower to reach the end, seldom
 * loses this race. Such a thread waits for ever instead, as in CPython 3.14; exit() does not
 * wait for it. */
EXPORT void pthread_exit(void *value)
{
	static void (*real)(void *) __attribute__((noreturn));
	char name[16] = "";
	pthread_getname_np(pthread_self(), name, sizeof name);
	if (!strncmp(name, "pt_autograd", 11) || interpreter_finalizing())
		for (;;)
			pause();
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "pthread_exit");
	real(value);
}
