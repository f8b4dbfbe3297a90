/*
 * A library that was opened with RTLD_DEEPBIND uses the functions of its own dependencies, not
 * ours, so its linked calls are not seen. Its relocation tables show the functions that it uses.
 */
#define _GNU_SOURCE
#include "hooks/bypass.h"

#include <memtrace/trace.h>
#include <string.h>

#include "hooks/hooks.h"
#include "symbols/resolve.h"
#include "symbols/elf_symbols.h"
#include "record/tables.h"
#include "base/text.h"

#define SUSPECTS 32
#define NAMED 4 /* libraries, in the note */

#if defined(__x86_64__)
#define IS_BINDING(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#else
#define IS_BINDING(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

/* A hooked name that an object has bound to a function of another object, which is not ours. */
struct suspect {
	const char *symbol;
	const void *object, *bound;
};

struct search {
	struct suspect suspect[SUSPECTS];
	unsigned count;
};

static int said;

void bypass_forget(void)
{
	said = 0;
}

static const char *hooked(const char *name)
{
	if (strncmp(name, "cu", 2) != 0 && strncmp(name, "nccl", 4) != 0)
		return NULL;
	for (unsigned i = 0; i < hooks_count; i++)
		if (strcmp(hooks[i].symbol, name) == 0)
			return hooks[i].symbol;
	return NULL;
}

static void search_bindings(struct search *found, const struct dl_phdr_info *o,
			    const struct symbols *s, const ElfW(Rela) * list, size_t bytes)
{
	for (size_t i = 0; i < bytes / sizeof(*list) && found->count < SUSPECTS; i++) {
		const ElfW(Sym) *y = &s->symbol[ELF64_R_SYM(list[i].r_info)];
		const char *name;
		const void *bound;

		if (!IS_BINDING(ELF64_R_TYPE(list[i].r_info)) || y->st_shndx != SHN_UNDEF)
			continue;
		name = hooked(s->names + y->st_name);
		if (!name)
			continue;
		bound = *(void **)(o->dlpi_addr + list[i].r_offset);
		/* A function that was not called yet is bound to the object's own stub. */
		if (bound && !resolve_holds(o, bound) && !resolve_is_ours(bound))
			found->suspect[found->count++] = (struct suspect){
				name, (void *)(o->dlpi_addr + o->dlpi_phdr[0].p_vaddr), bound
			};
	}
}

/* Only an object's own dependencies can come before us: this excludes most objects. */
static int needs_cuda(const ElfW(Dyn) * d, const struct symbols *s)
{
	for (; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED &&
		    (strncmp(s->names + d->d_un.d_val, "libcuda", 7) == 0 ||
		     strncmp(s->names + d->d_un.d_val, "libnccl", 7) == 0))
			return 1;
	return 0;
}

static int search_object(struct dl_phdr_info *o, size_t size, void *found)
{
	const ElfW(Dyn) *d = NULL;
	ElfW(Addr) plt = 0, all = 0;
	size_t plt_bytes = 0, all_bytes = 0, relative = 0;
	struct symbols s;

	(void)size;
	for (int i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			d = (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	if (symbols_read(o->dlpi_addr, d, &s) != 0 || !needs_cuda(d, &s))
		return 0;
	for (; d && d->d_tag != DT_NULL; d++) {
		plt = d->d_tag == DT_JMPREL ? d->d_un.d_ptr : plt;
		plt_bytes = d->d_tag == DT_PLTRELSZ ? d->d_un.d_val : plt_bytes;
		all = d->d_tag == DT_RELA ? d->d_un.d_ptr : all;
		all_bytes = d->d_tag == DT_RELASZ ? d->d_un.d_val : all_bytes;
		/* Most relocations name no symbol, and these come first. */
		relative = d->d_tag == DT_RELACOUNT ? d->d_un.d_val * sizeof(ElfW(Rela)) : relative;
	}
	relative = relative < all_bytes ? relative : all_bytes;
	/* Relocated in place or not, as in symbols.c. */
	plt += plt && plt < o->dlpi_addr ? o->dlpi_addr : 0;
	all += all && all < o->dlpi_addr ? o->dlpi_addr : 0;
	search_bindings(found, o, &s, (const ElfW(Rela) *)plt, plt ? plt_bytes : 0);
	search_bindings(found, o, &s, (const ElfW(Rela) *)(all + relative),
			all ? all_bytes - relative : 0);
	return 0;
}

/* The name is bound to the function that we would call: not to another tracer, which calls us. */
static int is_past_us(const struct suspect *x)
{
	return x->bound == resolve(x->symbol);
}

void bypass_describe(void)
{
	static struct search found; /* large: once, on the helper thread */
	static struct text note;
	static char path[4096];
	const void *named = NULL;
	unsigned count = 0;

	if (said)
		return;
	said = 1;
	found.count = 0;
	note.n = 0;
	dl_iterate_phdr(search_object, &found);
	for (unsigned i = 0; i < found.count && count < NAMED; i++) {
		const struct suspect *x = &found.suspect[i];
		if (x->object == named || !is_past_us(x))
			continue;
		named = x->object;
		resolve_module(x->object, path, sizeof(path));
		text_str(&note, count++ ? ", " : "");
		text_str(&note, symbols_file(path));
		text_str(&note, " (");
		text_str(&note, x->symbol);
		text_str(&note, ")");
	}
	if (!count)
		return;
	text_str(
		&note,
		": calls of CUDA from here go past memtrace (opened with RTLD_DEEPBIND): what they "
		"allocate is seen only in samples of the device");
	tables_meta(MT_META_NOTE, "bypass", note.s, note.n);
}
