#include "stub.h"
	FUNCTION dladdr
	FUNCTION dlclose
	FUNCTION dlerror
	FUNCTION dlopen
	FUNCTION dlsym
	FUNCTION dlvsym
