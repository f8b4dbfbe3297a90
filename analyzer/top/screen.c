#define NCURSES_NOMACROS
#define NCURSES_WIDECHAR 1
#include "top/screen.h"

#include <curses.h>
#include <stdlib.h>
#include <string.h>

#include "live/tail.h"
#include "top/detail_text.h"
#include "top/frame_text.h"

enum view { VIEW_LIST, VIEW_DETAIL, VIEW_HELP };

#define FILTER_MOST 64
#define ESCAPE 27
/* The text of a narrower terminal is that of this width, cut. */
#define NARROWEST 40

struct screen {
	struct folder *folder;
	const struct screen_options *options;
	struct style style;
	struct row_choice choice;
	enum view view, before_help;
	struct process_row *rows;
	size_t count, selected, top; /* of the list: the row that is chosen, the first one shown */
	char *chosen;                /* the path of the chosen row's trace: rows move */
	unsigned chosen_device;
	struct buf text; /* of the detail and of the help */
	size_t line;     /* of it: the first one shown */
	char filter[FILTER_MOST];
	int types_filter;
	double next_s; /* when the next update is due */
};

static const char help[] =
	"memtrace top: the traced processes of a directory. It reads their traces only.\n"
	"\n"
	"  up, down, PgUp, PgDn, Home, End   choose a process; scroll\n"
	"  Enter                             show it in detail, with its largest stacks\n"
	"  Esc, q                            back; q in the list quits\n"
	"  s, S                              sort by the next, the previous column\n"
	"  r                                 reverse the order\n"
	"  /                                 filter: words that a row must have, as rank:3 gpu:0\n"
	"                                    state:oom host:NAME run:ID pid:N; empty: all rows\n"
	"  a                                 also processes of earlier runs that have ended\n"
	"  h, ?                              this help\n"
	"  Ctrl-L                            draw again\n"
	"\n"
	"Columns\n"
	"  event     time since the last event of the process\n"
	"  memory    what is used of the GPU: tensors, cached by PyTorch's allocator, other, free\n"
	"  alloc     bytes in tensors; reserv: held by PyTorch's allocator; device: all\n"
	"  of        the size of the GPU's memory\n"
	"  peak      the highest value of device\n"
	"  +/step    growth of the least allocated bytes of a training step, over the last steps\n"
	"  left      steps until the GPU is full, if every later step held more than the earlier\n"
	"            ones; fragmentation can make it fewer\n"
	"  holds     what the tensors were at the highest moment of the last steps\n"
	"Sizes are in powers of 1024: K, M, G, T.\n"
	"\n"
	"States\n"
	"  running, ended (with status 0), failed (with another status), oom (out of memory),\n"
	"  killed (gone without a word), silent (runs without events for long: it may hang),\n"
	"  unknown (on another host), damaged (the trace cannot be read)\n";

/* ---- text with colours, as page.h writes it, to the screen ---- */

static attr_t attribute_of(int sgr, int has_color)
{
	if (!sgr)
		return A_NORMAL;
	if (sgr == 1)
		return A_BOLD;
	if (sgr >= 90 && sgr <= 97)
		return sgr == 90 ? A_DIM
				 : (attr_t)COLOR_PAIR(has_color ? sgr - 90 + 1 : 0) | A_BOLD;
	if (sgr >= 30 && sgr <= 37)
		return (attr_t)COLOR_PAIR(has_color ? sgr - 30 + 1 : 0);
	return A_NORMAL;
}

/* Draws a line, and returns the start of the next one. */
static const char *draw_line(int y, const char *text, attr_t base)
{
	attr_t now = base;

	move(y, 0);
	while (*text && *text != '\n') {
		size_t n = strcspn(text, "\033\n");

		attrset((int)now);
		addnstr(text, (int)n);
		text += n;
		if (text[0] != '\033')
			continue;
		for (text += strspn(text, "\033["); *text && *text != 'm'; text++)
			if (*text >= '0' && *text <= '9') {
				int sgr = (int)strtol(text, NULL, 10);

				now = sgr ? now | attribute_of(sgr, has_colors()) : base;
				text += strspn(text, "0123456789") - 1;
			}
		text += *text == 'm';
	}
	attrset((int)A_NORMAL);
	return *text ? text + 1 : text;
}

/* ---- what is shown ---- */

static size_t list_lines(void)
{
	return LINES > FRAME_HEAD_LINES + 2 ? (size_t)LINES - FRAME_HEAD_LINES - 2 : 1;
}

static void choose(struct screen *s, size_t i)
{
	s->selected = s->count ? (i < s->count ? i : s->count - 1) : 0;
	free(s->chosen);
	s->chosen = s->count ? xstrdup(s->rows[s->selected].process->path) : NULL;
	s->chosen_device = s->count && s->rows[s->selected].device
				   ? s->rows[s->selected].device->ordinal
				   : MT_NO_DEVICE;
}

