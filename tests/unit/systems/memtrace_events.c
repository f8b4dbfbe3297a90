/* Prints the predicted allocations and frees of one stage, for comparison with a real run:
 * memtrace_events CONFIG.json [STAGE] */
#include "systems/memtrace.h"
#include "readers/derive.h"
#include "readers/files.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	struct config c;
	struct err e = { "" };
	int status;

	if (argc < 2)
		return 2;
	config_init(&c);
	status = config_read_file(&c, argv[1], &e);
	if (!status)
		status = config_derive(&c, &e);
	if (!status)
		status = memtrace_run(&c,
				      (struct rank_coordinates){
					      .at = { [AXIS_PP] = argc > 2 ? atoi(argv[2]) : 0 } },
				      stdout, NULL, NULL, &e);
	if (status)
		fprintf(stderr, "%s\n", e.text);
	config_release(&c);
	return status != 0;
}
