// SPDX-License-Identifier: Apache-2.0
// Runs one program with our stdin, stdout and environment, and says on stderr what the kernel counted for it and nothing else: microseconds of user and system
// time and of wall time. `exec-cost PROGRAM`. With `-m` the program is stopped at its end, and its resident memory then is said too, in KiB: the counters that
// wait4 reports leave out what is too small for them.

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}

static long rss_kb(pid_t pid) {
  char path[64], line[256];
  long kb = -1;
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "Rss: %ld", &kb) == 1) break;
  fclose(f);
  return kb;
}

int main(int argc, char **argv, char **env) {
  int memory = argc == 3 && strcmp(argv[1], "-m") == 0;
  if (argc != 2 && !memory) return 2;
  char **program = argv + (memory ? 2 : 1);
  long from = now_us(), kb = -1;
  pid_t pid = vfork();
  if (pid < 0) return 2;
  if (pid == 0) {
    if (memory) ptrace(PTRACE_TRACEME, 0, 0, 0);
    execve(*program, program, env);
    _exit(127);
  }
  int status, first = 1;
  struct rusage used;
  for (;;) {
    if (wait4(pid, &status, 0, &used) != pid) return 2;
    if (!WIFSTOPPED(status)) break;
    int sig = WSTOPSIG(status);
    if (first) ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACEEXIT);
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) kb = rss_kb(pid);
    ptrace(PTRACE_CONT, pid, 0, first || sig == SIGTRAP ? 0 : sig);
    first = 0;
  }
  long cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000L + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
  fprintf(stderr, "{\"exit\":%d,\"cpuUs\":%ld,\"wallUs\":%ld,\"rssKb\":%ld}\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          cpu, now_us() - from, kb);
  return 0;
}
