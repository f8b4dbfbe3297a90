/* The memory in which the ranks of a communicator meet. It has no name in a file system, so
 * nothing of it stays behind after any kind of end: the first rank makes it, and hands it to the
 * others over a socket in the abstract namespace, which ends with its process. */
#define _GNU_SOURCE
#include "nccl/segment.h"

#include "device/settings.h"
#include "nccl/comm.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { RETRY_US = 1000 };

/* The message that carries a file. */
union carrier {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

static socklen_t address_of(const char *name, struct sockaddr_un *address)
{
	size_t length = strlen(name);
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path + 1, name, length);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

/* Space is allocated before it is mapped: no memory is then an error here, not a SIGBUS at a store.
 */
static int make(const char *name, size_t size, size_t fixed, int *file)
{
	*file = memfd_create(name, MFD_CLOEXEC);
	if (*file < 0 || ftruncate(*file, (off_t)size))
		return errno;
	return posix_fallocate(*file, 0, (off_t)fixed);
}

/* Receives the file from the rank that has it; -1: that rank has ended, or sends none in time. */
static int take(int from)
{
	char byte;
	union carrier carrier;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &carrier,
				  .msg_controllen = sizeof carrier };
	struct timeval limit = { .tv_sec = (time_t)settings.timeout };
	int file = -1;
	setsockopt(from, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	if (header && header->cmsg_type == SCM_RIGHTS)
		memcpy(&file, CMSG_DATA(header), sizeof file);
	return file;
}

int segment_open(const char *name, size_t size, size_t fixed, int *file, int *listener)
{
	struct sockaddr_un address;
	socklen_t length = address_of(name, &address);
	int error = ETIMEDOUT;
	for (uint64_t ms = 0; ms <= settings.timeout * 1000; ms++) {
		int end = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (end < 0)
			return errno;
		if (!bind(end, (struct sockaddr *)&address, length)) {
			*listener = end;
			error = make(name, size, fixed, file);
			if (!error && (fcntl(end, F_SETFL, O_NONBLOCK) || listen(end, COMM_RANKS)))
				error = errno;
			return error;
		}
		error = errno;
		if (error == EADDRINUSE && !connect(end, (struct sockaddr *)&address, length))
			*file = take(end);
		close(end);
		if (*file >= 0)
			return 0;
		if (error != EADDRINUSE)
			return error;
		usleep(RETRY_US); /* it does not listen yet, or has just ended */
	}
	return ETIMEDOUT;
}

void segment_hand_out(int file, int listener)
{
	char byte = 0;
	union carrier carrier = { .header = { .cmsg_level = SOL_SOCKET,
					      .cmsg_type = SCM_RIGHTS,
					      .cmsg_len = CMSG_LEN(sizeof file) } };
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part,
				  .msg_iovlen = 1,
				  .msg_control = &carrier,
				  .msg_controllen = sizeof carrier };
	memcpy(CMSG_DATA(&carrier.header), &file, sizeof file);
	for (int guest; (guest = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; close(guest))
		sendmsg(guest, &message, MSG_NOSIGNAL);
}
