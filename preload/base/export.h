/* Functions of this library that others call by their names. */
#ifndef PRELOAD_EXPORT_H
#define PRELOAD_EXPORT_H

#define EXPORT __attribute__((visibility("default")))

#endif
