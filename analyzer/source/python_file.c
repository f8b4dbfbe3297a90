#include "source/python_file.h"

#include "util/glob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_BYTES (512 << 10)
#define MOST_IN_STATEMENT (16 << 10) /* bytes: longer ones were written by a program */
#define MAX_FILES 256
#define NS INT64_C(1000000000)

static void blank(char *text, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (text[i] != '\n')
			text[i] = ' ';
}

/* Behind the text in quotes that begins at `at`. A text of one line ends with the line. */
static size_t behind_quotes(const char *text, size_t at, size_t length)
{
	char quote = text[at];
	size_t n = at + 2 < length && text[at + 1] == quote && text[at + 2] == quote ? 3 : 1;

	for (size_t i = at + n; i < length; i++) {
		if (text[i] == '\\')
			i++;
		else if (n == 1 && text[i] == '\n')
			return i;
		else if (text[i] == quote && n == 1)
			return i + 1;
		else if (text[i] == quote && i + 2 < length && text[i + 1] == quote &&
			 text[i + 2] == quote)
			return i + 3;
	}
	return length;
}

static void blank_texts(char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t end = i + 1;

		if (text[i] == '#') {
			while (end < length && text[end] != '\n')
				end++;
			blank(text, i, end);
		} else if (text[i] == '"' || text[i] == '\'') {
			end = behind_quotes(text, i, length);
			blank(text, i + 1, end - (end > i + 1));
		}
		i = end;
	}
}

static void find_lines(struct python_file *f)
{
	size_t depth = 0, line = 0;

	for (size_t i = 0; i < f->length; i++)
		f->line_count += f->text[i] == '\n';
	f->line_count++;
	f->starts = xcalloc(f->line_count + 1, sizeof(*f->starts));
	f->continued = xcalloc(f->line_count + 1, sizeof(*f->continued));
	for (size_t i = 0; i < f->length; i++) {
		char c = f->text[i];

		depth += c == '(' || c == '[' || c == '{';
		depth -= depth && (c == ')' || c == ']' || c == '}');
		if (c != '\n')
			continue;
		f->starts[++line] = i + 1;
		f->continued[line] = depth || (i && f->text[i - 1] == '\\');
	}
	f->starts[f->line_count] = f->length;
}

void python_file_parse(struct python_file *f, const char *text, size_t length)
{
	*f = (struct python_file){ .text = xcalloc(length + 1, 1),
				   .raw = xcalloc(length + 1, 1),
				   .length = length };
	memcpy(f->raw, text, length);
	memcpy(f->text, text, length);
	blank_texts(f->text, length);
	find_lines(f);
}

void python_file_release(struct python_file *f)
{
	free(f->text);
	free(f->raw);
	free(f->starts);
	free(f->continued);
	*f = (struct python_file){ 0 };
}

/* Reads a plain file of at most MAX_BYTES that is not newer than the job. Returns its length, or
 * -1. */
static ssize_t read_old(int fd, uint64_t began_ns, char *to)
{
	struct stat st;
	ssize_t length = 0, n;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > MAX_BYTES ||
	    st.st_mtim.tv_sec < 0 || st.st_mtim.tv_sec > (time_t)(began_ns / NS))
		return -1;
	do {
		n = read(fd, to + length, (size_t)(MAX_BYTES - length));
		length += n > 0 ? n : 0;
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 ? -1 : length;
}

static void read_file(struct python_file *f, uint64_t began_ns)
{
	char *path = xcalloc(f->path.length + 1, 1), *text = NULL;
	ssize_t length = -1;
	struct stat st;
	int fd;

	memcpy(path, f->path.at, f->path.length);
	/* A path of a trace may name a device, which opening alone would change. */
	fd = *path == '/' && str_matches(f->path, "*.py") && !stat(path, &st) && S_ISREG(st.st_mode)
		     ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
		     : -1;
	if (fd >= 0) {
		text = xcalloc(MAX_BYTES, 1);
		length = read_old(fd, began_ns, text);
		close(fd);
	}
	if (length >= 0 && !memchr(text, 0, (size_t)length)) {
		struct str name = f->path;

		python_file_parse(f, text, (size_t)length);
		f->path = name;
	}
	free(text);
	free(path);
}

const struct python_file *python_files_get(struct python_files *files, struct str path)
{
	struct python_file *f;

	for (size_t i = 0; i < files->count; i++)
		if (files->list[i].path.length == path.length &&
		    !memcmp(files->list[i].path.at, path.at, path.length))
			return files->list[i].line_count ? &files->list[i] : NULL;
	if (files->count == MAX_FILES)
		return NULL;
	files->list = grow(files->list, files->count, &files->room, sizeof(*files->list));
	f = &files->list[files->count++];
	*f = (struct python_file){ .path = path };
	read_file(f, files->began_ns);
	return f->line_count ? f : NULL;
}

