#include "stub.h"
	FUNCTION pthread_attr_setstacksize
	FUNCTION pthread_create
	FUNCTION pthread_getname_np, GLIBC_2_12
	FUNCTION pthread_join
	FUNCTION pthread_once
	FUNCTION pthread_rwlock_rdlock
	FUNCTION pthread_rwlock_unlock
	FUNCTION pthread_rwlock_wrlock
