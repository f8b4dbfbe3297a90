/* The settings CUDASIM_* (settings.def), and lines on stderr. */
#ifndef CUDASIM_SETTINGS_H
#define CUDASIM_SETTINGS_H

#include "device/common.h"
#include "device/gpu.h"

#include <stdio.h>

struct settings {
#define SETTING(type, field, variable, fallback, low, high, help) SETTING_##type(field)
#define SETTING_SIZE(field) uint64_t field;
#define SETTING_COUNT(field) uint64_t field;
#define SETTING_CHOICE(field) uint64_t field;
#define SETTING_NAME(field) char field[64];
#include "device/settings.def"
#undef SETTING
	const struct gpu *card;
	uint64_t total;   /* bytes a device reports: CUDASIM_MEMORY, or the card's own */
	uint64_t visible; /* devices that CUDA_VISIBLE_DEVICES leaves of `gpus`; NVML shows all */
	unsigned char physical[MAX_DEVICES]; /* the index in `gpus` of each of these devices */
};
extern struct settings settings;

enum { STREAMS_LATE, STREAMS_EARLY, STREAMS_TIMED }; /* in the order of settings.def */
enum { CUDNN_WORKSPACES_LIBRARY, CUDNN_WORKSPACES_MODEL };
enum { ROUTING_BALANCED, ROUTING_SKEWED };

/* Reads the environment. Returns false if a value is wrong; stderr then names it. */
bool settings_load(void);
/* The UUID of a device: stable, different per device, and plainly not a real card's. */
void settings_uuid(int device, unsigned char uuid[16]);
/* Prints one line on stderr; sim_log() only with CUDASIM_LOG. */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
