// A library that tools/squeeze.sh puts between a program and the system: each wait for the disk takes SLOW_FSYNC_MS longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_longer(void) {
	const char *text = getenv("SLOW_FSYNC_MS");
	long ms = text ? atol(text) : 0;
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&t, NULL);
}

int fsync(int fd) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
	wait_longer();
	return real(fd);
}

int fdatasync(int fd) {
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
	wait_longer();
	return real(fd);
}
