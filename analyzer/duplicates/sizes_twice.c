#include "duplicates/sizes_twice.h"

#include "util/order.h"
#include "util/size_counts.h"

#include <stdlib.h>
#include <string.h>

#define NEAR 4            /* places by which a size may be moved */
#define MAX_TRIES 64      /* places where a second model may begin, each of which is compared */
#define MAX_MODELS 8      /* equal models that a job has beside each other */
#define MAX_DIFFERENCE 20 /* two models differ by 1/20 at most, in all sizes together */

/* Have two lists the same sizes, in any order? Sorts them. */
static int are_alike(bytes *a, bytes *b, size_t count)
{
	bytes sum = 0, differ = 0;

	qsort(a, count, sizeof(*a), by_bytes_rising);
	qsort(b, count, sizeof(*b), by_bytes_rising);
	for (size_t i = 0; i < count; i++) {
		if (!sizes_are_alike(a[i], b[i]))
			return 0;
		sum = bytes_add(sum, a[i]);
		differ = bytes_add(differ, a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
	}
	return differ <= sum / MAX_DIFFERENCE;
}

/* How many sizes of the first half are like one of them; more than two are not distinguished. */
static unsigned count_like(const bytes *sizes, size_t half, bytes size)
{
	unsigned found = 0;

	for (size_t i = 0; i < half && found <= 2; i++)
		found += (unsigned)sizes_are_alike(sizes[i], size);
	return found;
}

static int comes_again(const bytes *sizes, size_t half, size_t place)
{
	size_t around = half / 8 + 1;

	for (size_t i = place > around ? place - around : 0; i < half && i <= place + around; i++)
		if (sizes_are_alike(sizes[half + i], sizes[place]))
			return 1;
	return 0;
}

/* Are the sizes those of a few equal layers, one behind the other? */
static int are_layers(const bytes *sizes, size_t count)
{
	for (size_t period = 1; period <= count / 2; period++) {
		size_t i = period;

		while (i < count && sizes_are_alike(sizes[i], sizes[i - period]))
			i++;
		if (i == count && count % period == 0)
			return 1;
	}
	return 0;
}

/* Has the second half the sizes that a model has once at about the same places? An embedding and a
 * head of one size are at the two ends of a single model. If each size is there more often, the
 * largest of those that are there twice decides, as an embedding and a head, unless two equal
 * layers are all that there is. */
static int begins_again(const bytes *sizes, size_t half)
{
	size_t once = 0, pair = half;

	for (size_t i = 0; i < half && once < MAX_TRIES; i++) {
		unsigned like = count_like(sizes, half, sizes[i]);

		if (like == 1 && !comes_again(sizes, half, i))
			return 0;
		once += like == 1;
		if (like == 2 && (pair == half || sizes[i] > sizes[pair]))
			pair = i;
	}
	return once || (pair < half && comes_again(sizes, half, pair) && !are_layers(sizes, half));
}

bytes sizes_twice(const bytes *sizes, size_t count, size_t least)
{
	bytes *sorted = xcalloc(count + 1, sizeof(*sorted)),
	      *until = xcalloc(count + 1, sizeof(*until));
	bytes most = 0;
	size_t tries = 0;

	for (size_t i = 0; i < count; i++)
		until[i + 1] = bytes_add(until[i], sizes[i]);
	for (size_t half = count / 2; half >= least && !most && tries < MAX_TRIES; half--) {
		bytes first = until[half], second = until[2 * half] - first;

		if ((first > second ? first - second : second - first) > first / MAX_DIFFERENCE)
			continue;
		tries++;
		if (!begins_again(sizes, half))
			continue;
		memcpy(sorted, sizes, 2 * half * sizeof(*sorted));
		if (are_alike(sorted, sorted + half, half))
			most = first;
	}
	free(until);
	free(sorted);
	return most;
}

/* Is a size that is once among those before `first` there again, behind it? Without one, the list
 * repeats itself because the layers of a model are alike. 0 too if such a size should be there by
 * now, and is not. */
static int has_unique(const bytes *sizes, size_t count, size_t first)
{
	int found = 0;

	for (size_t i = 0; i < count - first; i++) {
		size_t same = 0, k = first;

		for (size_t at = 0; at < first && same < 2; at++)
			same += sizes[at] == sizes[i];
		if (same > 1)
			continue;
		while (k < count && sizes[k] != sizes[i])
			k++;
		if (k == count && i + NEAR < count - first)
			return 0;
		found |= k < count;
	}
	return found;
}

/* Are the sizes from `first` on those of the begin, each within NEAR places of its own? A module
 * that has parameters and parts comes before its parts in parameters(), and behind them in to().
 * `taken`: of each place of the begin, zeros before and after. */
static int is_again(const bytes *sizes, size_t count, size_t first, unsigned char *taken)
{
	size_t k = 0;

	for (size_t i, end; first + k < count; k++) {
		end = k + NEAR < first ? k + NEAR + 1 : first;
		for (i = k > NEAR ? k - NEAR : 0; i < end; i++)
			if (!taken[i] && sizes[i] == sizes[first + k])
				break;
		if (i == end)
			break;
		taken[i] = 1;
	}
	memset(taken, 0, first);
	return first + k == count;
}

size_t sizes_begin_again(const bytes *sizes, size_t count, size_t least)
{
	unsigned char *taken = xcalloc(count + 1, 1);
	size_t found = 0;

	for (size_t first = count / 2;
	     !found && first + least <= count && first <= count - count / 3; first++) {
		if (sizes[first] != sizes[0] || !is_again(sizes, count, first, taken))
			continue;
		/* A later place would be within NEAR of this one, or repeat layers. */
		found = has_unique(sizes, count, first) ? first : 0;
		break;
	}
	free(taken);
	return found;
}

/* Is the largest size at the begin or the end of a model, as an embedding or a head, and twice as
 * large as all others? A layer has several weights of nearly its largest size. */
static int has_ends(const bytes *sizes, size_t each)
{
	bytes largest = sizes[0] > sizes[each - 1] ? sizes[0] : sizes[each - 1];

	for (size_t i = 1; i + 1 < each; i++)
		if (sizes[i] > largest / 2)
			return 0;
	return 1;
}

size_t sizes_of_equal_models(const bytes *sizes, size_t count, size_t least)
{
	bytes *a = xcalloc(count + 1, sizeof(*a)), *b = xcalloc(count + 1, sizeof(*b));
	size_t found = 0;

	for (size_t models = 2; models <= MAX_MODELS && !found; models++) {
		size_t each = count / models, alike = 1;

		if (count % models || each < least || !begins_again(sizes, each) ||
		    !has_ends(sizes, each))
			continue;
		for (; alike < models; alike++) {
			memcpy(a, sizes, each * sizeof(*a));
			memcpy(b, sizes + alike * each, each * sizeof(*b));
			if (!are_alike(a, b, each))
				break;
		}
		found = alike == models ? each : 0;
	}
	free(a);
	free(b);
	return found;
}
