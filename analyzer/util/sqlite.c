#include "util/sqlite.h"

#include <dlfcn.h>

int sqlite_load(struct sqlite *s, const char *what, struct err *e)
{
	*s = (struct sqlite){ .library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL) };
	if (!s->library)
		return err_set(e, "%s needs libsqlite3.so.0; install SQLite (Debian: libsqlite3-0)",
			       what);
#define X(name)                                                             \
	s->name = (__typeof__(s->name))dlsym(s->library, "sqlite3_" #name); \
	if (!s->name)                                                       \
		return err_set(e, "libsqlite3.so.0 has no function sqlite3_" #name);
	SQLITE_FUNCTIONS(X)
#undef X
	return 0;
}

void sqlite_unload(struct sqlite *s)
{
	if (s->db)
		s->close(s->db);
	if (s->library)
		dlclose(s->library);
	*s = (struct sqlite){ 0 };
}
