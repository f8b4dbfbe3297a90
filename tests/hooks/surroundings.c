/* Programs that look at what surrounds the recorder: locked memory, locked files, ports.
 * surroundings CASE */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define DESCRIPTORS 15000u /* a copy of so many takes a while to close */

struct device {
	int8_t type, index;
};
void _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE(void *pointer, int64_t bytes,
							   size_t allocated, size_t reserved,
							   struct device device);

int cudaMalloc(void **block, size_t bytes) __attribute__((weak));

static void blocks(unsigned n)
{
	struct device first = { 1, 0 };

	for (unsigned i = 0; i < n; i++) {
		_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)0x1000, 1 << 20,
								      1 << 20, 1u << 30, first);
		_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE((void *)0x1000, -(1 << 20), 0,
								      1u << 30, first);
	}
}

static long kib(const char *key)
{
	char line[256];
	long value = -1;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, key, strlen(key)) == 0)
			value = atol(line + strlen(key));
	if (f)
		fclose(f);
	return value;
}

/* Locks all memory of now and later. Prints the KiB that 100,000 events lock. */
static int locked(void)
{
	long before;

	if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
		return 77;
	before = kib("VmLck:");
	blocks(50000);
	printf("%ld\n", kib("VmLck:") - before);
	return 0;
}

static int bound(unsigned short port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_port = htons(port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return bind(s, (void *)&at, sizeof(at)) == 0 && listen(s, 1) == 0 ? s : -1;
}

/* Holds a lock and a port at the first event, gives both up, and takes both again at once. */
static int held(void)
{
	struct rlimit many;
	struct sockaddr_in at;
	socklen_t n = sizeof(at);
	int lock = open("lock", O_RDWR | O_CREAT, 0600), again = open("lock", O_RDWR), s = bound(0);

	getrlimit(RLIMIT_NOFILE, &many);
	many.rlim_cur = many.rlim_max < DESCRIPTORS ? many.rlim_max : DESCRIPTORS;
	setrlimit(RLIMIT_NOFILE, &many);
	for (unsigned i = 16; i < many.rlim_cur; i++)
		dup(again);
	flock(lock, LOCK_EX);
	getsockname(s, (void *)&at, &n);
	blocks(1);
	close(lock);
	close(s);
	printf("%s", flock(again, LOCK_EX | LOCK_NB) == 0 ? "locked" : "still locked");
	printf("%s\n", bound(ntohs(at.sin_port)) >= 0 ? ", bound" : ", still bound");
	return 0;
}

/* Reads the file "served" by two numbers, the lowest ones, after the first event. */
static int served(void)
{
	char first[4] = "", second[4] = "";
	int a = (close(0), open("served", O_RDWR | O_CREAT, 0600)), b = open("served", O_RDONLY);

	blocks(1000);
	usleep(300000);
	printf("%zd%s %zd%s\n", read(a, first, 3), first, read(b, second, 3), second);
	return 0;
}

/* Calls CUDA if the program was linked or loaded with it, as libraries for machines with and
 * without a GPU do. */
static int weak(void)
{
	void *block = "unchanged";

	if (!cudaMalloc) {
		printf("no CUDA\n");
		return 0;
	}
	printf("%d ", cudaMalloc(&block, 1 << 20));
	printf("%s\n", (const char *)block);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} cases[] = {
		{ "locked", locked }, { "held", held }, { "served", served }, { "weak", weak }
	};

	for (unsigned i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	return 2;
}
