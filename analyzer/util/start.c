/*
 * Before main(): with glibc 2.34 __libc_start_main() got a new version, which the compiler's start
 * files ask for. The Makefile links them with the function here instead, which asks for the first
 * one. That one takes two functions more, which new start files leave empty: it would run the
 * constructors by them, of which this program has none.
 */
#ifdef MEMTRACE_OLD_LIBC_H
#ifdef __x86_64__
#define FIRST "GLIBC_2.2.5"
#else
#define FIRST "GLIBC_2.17"
#endif

typedef int main_function(int argc, char **argv, char **environment);
typedef int start_function(main_function *main, int argc, char **argv, void (*init)(void),
			   void (*fini)(void), void (*loader_fini)(void), void *stack_end);

start_function __wrap___libc_start_main, first_libc_start_main;
__asm__(".symver first_libc_start_main, __libc_start_main@" FIRST);

int __wrap___libc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
			     void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
	return first_libc_start_main(main, argc, argv, init, fini, loader_fini, stack_end);
}

/* ncurses, an archive of this system, asks for the stat() of glibc 2.33. */
int __wrap_stat(const char *path, struct stat *status);
int __wrap_stat(const char *path, struct stat *status)
{
	return old_libc_stat(path, status);
}
#endif
