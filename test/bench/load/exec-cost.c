// SPDX-License-Identifier: Apache-2.0
// Runs one program with our stdin, stdout and environment, and says on stderr what the kernel counted for it and nothing else: microseconds of user and system
// time, of wall time, and the largest resident memory in KiB. `exec-cost PROGRAM`. Small itself, because a process that is forked counts its parent's memory
// until it runs the program.

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

int main(int argc, char **argv, char **env) {
  if (argc != 2) return 2;
  long from = now_us();
  pid_t pid = vfork();
  if (pid < 0) return 2;
  if (pid == 0) {
    execve(argv[1], argv + 1, env);
    _exit(127);
  }
  int status;
  struct rusage used;
  if (wait4(pid, &status, 0, &used) != pid) return 2;
  long cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
  fprintf(stderr, "{\"exit\":%d,\"cpuUs\":%ld,\"wallUs\":%ld,\"rssKb\":%ld}\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          cpu, now_us() - from, used.ru_maxrss);
  return 0;
}
