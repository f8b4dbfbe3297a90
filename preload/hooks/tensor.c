#include "hooks/tensor.h"

#include <memtrace/trace.h>
#include <stddef.h>
#include <string.h>

#include "base/peek.h"

#define DEVICE_TYPE_CUDA 1 /* c10::DeviceType */

/* What follows the count of references in an object that counts them: two words in PyTorch up to
 * 2.2, one of two halves since. Returns its offset; 0 if it cannot be read. */
static int behind_count(const void *object)
{
	uint64_t counts;

	if (peek(object, 8, &counts, sizeof(counts)))
		return 0;
	return counts >> 32 ? 16 : 24;
}

/*
 * c10::TensorImpl begins with its storage, and c10::StorageImpl with
 * a c10::DataPtr, which is the address, a context with its deleter, and the device.
 */
uint64_t tensor_address(const void *impl, unsigned *device)
{
	const void *storage = NULL;
	uint64_t address = 0;
	int8_t of[2] = { 0, 0 };
	int at = behind_count(impl);

	if (!at || peek(impl, at, &storage, sizeof(storage)) || !storage)
		return 0;
	at = behind_count(storage);
	if (!at || peek(storage, at, &address, sizeof(address)) ||
	    peek(storage, at + 24, of, sizeof(of)) || of[0] != DEVICE_TYPE_CUDA || of[1] < 0 ||
	    of[1] >= MT_MAX_DEVICES)
		return 0;
	*device = (unsigned)of[1];
	return address;
}

/* Where c10::TensorImpl has a pointer to the Python object differs between versions of PyTorch;
 * each place is looked at. */
int tensor_is_parameter(const void *impl)
{
	static const int places[] = { 48, 56, 64 };
	static const char wanted[] = "Parameter";

	for (unsigned i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		const char *object, *type, *name;
		char is[sizeof(wanted)];

		if (!peek(impl, places[i], &object, sizeof(object)) && object &&
		    !peek(object, 8, &type, sizeof(type)) && type &&
		    !peek(type, 24, &name, sizeof(name)) && name && !peek(name, 0, is, 8) &&
		    !peek(name, 8, is + 8, 2) && !memcmp(is, wanted, sizeof(is)))
			return 1;
	}
	return 0;
}

/* c10::TensorImpl has the counter behind its storage, autograd's data and another pointer. */
uint32_t tensor_version(const void *impl)
{
	const void *counter = NULL;
	uint32_t version = 0;
	int at = behind_count(impl);

	if (!at || peek(impl, at + 24, &counter, sizeof(counter)) || !counter)
		return 0;
	at = behind_count(counter);
	return at && !peek(counter, at, &version, sizeof(version)) ? version : 0;
}
