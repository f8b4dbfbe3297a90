#include "simulate/signals.h"

#include "util/util.h"

#include <signal.h>
#include <stddef.h>

static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
static struct sigaction before[ARRAY_SIZE(numbers)];
static volatile sig_atomic_t came;

static void note(int number)
{
	came = number;
}

void signals_catch(void)
{
	const struct sigaction ours = { .sa_handler = note };

	came = 0;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		sigaction(numbers[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(numbers[i], &ours, NULL);
	}
}

int signals_caught(void)
{
	return came;
}

void signals_release(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		sigaction(numbers[i], &before[i], NULL);
	if (came)
		raise(came);
}
