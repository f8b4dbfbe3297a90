/* The objects that graphs keep alive: destroyed with their last reference. */
#ifndef CUDASIM_USER_OBJECT_H
#define CUDASIM_USER_OBJECT_H

struct user_object;

int user_object_create(void *object, void *data, void (*destroy)(void *), unsigned count);
int user_object_release(void *object, unsigned count);
void user_object_retain(struct user_object *object, unsigned count);

#endif
