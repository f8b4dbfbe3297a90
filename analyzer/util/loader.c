#include "util/loader.h"

#include "util/util.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_SCRIPTS 5 /* a script's interpreter may be a script */
#define HEAD_BYTES 4096

#ifdef __x86_64__
#define MACHINE EM_X86_64
#else
#define MACHINE EM_AARCH64
#endif

struct program {
	char path[PATH_MAX];
	char interpreter[PATH_MAX]; /* the loader; "": a static program */
};

/* The subject of the loader's error, and the remedy. */
static const struct {
	const char *mark, *advice;
} advices[] = {
	{ "version `", "build memtrace on this system, or on one with an older C library" },
	{ "failed to map segment",
	  "is its file system mounted noexec? Install memtrace on another" },
	{ "ELF", "build memtrace for the processor of that program" },
	{ "", "see that the file is whole and may be read" },
};

static int copy(char *to, const char *from, size_t length)
{
	if (length >= PATH_MAX)
		return -1;
	memcpy(to, from, length);
	to[length] = '\0';
	return 0;
}

/* As execvp() looks. */
static int find(const char *name, char *path)
{
	const char *directories = getenv("PATH");
	struct stat s;

	if (strchr(name, '/'))
		return copy(path, name, strlen(name));
	for (const char *d = directories ? directories : "/bin:/usr/bin"; d;) {
		const char *end = strchr(d, ':');
		int n = end ? (int)(end - d) : (int)strlen(d);
		int written = snprintf(path, PATH_MAX, "%.*s/%s", n, n ? d : ".", name);
		if (written < PATH_MAX && !access(path, X_OK) && !stat(path, &s) &&
		    S_ISREG(s.st_mode))
			return 0;
		d = end ? end + 1 : NULL;
	}
	return -1;
}

/* The program that runs a script whose first line is LINE: "#!/usr/bin/env -S python3 -u" is
 * python3. */
static int interpreter_of(char *line, char *path)
{
	char *rest, *word, *file;

	line[strcspn(line, "\n")] = '\0';
	word = strtok_r(line + 2, " \t", &rest);
	if (!word)
		return -1;
	file = strrchr(word, '/');
	if (strcmp(file ? file + 1 : word, "env") != 0)
		return find(word, path);
	while ((word = strtok_r(NULL, " \t", &rest)))
		if (*word != '-' && !strchr(word, '='))
			return find(word, path);
	return -1;
}

/* The first bytes of PATH; how many. */
static size_t read_head(const char *path, char *head)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, head, HEAD_BYTES);

	if (fd >= 0)
		close(fd);
	head[n < 0 ? 0 : n] = '\0';
	return n < 0 ? 0 : (size_t)n;
}

/* Reads the loader's name from the program headers. */
static int read_elf(const char *head, size_t length, struct program *p, struct err *e)
{
	const Elf64_Ehdr *elf = (const Elf64_Ehdr *)head;

	if (elf->e_ident[EI_CLASS] != ELFCLASS64 || elf->e_machine != MACHINE)
		return err_set(
			e,
			"%s is a program for another kind of processor than memtrace was built for, whose "
			"libraries it would not load",
			p->path);
	for (unsigned i = 0; i < elf->e_phnum; i++) {
		uint64_t at = elf->e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		Elf64_Phdr header;
		if (elf->e_phoff > length || at + sizeof(header) > length)
			break;
		memcpy(&header, head + at, sizeof(header));
		if (header.p_type == PT_INTERP && header.p_offset < length &&
		    header.p_filesz <= length - header.p_offset)
			return copy(p->interpreter, head + header.p_offset,
				    strnlen(head + header.p_offset, header.p_filesz));
	}
	return 0;
}

/* The program that COMMAND becomes; -1 with no reason in E: there is none. */
static int find_program(const char *command, struct program *p, struct err *e)
{
	_Alignas(Elf64_Ehdr) char head[HEAD_BYTES + 1];

	if (find(command, p->path) < 0)
		return -1;
	for (int i = 0; i < MAX_SCRIPTS; i++) {
		size_t n = read_head(p->path, head);
		if (n >= sizeof(Elf64_Ehdr) && !memcmp(head, ELFMAG, SELFMAG))
			return read_elf(head, n, p, e);
		if (n < 3 || memcmp(head, "#!", 2) != 0 || interpreter_of(head, p->path) < 0)
			return -1;
	}
	return -1;
}

/* The loader's error for P with LD_PRELOAD, without running it. Allocated. */
static char *try_out(const struct program *p)
{
	char *said = xcalloc(1, 1), buffer[4096];
	int out[2], status;
	ssize_t n;
	pid_t child;

	if (pipe(out) < 0)
		return said;
	child = fork();
	if (child == 0) {
		int nowhere = open("/dev/null", O_RDWR);
		dup2(nowhere, STDIN_FILENO);
		dup2(nowhere, STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		close(out[0]);
		close(out[1]);
		unsetenv("LD_DEBUG"); /* it would speak of us in any case */
		execl(p->interpreter, p->interpreter, "--list", p->path, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	while (child > 0 &&
	       ((n = read(out[0], buffer, sizeof(buffer))) > 0 || (n < 0 && errno == EINTR))) {
		char *all = n > 0 ? xasprintf("%s%.*s", said, (int)n, buffer) : NULL;
		if (all) {
			free(said);
			said = all;
		}
	}
	close(out[0]);
	if (child > 0)
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	return said;
}

/* The loader's words without its own frame: "… cannot be preloaded (REASON): ignored." */
static char *reason_of(char *line)
{
	static const char frame[] = "cannot be preloaded (";
	char *reason = strstr(line, frame), *end;

	if (!reason)
		return line;
	reason += strlen(frame);
	end = strstr(reason, "): ignored");
	if (end)
		*end = '\0';
	return reason;
}

static int refused(const struct program *p, const char *library, char *line, struct err *e)
{
	const char *reason = reason_of(line);
	size_t i = 0;

	while (!strstr(reason, advices[i].mark))
		i++;
	return err_set(e, "the loader of %s would not take %s (%s); %s", p->path, library, reason,
		       advices[i].advice);
}

int loader_check(const char *command, struct err *e)
{
	static const char *const ours[] = { "libmemtrace.so", "libcudasim.so" };
	struct program p = { .interpreter = "" };
	char *said, *rest;
	int status = 0;

	if (find_program(command, &p, e) < 0 || !*p.interpreter)
		return e->text[0] ? -1 : 0;
	said = try_out(&p);
	for (char *line = strtok_r(said, "\n", &rest); line && !status;
	     line = strtok_r(NULL, "\n", &rest))
		for (size_t i = 0; i < ARRAY_SIZE(ours) && !status; i++)
			if (strstr(line, ours[i]))
				status = refused(&p, ours[i], line, e);
	free(said);
	return status;
}

int loader_is_static(const char *command)
{
	struct program p = { 0 };
	struct err ignored = { 0 };

	return find_program(command, &p, &ignored) == 0 && !*p.interpreter;
}
