/* Values for opaque handles, and user objects. */
#ifndef CUDASIM_HANDLE_H
#define CUDASIM_HANDLE_H

void *handle_new(void);

/* An object that graphs keep alive: destroyed with its last reference. */
struct user_object;
int user_object_create(void *object, void *data, void (*destroy)(void *), unsigned count);
int user_object_release(void *object, unsigned count);
int user_object_retain(void *object, unsigned count);

#endif
