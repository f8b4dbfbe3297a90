/*
 * A job's command line and environment: the launcher's part, the script, and the script's arguments
 * (Megatron, DeepSpeed, Accelerate, torchtitan, Trainer).
 */
#ifndef MEMTRACE_COMMAND_LINE_H
#define MEMTRACE_COMMAND_LINE_H

#include "config/config.h"

/* Reads argv (as after `--`) and the environment ("K=V" strings). */
int config_read_command(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			struct err *e);

/* The same. `lenient`: a file that the command line names need not exist on this machine. */
int config_read_arguments(struct config *c, int argc, char **argv, char **env, unsigned env_count,
			  int lenient, struct err *e);

#endif
