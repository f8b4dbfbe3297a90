#include "util/folders.h"

#include "util/util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Some file systems refuse to make even a folder that is there, with other reasons than EEXIST. */
static int make_one(const char *path, mode_t mode, struct err *e)
{
	int reason = mkdir(path, mode) < 0 ? errno : 0;
	struct stat st;

	if (!reason || (!stat(path, &st) && S_ISDIR(st.st_mode)))
		return 0;
	return err_set(e, "cannot make the folder %s: %s", path, strerror(reason));
}

int folders_make(const char *file, mode_t mode, struct err *e)
{
	char *path = xstrdup(file), *slash = *path ? strchr(path + 1, '/') : NULL;
	int status = 0;

	for (; slash && !status; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		status = make_one(path, mode, e);
		*slash = '/';
	}
	free(path);
	return status;
}