static int is_chosen(const struct screen *s, const struct process_row *r)
{
	return !strcmp(r->process->path, s->chosen) &&
	       (r->device ? r->device->ordinal : MT_NO_DEVICE) == s->chosen_device;
}

/* Orders the rows anew; the chosen one stays chosen. */
static void arrange(struct screen *s)
{
	size_t i = 0;

	free(s->rows);
	s->choice.filter = s->filter[0] ? s->filter : NULL;
	s->rows = live_rows(s->folder, &s->choice, &s->count);
	while (s->chosen && i < s->count && !is_chosen(s, &s->rows[i]))
		i++;
	choose(s, s->chosen && i < s->count ? i : s->selected);
}

static void write_detail(struct screen *s)
{
	struct page p = { .out = &s->text, .style = &s->style };
	struct report tail = { 0 };
	struct err why = { 0 };

	s->text.length = 0;
	if (!s->count)
		return;
	live_tail_report(s->rows[s->selected].process, &tail, &why);
	detail_text(&p, &s->rows[s->selected], &tail, why.text);
	report_release(&tail);
}

static void draw_list(struct screen *s)
{
	struct buf text = { 0 };
	struct page p = { .out = &text, .style = &s->style };
	size_t lines = list_lines();
	const char *at;
	int y = 0;

	if (s->selected < s->top)
		s->top = s->selected;
	if (s->selected >= s->top + lines)
		s->top = s->selected - lines + 1;
	if (s->top + lines > s->count)
		s->top = s->count > lines ? s->count - lines : 0;
	frame_head(&p, s->folder, s->rows, s->count);
	frame_titles(&p, s->choice.order);
	for (size_t i = s->top; i < s->count && i < s->top + lines; i++)
		frame_row(&p, &s->rows[i]);
	for (at = text.text; *at && y < LINES - 1; y++)
		at = draw_line(y, at,
			       y - FRAME_HEAD_LINES - 1 == (int)(s->selected - s->top) && s->count
				       ? A_REVERSE
				       : A_NORMAL);
	buf_release(&text);
}

static size_t text_lines(const struct screen *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->text.length; i++)
		n += s->text.text[i] == '\n';
	return n;
}

static void draw_text(struct screen *s)
{
	size_t lines = text_lines(s), shown = LINES > 1 ? (size_t)LINES - 1 : 1;
	const char *at = s->text.length ? s->text.text : "";

	s->line = lines <= shown ? 0 : s->line + shown > lines ? lines - shown : s->line;
	for (size_t i = 0; i < s->line && *at; i++)
		at += strcspn(at, "\n") + 1;
	for (int y = 0; *at && y < LINES - 1; y++)
		at = draw_line(y, at, A_NORMAL);
}

static void draw_foot(const struct screen *s)
{
	char foot[256];

	if (s->types_filter)
		snprintf(foot, sizeof(foot), "filter: %s_", s->filter);
	else if (s->view == VIEW_LIST)
		snprintf(foot, sizeof(foot), "%zu of %zu  sorted by %s%s%s%s  h help  q quit",
			 s->count ? s->selected + 1 : 0, s->count, row_order_name(s->choice.order),
			 s->choice.is_reversed ? " (reversed)" : "",
			 s->filter[0] ? "  filter: " : "", s->filter);
	else
		snprintf(foot, sizeof(foot), "Esc back  up, down scroll%s",
			 s->view == VIEW_DETAIL ? "  h help" : "");
	move(LINES - 1, 0);
	attrset((int)(s->types_filter ? A_BOLD : A_DIM));
	addnstr(foot, COLS - 1);
	attrset((int)A_NORMAL);
}

static void draw(struct screen *s)
{
	erase();
	if (s->view == VIEW_LIST)
		draw_list(s);
	else
		draw_text(s);
	draw_foot(s);
	refresh();
}

static void write_view(struct screen *s)
{
	if (s->view == VIEW_DETAIL)
		write_detail(s);
	if (s->view == VIEW_HELP) {
		s->text.length = 0;
		buf_puts(&s->text, help);
	}
}

static void show(struct screen *s, enum view view)
{
	s->view = view;
	s->line = 0;
	write_view(s);
}

/* ---- keys ---- */

static void scroll_by(struct screen *s, long by)
{
	long to = (long)(s->view == VIEW_LIST ? s->selected : s->line) + by;

	to = to < 0 ? 0 : to;
	if (s->view == VIEW_LIST)
		choose(s, (size_t)to);
	else
		s->line = (size_t)to;
}

static void sort_by(struct screen *s, int by)
{
	s->choice.order = (enum row_order)((s->choice.order + ROW_ORDER_COUNT + (unsigned)by) %
					   ROW_ORDER_COUNT);
	s->choice.is_reversed = 0;
	arrange(s);
	choose(s, 0);
}

