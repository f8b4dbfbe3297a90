/* make_big_trace FILE EVENTS LIVE: a training-like trace of any size, to measure the analyzer with.
 */
#include "write_training.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct writer w;
	int status;

	if (argc != 4) {
		fputs("usage: make_big_trace FILE EVENTS LIVE\n", stderr);
		return 2;
	}
	write_start(&w);
	write_meta(&w, "argv", "python\0train.py", 15);
	write_training(&w, strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10), 0, 1);
	status = write_save(&w, argv[1]);
	if (status < 0)
		perror(argv[1]);
	write_release(&w);
	return status < 0;
}
