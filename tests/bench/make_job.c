/* make_job DIRECTORY RANKS EVENTS: the traces of a job of many ranks, to measure the analyzer with.
 */
#include "write_training.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	int ranks;

	if (argc != 4) {
		fputs("usage: make_job DIRECTORY RANKS EVENTS\n", stderr);
		return 2;
	}
	ranks = atoi(argv[2]);
	for (int rank = 0; rank < ranks; rank++) {
		char path[4096];
		struct writer w;

		snprintf(path, sizeof(path), "%s/rank%05d.mtr", argv[1], rank);
		write_megatron_rank(&w, rank, ranks, strtoull(argv[3], NULL, 10), 1);
		if (write_save(&w, path) < 0) {
			perror(path);
			return 1;
		}
		write_release(&w);
	}
	return 0;
}
