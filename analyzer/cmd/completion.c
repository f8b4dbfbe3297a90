/* memtrace completion: the completion of a shell, made from the option tables of the commands. */
#include "cmd/commands.h"
#include "util/buf.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* Adds the words among "auto|always|NAME", each with `separator` before it; capitals stand for a
 * value. Returns their number. */
static int add_words(struct buf *b, const char *list, const char *separator)
{
	int count = 0;

	while (*list) {
		size_t n = strcspn(list, "|");

		if (islower((unsigned char)*list) && strcspn(list, "=, ") >= n) {
			buf_addf(b, "%s%.*s", count ? separator : "", (int)n, list);
			count++;
		}
		list += n + (list[n] == '|');
	}
	return count;
}

static int is_file(const struct opt *o)
{
	static const char *const files[] = { "FILE", "PATH", "DIR", "TRACE" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (!strcmp(o->argument, files[i]))
			return 1;
	return 0;
}

/* A command line of another program follows the options, or "--". */
static int has_command_line(const struct command *c)
{
	return c->options.stop_at_first || c->options.command;
}

/* Adds the names of the commands for which `test` is true (NULL: of all). */
static void add_commands(struct buf *b, const char *separator, int (*test)(const struct command *))
{
	const char *before = "";

	for (size_t i = 0; commands[i]; i++)
		if (!test || test(commands[i])) {
			buf_addf(b, "%s%s", before, commands[i]->name);
			before = separator;
		}
}

static int stops_at_first(const struct command *c)
{
	return c->options.stop_at_first;
}

/* Adds text inside single quotes; `special` characters get a backslash. */
static void add_quoted(struct buf *b, const char *text, const char *special, const char *quote)
{
	for (; *text; text++)
		if (*text == '\'')
			buf_puts(b, quote);
		else
			buf_addf(b, "%s%c", strchr(special, *text) ? "\\" : "", *text);
}

/* ---- bash */

static void bash_value(struct buf *b, const struct command *c, const struct opt *o)
{
	buf_addf(b, "\t\"%s --%s\"", c->name, o->name);
	if (o->letter)
		buf_addf(b, " | \"%s -%c\"", c->name, o->letter);
	buf_puts(b, ") value='");
	if (is_file(o))
		buf_puts(b, "<file>");
	else if (!add_words(b, o->argument, " "))
		buf_puts(b, "<any>");
	buf_puts(b, "' ;;\n");
}

static void bash_words(struct buf *b, const struct command *c)
{
	buf_addf(b, "\t%s) options='", c->name);
	for (size_t i = 0; i < c->options.count; i++) {
		const struct opt *o = &c->options.rows[i];

		buf_addf(b, "--%s ", o->name);
		if (o->letter)
			buf_addf(b, "-%c ", o->letter);
	}
	buf_puts(b, "--help -h'");
	if (c->words) {
		buf_puts(b, " words='");
		add_words(b, c->words, " ");
		buf_puts(b, "'");
	} else {
		buf_puts(b, " words='<file>'");
	}
	buf_puts(b, " ;;\n");
}

static const char bash_end[] =
	"_memtrace_offer() # what of $1 begins with $2; nothing of it for a file's name\n"
	"{\n"
	"\tif [[ $1 == '<file>' ]]; then\n"
	"\t\tcompopt -o default 2>/dev/null\n"
	"\telif [[ $1 != '<any>' ]]; then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$2\")\n"
	"\tfi\n"
	"}\n"
	"_memtrace()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} command=report first=1 line=0 i word value= options= words=\n"
	"\tCOMPREPLY=()\n"
	"\tif ((COMP_CWORD > 1)) && [[ \" $_memtrace_commands \" == *\" ${COMP_WORDS[1]} \"* ]]; then\n"
	"\t\tcommand=${COMP_WORDS[1]} first=2\n"
	"\tfi\n"
	"\tfor ((i = first; i <= COMP_CWORD; i++)); do\n"
	"\t\tword=${COMP_WORDS[i]}\n"
	"\t\tif [[ -z $value && $word != -* && \" $_memtrace_runs \" == *\" $command \"* ]]; then\n"
	"\t\t\tline=$i\n"
	"\t\t\tbreak\n"
	"\t\tfi\n"
	"\t\t((i < COMP_CWORD)) || break\n"
	"\t\tif [[ $word == -- ]]; then\n"
	"\t\t\tline=$((i + 1))\n"
	"\t\t\tbreak\n"
	"\t\telif [[ $word == '=' ]]; then\n"
	"\t\t\tcontinue # --color=always: bash makes three words of it\n"
	"\t\telif [[ -n $value ]]; then\n"
	"\t\t\tvalue=\n"
	"\t\telse\n"
	"\t\t\t_memtrace_value \"$command $word\"\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif ((line)); then\n"
	"\t\tif declare -F _command_offset >/dev/null; then\n"
	"\t\t\t_command_offset \"$line\"\n"
	"\t\telif ((line == COMP_CWORD)); then\n"
	"\t\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"\t\telse\n"
	"\t\t\tcompopt -o default 2>/dev/null\n"
	"\t\tfi\n"
	"\t\treturn\n"
	"\tfi\n"
	"\t[[ $cur == '=' ]] && cur=\n"
	"\t_memtrace_words \"$command\"\n"
	"\tif [[ -n $value ]]; then\n"
	"\t\t_memtrace_offer \"$value\" \"$cur\"\n"
	"\telif [[ $cur == -* ]]; then\n"
	"\t\t((COMP_CWORD > 1)) || options=\"$options --version\"\n"
	"\t\t_memtrace_offer \"$options\" \"$cur\"\n"
	"\telif ((COMP_CWORD == 1)); then\n"
	"\t\t_memtrace_offer \"$_memtrace_commands\" \"$cur\"\n"
	"\t\t((${#COMPREPLY[@]})) || compopt -o default 2>/dev/null\n"
	"\telse\n"
	"\t\t_memtrace_offer \"$words\" \"$cur\"\n"
	"\tfi\n"
	"}\n"
	"complete -F _memtrace memtrace\n";

static void write_bash(struct buf *b)
{
	buf_puts(b, "# Completion of memtrace for bash; made by: memtrace completion bash\n"
		    "_memtrace_commands='");
	add_commands(b, " ", NULL);
	buf_puts(b, " help'\n_memtrace_runs='"); /* what a word that is no option ends */
	add_commands(b, " ", stops_at_first);
	buf_puts(b, "'\n_memtrace_value() # what follows an option\n{\n\tcase $1 in\n");
	for (size_t i = 0; commands[i]; i++)
		for (size_t k = 0; k < commands[i]->options.count; k++)
			if (commands[i]->options.rows[k].argument)
				bash_value(b, commands[i], &commands[i]->options.rows[k]);
	buf_puts(b, "\tesac\n}\n_memtrace_words() # a command's options, and its arguments\n{\n"
		    "\tcase $1 in\n\thelp) words=$_memtrace_commands ;;\n");
	for (size_t i = 0; commands[i]; i++)
		bash_words(b, commands[i]);
	buf_puts(b, "\tesac\n}\n");
	buf_puts(b, bash_end);
}

/* ---- zsh */

static void zsh_option(struct buf *b, const struct opt *o)
{
	buf_puts(b, "\t\t");
	if (o->kind == OPT_LIST)
		buf_puts(b, "'*'");
	else if (o->letter)
		buf_addf(b, "'(-%c --%s)'", o->letter, o->name);
	if (o->letter)
		buf_addf(b, "{-%c,--%s%s}'", o->letter, o->name, o->argument ? "=" : "");
	else
		buf_addf(b, "'--%s%s", o->name, o->argument ? "=" : "");
	buf_puts(b, "[");
	add_quoted(b, o->help, "[]\\", "'\\''");
	buf_puts(b, "]");
	if (o->argument) {
		struct buf words = { 0 };

		buf_puts(b, ":");
		add_quoted(b, o->argument, ":\\", "'\\''");
		if (is_file(o))
			buf_puts(b, ":_files");
		else if (add_words(&words, o->argument, " "))
			buf_addf(b, ":(%s)", words.text);
		else
			buf_puts(b, ": ");
		buf_release(&words);
	}
	buf_puts(b, "' \\\n");
}

static void zsh_arguments(struct buf *b, const struct command *c)
{
	struct buf words = { 0 };

	if (c->options.stop_at_first)
		buf_puts(b, "'(-):command: _command_names -e' '*::argument: _normal'\n");
	else if (has_command_line(c))
		buf_puts(b, "'*:: :_memtrace_line'\n");
	else if (!c->words)
		buf_puts(b, "'*:file:_files'\n");
	else if (add_words(&words, c->words, " "))
		buf_addf(b, "'1:argument:(%s)'\n", words.text);
	else
		buf_puts(b, "\n");
	buf_release(&words);
}

static void zsh_command(struct buf *b, const struct command *c)
{
	/* -S: no options behind "--"; in run and simulate, _normal completes what follows it. */
	buf_addf(b, "\t%s)\n\t\t_arguments -s -S \\\n", c->name);
	for (size_t i = 0; i < c->options.count; i++)
		zsh_option(b, &c->options.rows[i]);
	buf_puts(b, "\t\t'(-)'{-h,--help}'[show this]' \\\n\t\t");
	zsh_arguments(b, c);
	buf_puts(b, "\t\t;;\n");
}

static void write_zsh(struct buf *b)
{
	buf_puts(b, "#compdef memtrace\n"
		    "# Completion of memtrace for zsh; made by: memtrace completion zsh\n"
		    "_memtrace_line() # files, and behind -- a command line\n"
		    "{\n"
		    "\tlocal at=${words[(i)--]}\n"
		    "\tif ((at >= CURRENT)); then\n"
		    "\t\t_files\n"
		    "\telse\n"
		    "\t\tshift $at words\n"
		    "\t\t((CURRENT -= at))\n"
		    "\t\t_normal\n"
		    "\tfi\n"
		    "}\n"
		    "_memtrace()\n"
		    "{\n"
		    "\tlocal command=report\n"
		    "\tlocal -a memtrace_commands=(\n");
	for (size_t i = 0; commands[i]; i++) {
		buf_addf(b, "\t\t'%s:", commands[i]->name);
		add_quoted(b, commands[i]->summary, "", "'\\''");
		buf_puts(b, "'\n");
	}
	buf_puts(b, "\t\t'help:show the options of a command'\n"
		    "\t)\n"
		    "\tif ((CURRENT == 2)) && [[ $words[2] != -* ]]; then\n"
		    "\t\t_describe -t commands command memtrace_commands\n"
		    "\t\t_files\n"
		    "\t\treturn\n"
		    "\tfi\n"
		    "\t((CURRENT == 2)) && compadd -- --version\n"
		    "\tif ((CURRENT > 2)) && [[ -n ${memtrace_commands[(r)$words[2]:*]} ]]; then\n"
		    "\t\tcommand=$words[2]\n"
		    "\t\tshift words\n"
		    "\t\t((CURRENT--))\n"
		    "\tfi\n"
		    "\tcase $command in\n"
		    "\thelp) _describe -t commands command memtrace_commands ;;\n");
	for (size_t i = 0; commands[i]; i++)
		zsh_command(b, commands[i]);
	buf_puts(b, "\tesac\n}\n"
		    "if [[ $funcstack[1] == _memtrace ]]; then\n"
		    "\t_memtrace \"$@\"\n"
		    "else\n"
		    "\tcompdef _memtrace memtrace\n"
		    "fi\n");
}

/* ---- fish */

static void fish_option(struct buf *b, const struct command *c, const struct opt *o)
{
	struct buf words = { 0 };

	buf_addf(b, "complete -c memtrace -n '__memtrace_is %s' -l %s", c->name, o->name);
	if (o->letter)
		buf_addf(b, " -s %c", o->letter);
	if (o->argument && is_file(o))
		buf_puts(b, " -r -F");
	else if (o->argument && add_words(&words, o->argument, " "))
		buf_addf(b, " -x -a '%s'", words.text);
	else if (o->argument)
		buf_puts(b, " -x");
	buf_puts(b, " -d '");
	add_quoted(b, o->help, "\\", "\\'");
	buf_puts(b, "'\n");
	buf_release(&words);
}

static void fish_command(struct buf *b, const struct command *c)
{
	buf_addf(b, "complete -c memtrace -n __memtrace_first -a %s -d '", c->name);
	add_quoted(b, c->summary, "\\", "\\'");
	buf_puts(b, "'\n");
	for (size_t i = 0; i < c->options.count; i++)
		fish_option(b, c, &c->options.rows[i]);
	buf_addf(b, "complete -c memtrace -n '__memtrace_is %s' -l help -s h -d 'show this'\n",
		 c->name);
	if (c->words) {
		buf_addf(b, "complete -c memtrace -n '__memtrace_is %s' -f -a '", c->name);
		add_words(b, c->words, " ");
		buf_puts(b, "'\n");
	}
}

static void write_fish(struct buf *b)
{
	buf_puts(b, "# Completion of memtrace for fish; made by: memtrace completion fish\n"
		    "set -g __memtrace_commands ");
	add_commands(b, " ", NULL);
	buf_puts(b, " help\nset -g __memtrace_runs ");
	add_commands(b, " ", stops_at_first);
	buf_puts(
		b,
		"\n"
		"function __memtrace_first\n"
		"\ttest (count (commandline -opc)) -eq 1\n"
		"end\n"
		"function __memtrace_line # the position of a command line of another program\n"
		"\tset -l words (commandline -opc)\n"
		"\tif set -l at (contains -i -- -- $words)\n"
		"\t\tmath $at + 1\n"
		"\telse\n"
		"\t\treturn 1\n"
		"\tend\n"
		"end\n"
		"function __memtrace_is\n"
		"\tset -l words (commandline -opc)\n"
		"\t__memtrace_line >/dev/null; and return 1\n"
		"\tif set -q words[2]; and contains -- $words[2] $__memtrace_commands\n"
		"\t\ttest $words[2] = $argv[1]\n"
		"\telse\n"
		"\t\ttest report = $argv[1]\n"
		"\tend\n"
		"end\n"
		"function __memtrace_rest\n"
		"\tset -l words (commandline -opc)\n"
		"\tset -l from (__memtrace_line)\n"
		"\tset -l whole (string escape -- $words[$from..-1]) (commandline -ct)\n"
		"\tcomplete -C (string join ' ' -- $whole)\n"
		"end\n"
		"complete -c memtrace -n '__memtrace_line >/dev/null' -f -a '(__memtrace_rest)'\n"
		"complete -c memtrace -n '__memtrace_is help' -f -a \"$__memtrace_commands\"\n"
		"complete -c memtrace -n __memtrace_first -l version -d 'print the version'\n"
		"complete -c memtrace -n __memtrace_first -a help -d 'show the options of a command'\n");
	for (size_t i = 0; commands[i]; i++)
		fish_command(b, commands[i]);
}

/* ---- */

static const struct {
	const char *name;
	void (*write)(struct buf *b);
} shells[] = { { "bash", write_bash }, { "zsh", write_zsh }, { "fish", write_fish } };

static int run(char **arguments, size_t count)
{
	struct buf b = { 0 };
	struct err e = { 0 };
	int status;

	for (size_t i = 0; count == 1 && i < ARRAY_SIZE(shells); i++)
		if (!strcmp(arguments[0], shells[i].name))
			shells[i].write(&b);
	if (!b.length) {
		err_set(&e, "completion needs the name of a shell: bash, zsh or fish");
		return command_fail(STATUS_USAGE, &e);
	}
	status = command_print(b.text, b.length);
	buf_release(&b);
	return status;
}

const struct command cmd_completion = {
	.name = "completion",
	.summary = "print the completion of bash, zsh or fish",
	.usage = "bash|zsh|fish",
	.about =
		"Prints a script with which the shell completes commands, options and their values.\n"
		"For this session: source <(memtrace completion bash), or memtrace completion fish | source",
	.words = "bash|zsh|fish",
	.run = run,
};
