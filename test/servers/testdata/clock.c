// Gives a program a wall clock that is some seconds off. How many is in the file SOLOIST_TEST_CLOCK, as an int64 in the machine's
// byte order, and may change at any time. The monotonic clock stays as it is.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none = 0;
static volatile int64_t *offset = &none;

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("SOLOIST_TEST_CLOCK");
  int fd = path ? open(path, O_RDONLY) : -1;
  if (fd < 0) return;
  void *at = mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  if (at != MAP_FAILED) offset = at;
  close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  int failed = syscall(SYS_clock_gettime, clock, t);
  if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) t->tv_sec += *offset;
  return failed;
}

int gettimeofday(struct timeval *t, void *zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
  t->tv_sec = now.tv_sec;
  t->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}