static void type_filter(struct screen *s, int key)
{
	size_t n = strlen(s->filter);

	if (key == '\n' || key == KEY_ENTER || key == ESCAPE) {
		if (key == ESCAPE)
			s->filter[0] = '\0';
		s->types_filter = 0;
	} else if ((key == KEY_BACKSPACE || key == 127 || key == '\b') && n) {
		s->filter[n - 1] = '\0';
	} else if (key >= ' ' && key < 127 && n + 1 < FILTER_MOST) {
		s->filter[n] = (char)key;
		s->filter[n + 1] = '\0';
	}
	arrange(s);
}

/* Keys of the list alone. Returns whether it quits. */
static int list_key(struct screen *s, int key)
{
	switch (key) {
	case 'q':
		return 1;
	case '\n':
	case KEY_ENTER:
	case KEY_RIGHT:
		show(s, VIEW_DETAIL);
		break;
	case 's':
	case 'S':
		sort_by(s, key == 's' ? 1 : -1);
		break;
	case 'r':
		s->choice.is_reversed = !s->choice.is_reversed;
		arrange(s);
		break;
	case 'a':
		s->choice.all = !s->choice.all;
		arrange(s);
		break;
	case '/':
		s->types_filter = 1;
		s->filter[0] = '\0';
		arrange(s);
		break;
	case ESCAPE:
		s->filter[0] = '\0';
		arrange(s);
		break;
	}
	return 0;
}

static void resize(struct screen *s)
{
	s->style.width = COLS < NARROWEST ? NARROWEST : COLS;
	write_view(s);
	clearok(stdscr, TRUE);
}

/* Returns whether it quits. */
static int press(struct screen *s, int key)
{
	long page = (long)list_lines();

	if (key == KEY_RESIZE) {
		resize(s);
		return 0;
	}
	if (s->types_filter) {
		type_filter(s, key);
		return 0;
	}
	switch (key) {
	case KEY_UP:
	case KEY_DOWN:
		scroll_by(s, key == KEY_UP ? -1 : 1);
		return 0;
	case KEY_PPAGE:
	case KEY_NPAGE:
		scroll_by(s, key == KEY_PPAGE ? -page : page);
		return 0;
	case KEY_HOME:
	case KEY_END:
		scroll_by(s, key == KEY_HOME ? -1000000000L : 1000000000L);
		return 0;
	case 'L' - '@':
		clearok(stdscr, TRUE);
		return 0;
	case 'h':
	case '?':
		s->before_help = s->view == VIEW_HELP ? s->before_help : s->view;
		show(s, VIEW_HELP);
		return 0;
	}
	if (s->view == VIEW_LIST)
		return list_key(s, key);
	if (key == ESCAPE || key == 'q' || key == KEY_LEFT || key == KEY_BACKSPACE || key == 127)
		show(s, s->view == VIEW_HELP ? s->before_help : VIEW_LIST);
	return 0;
}

/* ---- the loop ---- */

static int update(struct screen *s, struct err *e)
{
	if (folder_update(s->folder, e) < 0)
		return -1;
	folder_read_tails(s->folder, s->options->interval_s * SCREEN_SHARE);
	arrange(s);
	if (s->view == VIEW_DETAIL)
		write_detail(s);
	s->next_s = monotonic_seconds() + s->options->interval_s;
	return s->options->updated ? s->options->updated(s->options->context, s->folder, e) : 0;
}

static int loop(struct screen *s, struct err *e)
{
	for (;;) {
		double wait = s->next_s - monotonic_seconds();
		int key;

		if (wait <= 0 && update(s, e) < 0)
			return -1;
		draw(s);
		timeout(wait <= 0 ? 0 : (int)(wait * 1000) + 1);
		key = getch();
		if (key != ERR && press(s, key))
			return 0;
	}
}

static void set_up(struct screen *s)
{
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	set_escdelay(25);
	curs_set(0);
	if (s->style.color && has_colors()) {
		start_color();
		use_default_colors();
		for (short c = 0; c < 8; c++)
			init_pair((short)(c + 1), c, -1);
	} else {
		s->style.color = 0;
	}
	s->style.width = COLS < NARROWEST ? NARROWEST : COLS;
}

int screen_run(struct folder *f, const struct screen_options *o, FILE *out, FILE *in, struct err *e)
{
	struct screen s = { .folder = f, .options = o, .style = o->style, .choice = o->choice };
	SCREEN *terminal = newterm(NULL, out, in);
	const char *name = getenv("TERM");
	int status;

	if (!terminal)
		return err_set(e, "the terminal \"%s\" is not known here: set TERM, or use --once",
			       name ? name : "");
	if (o->choice.filter)
		snprintf(s.filter, sizeof(s.filter), "%s", o->choice.filter);
	set_up(&s);
	arrange(&s);
	choose(&s, 0);
	s.next_s = monotonic_seconds() + o->interval_s;
	status = loop(&s, e);
	endwin();
	delscreen(terminal);
	free(s.rows);
	free(s.chosen);
	buf_release(&s.text);
	return status;
}
