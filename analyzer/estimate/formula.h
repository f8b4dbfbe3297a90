/*
 * Expands two tables of a system to its functions and tables. SYMBOLS(X) has rows X(letter,
 * meaning); TERMS(TERM) has rows TERM(id, component, title, formula as printed, source,
 * expression). In an expression every letter is a number of type wide. A system includes this file
 * after both tables.
 */
#define X(letter, meaning) AT_##letter,
enum { SYMBOLS(X) SYMBOL_COUNT };
#undef X
_Static_assert(SYMBOL_COUNT <= MAX_SYMBOLS, "more letters than struct dims has room for");

#define SYMBOL(dims, letter) ((dims)->value[AT_##letter])

#define X(letter, meaning) { #letter, meaning },
static const struct symbol symbols[] = { SYMBOLS(X) };
#undef X

#define X(letter, meaning) __attribute__((unused)) const wide letter = dims_->value[AT_##letter];
#define TERM(id, component, title, printed, source, expression) \
	static wide term_##id(const struct dims *dims_)         \
	{                                                       \
		SYMBOLS(X)                                      \
		return expression;                              \
	}
TERMS(TERM)
#undef TERM
#undef X

#define TERM(id, component, title, printed, source, expression) \
	{ #id, component, title, printed, source, term_##id, NULL },
static const struct term terms[] = { TERMS(TERM) };
#undef TERM
_Static_assert(ARRAY_SIZE(terms) <= MAX_TERMS, "more terms than struct estimate has room for");

#define TERM(id, component, title, printed, source, expression) TERM_##id,
enum { TERMS(TERM) TERM_COUNT };
#undef TERM

/* The members of struct system that the tables above and the file's own functions give. */
#define SYSTEM_TABLES                                                        \
	.terms = terms, .term_count = ARRAY_SIZE(terms), .symbols = symbols, \
	.symbol_count = ARRAY_SIZE(symbols), .read = read_config, .add_results = add_results