void python_files_release(struct python_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		python_file_release(&files->list[i]);
	free(files->list);
	*files = (struct python_files){ 0 };
}

struct str python_text(const struct python_file *f, struct python_range lines)
{
	if (!lines.first || lines.last > f->line_count || lines.first > lines.last)
		return (struct str){ f->text, 0 };
	return (struct str){ f->text + f->starts[lines.first - 1],
			     f->starts[lines.last] - f->starts[lines.first - 1] };
}

struct str python_raw(const struct python_file *f, struct str text)
{
	return (struct str){ f->raw + (text.at - f->text), text.length };
}

struct str python_line(const struct python_file *f, uint32_t line)
{
	struct str text = python_text(f, (struct python_range){ line, line });

	while (text.length &&
	       (text.at[text.length - 1] == '\n' || text.at[text.length - 1] == '\r'))
		text.length--;
	return text;
}

struct python_range python_statement(const struct python_file *f, uint32_t line)
{
	struct python_range r = { line, line };

	if (!line || line > f->line_count)
		return (struct python_range){ 0, 0 };
	while (r.first > 1 && f->continued[r.first - 1])
		r.first--;
	while (r.last < f->line_count && f->continued[r.last])
		r.last++;
	return r;
}

uint32_t python_line_at(const struct python_file *f, size_t place)
{
	uint32_t low = 0, high = f->line_count;

	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (f->starts[middle] <= place)
			low = middle;
		else
			high = middle;
	}
	return low + 1;
}

size_t python_indent(const struct python_file *f, uint32_t line)
{
	struct str text = python_line(f, line);
	size_t n = 0;

	while (n < text.length && (text.at[n] == ' ' || text.at[n] == '\t'))
		n++;
	return n == text.length || f->continued[line - 1] ? SIZE_MAX : n;
}

int python_begins_with(const struct python_file *f, uint32_t line, const char *pattern)
{
	struct str text = python_line(f, line);
	size_t n = python_indent(f, line);

	return n != SIZE_MAX && str_matches((struct str){ text.at + n, text.length - n }, pattern);
}

uint32_t python_head(const struct python_file *f, uint32_t line)
{
	uint32_t head = python_statement(f, line).first;
	size_t indent = head ? python_indent(f, head) : 0;

	while (indent && head > 1)
		if (python_indent(f, --head) < indent)
			return head;
	return 0;
}

/* The last line of the body of a compound statement, up to `last`; its own one if it has none. */
static uint32_t end_of_body(const struct python_file *f, uint32_t head, uint32_t last)
{
	uint32_t end = python_statement(f, head).last;
	size_t indent = python_indent(f, head);

	while (end < last && python_indent(f, end + 1) > indent)
		end++;
	return end;
}

struct python_range python_function(const struct python_file *f, uint32_t line)
{
	uint32_t head = python_statement(f, line).first;

	if (!head || python_indent(f, head) == SIZE_MAX)
		return (struct python_range){ 0, 0 };
	while ((head = python_head(f, head)) > 0)
		if (python_begins_with(f, head, "def *") ||
		    python_begins_with(f, head, "async def *"))
			return (struct python_range){ head, end_of_body(f, head, f->line_count) };
	return (struct python_range){ 1, f->line_count };
}

uint32_t python_loop(const struct python_file *f, uint32_t line, struct python_range *body)
{
	struct python_range function = python_function(f, line);
	uint32_t head = line;

	while ((head = python_head(f, head)) > 0 && head >= function.first) {
		if (!python_begins_with(f, head, "for *") &&
		    !python_begins_with(f, head, "while *"))
			continue;
		body->first = python_statement(f, head).last + 1;
		body->last = end_of_body(f, head, function.last);
		return head;
	}
	return 0;
}

struct str python_statement_at(const struct python_file *f, size_t place)
{
	struct str text = python_text(f, python_statement(f, python_line_at(f, place)));

	if (text.length > MOST_IN_STATEMENT)
		return python_part(text, 0, 0);
	while (text.length && strchr(" \t\r\n", *text.at)) {
		text.at++;
		text.length--;
	}
	return text;
}

struct str python_assignment(const struct python_file *f, struct str name, size_t *from)
{
	struct str text = python_whole(f);

	while ((*from = python_find_word(text, *from, name)) < text.length) {
		struct str statement = python_statement_at(f, *from);
		struct str target = python_target(statement);
		const char *at = text.at + *from;

		*from += name.length;
		if (at >= target.at && at < target.at + target.length)
			return statement;
	}
	return (struct str){ text.at, 0 };
}
