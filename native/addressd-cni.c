// SPDX-License-Identifier: Apache-2.0
// The CNI plugin on the host: it hands its environment and stdin to the agent of the node, byte for byte, and prints what comes back. It decides nothing
// and holds no credentials. Where no agent answers, removals and checks succeed, the agent's own pods, excluded namespaces and what is no pod of
// Kubernetes pass with the result they came with, and everything else fails, so that no pod of the mesh starts outside it.
//
// The request, on <cni_agent_run_dir>/pluginevent.sock (src/node-agent/plugin-protocol/framing.ts is the other side):
//   POST /cni HTTP/1.1, with Content-Length; the body: each CNI_NAME=value followed by a NUL, one more NUL, then stdin.
//   The answer: status 200, `cni-exit-code: 0` or `1`, Content-Length; the body is printed. Anything else is no answer.
//
// Of its configuration it reads the top level alone: prevResult (where it begins and ends), cniVersion, exclude_namespaces, pod_namespace,
// cni_agent_run_dir, agent_daemonset (the name of the agent's DaemonSet).

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define MAX_STDIN (1 << 20)
#define MAX_ENVIRONMENT (256 << 10)
#define MAX_HEAD (16 << 10)
#define MAX_DEPTH 1024

// All of an ADD, waiting for the agent included. An agent that is being replaced comes back within the second figure, and leaves time for its answer.
#define ADD_BUDGET_MS 4900
#define ADD_CONNECT_MS 3000
// Whoever passes without the agent's word does not wait for it long.
#define QUIET_BUDGET_MS 2000

#define DEFAULT_RUN_DIR "/var/run/istio-cni"
#define DEFAULT_DAEMONSET "addressd-node"
#define SOCKET_NAME "/pluginevent.sock"

#define CODE_VERSION 1
#define CODE_ENVIRONMENT 4
#define CODE_DECODING 6
#define CODE_OWN 999

typedef unsigned char byte;

struct span {
  const byte *at;
  size_t length;
};

struct cursor {
  const byte *at;
  const byte *end;
};

// What the plugin may know of its configuration. Absent values have no `at`.
struct config {
  struct span prev_result, version, excluded, pod_namespace, run_dir, daemonset;
};

// Touched only as far as they are used.
static byte request[MAX_ENVIRONMENT + MAX_STDIN + 1];
static byte reply[MAX_HEAD + MAX_STDIN + MAX_HEAD];
static char why[256] = "";

extern char **environ;

// ---- time -----------------------------------------------------------------------------------------------------------------------------------------

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// True when `events` came before the deadline.
static int wait_for(int fd, short events, long deadline) {
  for (;;) {
    long left = deadline - now_ms();
    struct pollfd p = {.fd = fd, .events = events};
    if (left <= 0) return 0;
    int n = poll(&p, 1, (int)left);
    if (n > 0) return 1;
    if (n < 0 && errno != EINTR) return 0;
  }
}

static void pause_ms(long ms) {
  struct timespec t = {.tv_sec = 0, .tv_nsec = ms * 1000000};
  nanosleep(&t, NULL);
}

// ---- JSON: checks all of it, remembers places in it; no recursion, no copies -----------------------------------------------------------------------

static void skip_blanks(struct cursor *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

static int hex_digit(byte b) {
  if (b >= '0' && b <= '9') return b - '0';
  b |= 0x20;
  return b >= 'a' && b <= 'f' ? b - 'a' + 10 : -1;
}

static int skip_string(struct cursor *c) {
  if (c->at == c->end || *c->at != '"') return 0;
  c->at++;
  while (c->at < c->end) {
    byte b = *c->at++;
    if (b == '"') return 1;
    if (b < 0x20) return 0;
    if (b != '\\') continue;
    if (c->at == c->end) return 0;
    b = *c->at++;
    if (b == 'u') {
      for (int i = 0; i < 4; i++, c->at++)
        if (c->at == c->end || hex_digit(*c->at) < 0) return 0;
    } else if (b == 0 || strchr("\"\\/bfnrt", b) == NULL) {
      return 0;
    }
  }
  return 0;
}

static int skip_digits(struct cursor *c) {
  const byte *from = c->at;
  while (c->at < c->end && *c->at >= '0' && *c->at <= '9') c->at++;
  return c->at > from;
}

static int skip_number(struct cursor *c) {
  if (c->at < c->end && *c->at == '-') c->at++;
  if (c->at < c->end && *c->at == '0') c->at++;
  else if (!skip_digits(c)) return 0;
  if (c->at < c->end && *c->at == '.') {
    c->at++;
    if (!skip_digits(c)) return 0;
  }
  if (c->at < c->end && (*c->at == 'e' || *c->at == 'E')) {
    c->at++;
    if (c->at < c->end && (*c->at == '+' || *c->at == '-')) c->at++;
    if (!skip_digits(c)) return 0;
  }
  return 1;
}

static int skip_word(struct cursor *c, const char *word) {
  size_t length = strlen(word);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return 0;
  c->at += length;
  return 1;
}

static int skip_scalar(struct cursor *c) {
  switch (*c->at) {
  case '"': return skip_string(c);
  case 't': return skip_word(c, "true");
  case 'f': return skip_word(c, "false");
  case 'n': return skip_word(c, "null");
  default: return skip_number(c);
  }
}

// The key and its colon.
static int skip_key(struct cursor *c) {
  skip_blanks(c);
  if (!skip_string(c)) return 0;
  skip_blanks(c);
  return skip_word(c, ":");
}

// One value of any kind. False when it is not one, or is nested deeper than MAX_DEPTH.
static int skip_value(struct cursor *c) {
  byte objects[MAX_DEPTH / 8] = {0};
  int depth = 0;
  for (;;) {
    skip_blanks(c);
    if (c->at == c->end) return 0;
    byte b = *c->at;
    if (b == '{' || b == '[') {
      if (depth == MAX_DEPTH) return 0;
      byte bit = (byte)(1u << (depth & 7));
      if (b == '{') objects[depth >> 3] |= bit;
      else objects[depth >> 3] &= (byte)~bit;
      depth++;
      c->at++;
      skip_blanks(c);
      if (c->at == c->end) return 0;
      if (*c->at != (b == '{' ? '}' : ']')) {
        if (b == '{' && !skip_key(c)) return 0;
        continue;
      }
      c->at++;
      depth--;
    } else if (!skip_scalar(c)) {
      return 0;
    }
    // A value is over: what it stood in may be, too.
    for (;;) {
      if (depth == 0) return 1;
      int in_object = objects[(depth - 1) >> 3] >> ((depth - 1) & 7) & 1;
      skip_blanks(c);
      if (c->at == c->end) return 0;
      b = *c->at++;
      if (b == ',') {
        if (in_object && !skip_key(c)) return 0;
        break;
      }
      if (b != (in_object ? '}' : ']')) return 0;
      depth--;
    }
  }
}

static size_t put_utf8(byte *out, unsigned long point) {
  if (point < 0x80) return out[0] = (byte)point, 1;
  if (point < 0x800) return out[0] = (byte)(0xc0 | point >> 6), out[1] = (byte)(0x80 | (point & 63)), 2;
  if (point < 0x10000) {
    out[0] = (byte)(0xe0 | point >> 12), out[1] = (byte)(0x80 | (point >> 6 & 63)), out[2] = (byte)(0x80 | (point & 63));
    return 3;
  }
  out[0] = (byte)(0xf0 | point >> 18), out[1] = (byte)(0x80 | (point >> 12 & 63));
  out[2] = (byte)(0x80 | (point >> 6 & 63)), out[3] = (byte)(0x80 | (point & 63));
  return 4;
}

static unsigned long read_hex4(const byte *at) {
  unsigned long value = 0;
  for (int i = 0; i < 4; i++) value = value << 4 | (unsigned long)hex_digit(at[i]);
  return value;
}

// The text of a string that skip_string took, quotes included, with a NUL behind it. -1 when it is no string, does not fit, or has a NUL in it.
static int read_string(struct span string, char *out, size_t size) {
  if (string.length < 2 || string.at[0] != '"') return -1;
  const byte *at = string.at + 1;
  const byte *end = string.at + string.length - 1;
  size_t used = 0;
  while (at < end) {
    if (used + 5 > size) return -1;
    byte b = *at++;
    if (b == 0) return -1;
    if (b != '\\') {
      out[used++] = (char)b;
      continue;
    }
    b = *at++;
    if (b == 'u') {
      unsigned long point = read_hex4(at);
      at += 4;
      if (point >= 0xd800 && point < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        unsigned long low = read_hex4(at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
          point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
          at += 6;
        }
      }
      if (point == 0) return -1;
      if (point >= 0xd800 && point < 0xe000) point = 0xfffd;
      used += put_utf8((byte *)out + used, point);
    } else {
      static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
      const char *found = strchr(from, b);
      out[used++] = found != NULL ? to[found - from] : (char)b;
    }
  }
  if (used + 1 > size) return -1;
  out[used] = 0;
  return (int)used;
}

// Reads the top level of the configuration; of several equal keys the last counts. False when it is no JSON object.
static int read_config(struct span json, struct config *config) {
  const struct {
    const char *name;
    struct span *value;
  } known[] = {
      {"prevResult", &config->prev_result}, {"cniVersion", &config->version},       {"exclude_namespaces", &config->excluded},
      {"pod_namespace", &config->pod_namespace}, {"cni_agent_run_dir", &config->run_dir}, {"agent_daemonset", &config->daemonset},
  };
  struct cursor c = {json.at, json.at + json.length};
  memset(config, 0, sizeof *config);
  skip_blanks(&c);
  if (!skip_word(&c, "{")) return 0;
  skip_blanks(&c);
  int more = !skip_word(&c, "}");
  while (more) {
    char name[64];
    skip_blanks(&c);
    struct span key = {c.at, 0};
    if (!skip_string(&c)) return 0;
    key.length = (size_t)(c.at - key.at);
    skip_blanks(&c);
    if (!skip_word(&c, ":")) return 0;
    skip_blanks(&c);
    struct span value = {c.at, 0};
    if (!skip_value(&c)) return 0;
    value.length = (size_t)(c.at - value.at);
    if (read_string(key, name, sizeof name) >= 0)
      for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(name, known[i].name) == 0) *known[i].value = value;
    skip_blanks(&c);
    if (skip_word(&c, "}")) more = 0;
    else if (!skip_word(&c, ",")) return 0;
  }
  skip_blanks(&c);
  return c.at == c.end;
}

static int is_null(struct span value) {
  return value.at == NULL || (value.length == 4 && memcmp(value.at, "null", 4) == 0);
}

// True when the list of strings holds `text`.
static int list_holds(struct span list, const char *text) {
  struct cursor c = {list.at, list.at + list.length};
  char entry[256];
  if (list.at == NULL || !skip_word(&c, "[")) return 0;
  for (;;) {
    skip_blanks(&c);
    struct span value = {c.at, 0};
    if (!skip_value(&c)) return 0;
    value.length = (size_t)(c.at - value.at);
    if (read_string(value, entry, sizeof entry) >= 0 && strcmp(entry, text) == 0) return 1;
    skip_blanks(&c);
    if (!skip_word(&c, ",")) return 0;
  }
}

// ---- output ---------------------------------------------------------------------------------------------------------------------------------------

// The exit code, or 1 when nobody reads.
static int print_bytes(const void *from, size_t length, int exit_code) {
  const char *at = from;
  while (length > 0) {
    ssize_t n = write(STDOUT_FILENO, at, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return 1;
    at += n;
    length -= (size_t)n;
  }
  return exit_code;
}

static int print_error(int code, const char *message) {
  char out[4096];
  size_t used = (size_t)snprintf(out, sizeof out, "{\"code\":%d,\"msg\":\"", code);
  for (; *message != 0 && used + 16 < sizeof out; message++) {
    byte b = (byte)*message;
    if (b == '"' || b == '\\') out[used++] = '\\';
    out[used++] = b < 0x20 || b >= 0x7f ? '?' : (char)b;
  }
  used += (size_t)snprintf(out + used, sizeof out - used, "\"}\n");
  return print_bytes(out, used, 1);
}

// ---- CNI ------------------------------------------------------------------------------------------------------------------------------------------

// The value of `key` in CNI_ARGS, the last of equal ones; empty when it is absent. False when it does not fit or the text is malformed.
static int read_cni_arg(const char *args, const char *key, char *out, size_t size) {
  size_t key_length = strlen(key);
  out[0] = 0;
  while (*args != 0) {
    size_t length = strcspn(args, ";");
    const char *sign = memchr(args, '=', length);
    if (sign == NULL) return 0;
    if ((size_t)(sign - args) == key_length && memcmp(args, key, key_length) == 0) {
      size_t value_length = length - key_length - 1;
      if (value_length >= size) return 0;
      memcpy(out, sign + 1, value_length);
      out[value_length] = 0;
    }
    args += length;
    if (*args == ';' && *++args == 0) return 0;
  }
  return 1;
}

static int begins_with(const char *text, const char *prefix) {
  return strncmp(text, prefix, strlen(prefix)) == 0;
}

// True for the pods of the agent itself: without them there is never an agent.
static int is_agent_pod(const struct config *config, const char *space, const char *name) {
  char home[256], daemonset[256];
  if (read_string(config->pod_namespace, home, sizeof home) < 0 || strcmp(home, space) != 0) return 0;
  if (begins_with(name, "istio-cni-node-")) return 1;
  if (read_string(config->daemonset, daemonset, sizeof daemonset - 1) <= 0) strcpy(daemonset, DEFAULT_DAEMONSET);
  strcat(daemonset, "-");
  return begins_with(name, daemonset);
}

// The previous result as it came; without one, an empty one of the configuration's version.
static int print_result(const struct config *config) {
  static const char *const versions[] = {"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
  char version[32], out[64];
  if (!is_null(config->prev_result)) return print_bytes(config->prev_result.at, config->prev_result.length, 0);
  if (read_string(config->version, version, sizeof version) <= 0)
    return print_error(CODE_OWN, "the configuration has neither cniVersion nor prevResult, so no result can be written; add cniVersion to it");
  for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
    if (strcmp(version, versions[i]) == 0) {
      const char *rest = version[0] == '0' ? ",\"dns\":{}" : "";
      int length = snprintf(out, sizeof out, "{\"cniVersion\":\"%s\"%s}\n", version, rest);
      return print_bytes(out, (size_t)length, 0);
    }
  return print_error(CODE_VERSION, "the configuration's cniVersion is not known here");
}

// ---- the agent ------------------------------------------------------------------------------------------------------------------------------------

static int no_answer(const char *what) {
  snprintf(why, sizeof why, "%s", what);
  return 0;
}

static int no_answer_because(const char *what) {
  snprintf(why, sizeof why, "%s: %s", what, strerror(errno));
  return 0;
}

// A connection, or -1 with `why`. Until `patience` it waits for an agent that is not there yet.
static int connect_agent(const char *path, long patience, long deadline) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  const char *text = path;
  if (strlen(path) >= sizeof address.sun_path) {
    // A socket's path is short; its folder is then entered. This process does nothing else with paths.
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    if (chdir(folder) != 0) return no_answer_because("cannot enter its folder"), -1;
    text = SOCKET_NAME + 1;
  }
  strcpy(address.sun_path, text);
  for (;;) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return no_answer_because("no socket can be made"), -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    no_answer_because("cannot connect");
    // EAGAIN: it is there, and more ask than it has taken in.
    long until = error == EAGAIN ? deadline : patience;
    if (error != EAGAIN && error != ENOENT && error != ECONNREFUSED && error != EINTR) return -1;
    if (now_ms() >= until) return -1;
    pause_ms(20);
  }
}

// False when the peer closed or the time is over. An agent that answers early may not read all of it: that is no failure yet.
static int send_bytes(int fd, const void *from, size_t length, long deadline) {
  const char *at = from;
  while (length > 0) {
    ssize_t n = send(fd, at, length, MSG_NOSIGNAL);
    if (n > 0) {
      at += n;
      length -= (size_t)n;
    } else if (n < 0 && errno == EAGAIN) {
      if (!wait_for(fd, POLLOUT, deadline)) return no_answer("it did not take the request in time");
    } else if (n < 0 && errno == EPIPE) {
      return 1;
    } else if (n < 0 && errno != EINTR) {
      return no_answer_because("the connection broke");
    }
  }
  return 1;
}

// The number behind `name:` in the head, or -1. Names stand at the beginning of a line; every line ends with CR LF.
static long read_header(const char *head, const char *name) {
  size_t length = strlen(name);
  for (const char *line = strstr(head, "\r\n"); line != NULL; line = strstr(line, "\r\n")) {
    line += 2;
    if (strncasecmp(line, name, length) != 0 || line[length] != ':') continue;
    const char *digits = line + length + 1;
    while (*digits == ' ' || *digits == '\t') digits++;
    size_t n = strspn(digits, "0123456789");
    return n == 0 || n > 9 || digits[n] != '\r' ? -1 : atol(digits);
  }
  return -1;
}

// Reads the whole answer. True when it is one of ours; `out` is what to print.
static int read_answer(int fd, long deadline, struct span *out, int *exit_code) {
  size_t used = 0, head = 0;
  long length = -1;
  for (;;) {
    if (head == 0) {
      // One byte is kept for the NUL that makes the head a text.
      byte *end = memmem(reply, used, "\r\n\r\n", 4);
      if (end != NULL) {
        long code;
        end[2] = 0;
        head = (size_t)(end - reply) + 4;
        if (strncmp((char *)reply, "HTTP/1.1 200 ", 13) != 0) {
          char status[4] = "?";
          if (head > 16) memcpy(status, reply + 9, 3);
          snprintf(why, sizeof why, "it answered with HTTP status %s, so it is no agent of addressd, or one of another version", status);
          return 0;
        }
        code = read_header((char *)reply, "cni-exit-code");
        length = read_header((char *)reply, "content-length");
        if (code < 0 || code > 1 || length < 0 || (size_t)length > sizeof reply - head)
          return no_answer("its answer is not one for this plugin; agent and plugin are of different versions");
        *exit_code = (int)code;
      } else if (used >= MAX_HEAD) {
        return no_answer("its answer is not one for this plugin; agent and plugin are of different versions");
      }
    }
    if (head > 0 && used - head >= (size_t)length) {
      out->at = reply + head;
      out->length = (size_t)length;
      return 1;
    }
    if (!wait_for(fd, POLLIN, deadline)) return no_answer("it did not answer in time");
    ssize_t n = recv(fd, reply + used, sizeof reply - used, 0);
    if (n > 0) used += (size_t)n;
    else if (n == 0) return no_answer("it closed the connection before its answer was whole");
    else if (errno != EINTR && errno != EAGAIN) return no_answer_because("the connection broke");
  }
}

static int ask_agent(const char *path, size_t length, long patience, long deadline, struct span *out, int *exit_code) {
  char head[160];
  int fd = connect_agent(path, patience, deadline);
  if (fd < 0) return 0;
  int head_length = snprintf(head, sizeof head,
                             "POST /cni HTTP/1.1\r\nHost: unix\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n"
                             "Content-Length: %zu\r\n\r\n",
                             length);
  int answered = send_bytes(fd, head, (size_t)head_length, deadline) && send_bytes(fd, request, length, deadline) &&
                 read_answer(fd, deadline, out, exit_code);
  close(fd);
  return answered;
}

// ---- input ----------------------------------------------------------------------------------------------------------------------------------------

// Writes the variables to the beginning of the request. Its length, or 0 when they are too long.
static size_t frame_environment(void) {
  size_t used = 0;
  for (char **entry = environ; *entry != NULL; entry++) {
    size_t length = strlen(*entry) + 1;
    if (!begins_with(*entry, "CNI_") || strchr(*entry, '=') == NULL) continue;
    if (length > MAX_ENVIRONMENT - 1 - used) return 0;
    memcpy(request + used, *entry, length);
    used += length;
  }
  request[used] = 0;
  return used + 1;
}

// Reads stdin to its end, behind `from` in the request. Its length; more than MAX_STDIN when it is longer, -1 when it did not end in time.
static long read_stdin(size_t from, long deadline) {
  static byte rest[4096];
  size_t used = 0;
  for (;;) {
    int full = used > MAX_STDIN;
    if (!wait_for(STDIN_FILENO, POLLIN, deadline)) return -1;
    size_t room = full ? sizeof rest : MAX_STDIN + 1 - used;
    ssize_t n = read(STDIN_FILENO, full ? rest : request + from + used, room);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return (long)used;
    if (!full) used += (size_t)n;
  }
}

static int is_one_of(const char *text, const char *const *names) {
  for (; *names != NULL; names++)
    if (strcmp(text, *names) == 0) return 1;
  return 0;
}

// The error of a pod that has to wait for the agent.
static int print_absent(const char *path, const char *space, const char *name) {
  char message[2048];
  snprintf(message, sizeof message,
           "addressd-cni: no answer from the node agent at %.1024s (%s); pod %.256s/%.256s may not start outside the mesh. See that the pod of addressd-node on "
           "this node runs and is ready; the kubelet tries again by itself.",
           path, why, space, name);
  return print_error(CODE_OWN, message);
}

int main(void) {
  static const char *const quiet_commands[] = {"DEL", "CHECK", "GC", "STATUS", NULL};
  long start = now_ms();
  // Who does not read what we print gets an exit code, not a signal.
  signal(SIGPIPE, SIG_IGN);
  const char *command = getenv("CNI_COMMAND");
  if (command == NULL || command[0] == 0) {
    static const char about[] = "addressd-cni: a CNI plugin that takes pods into the mesh; run by container runtimes, CNI 0.1.0 to 1.1.0\n";
    if (write(STDERR_FILENO, about, sizeof about - 1) < 0) return 0;
    return 0;
  }
  if (strcmp(command, "VERSION") == 0) {
    static const char versions[] =
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n";
    return print_bytes(versions, sizeof versions - 1, 0);
  }

  // Removals and checks never fail for want of an agent, nor for being too long.
  int quiet = is_one_of(command, quiet_commands);
  long deadline = start + (quiet ? QUIET_BUDGET_MS : ADD_BUDGET_MS);
  size_t framed = frame_environment();
  if (framed == 0) return quiet ? 0 : print_error(CODE_ENVIRONMENT, "the CNI_ variables are longer than the 256 KiB that are taken");
  long length = read_stdin(framed, deadline);
  if (length < 0) return quiet ? 0 : print_error(CODE_DECODING, "the configuration on stdin did not end in time; the runtime must close stdin");
  if (length > MAX_STDIN) return quiet ? 0 : print_error(CODE_DECODING, "the configuration on stdin is larger than the 1 MiB that is taken");

  struct config config;
  struct span json = {request + framed, (size_t)length};
  if (!read_config(json, &config)) {
    // It does not even say where the agent listens.
    if (!quiet && strcmp(command, "ADD") != 0) return print_error(CODE_ENVIRONMENT, "CNI_COMMAND is not a command of CNI");
    return print_error(CODE_DECODING, "the configuration on stdin is no JSON object; the runtime must send the network configuration as JSON");
  }
  char path[4096];
  if (read_string(config.run_dir, path, sizeof path - sizeof SOCKET_NAME) <= 0) strcpy(path, DEFAULT_RUN_DIR);
  strcat(path, SOCKET_NAME);

  const char *args = getenv("CNI_ARGS");
  char name[300], space[300];
  int named = read_cni_arg(args == NULL ? "" : args, "K8S_POD_NAME", name, sizeof name) &&
              read_cni_arg(args == NULL ? "" : args, "K8S_POD_NAMESPACE", space, sizeof space);
  int passes = strcmp(command, "ADD") == 0 && named &&
               (name[0] == 0 || space[0] == 0 || is_agent_pod(&config, space, name) || list_holds(config.excluded, space));
  if (passes) deadline = start + QUIET_BUDGET_MS;

  struct span answer = {NULL, 0};
  int exit_code = 1;
  long patience = quiet || passes ? start : start + ADD_CONNECT_MS;
  if (ask_agent(path, framed + (size_t)length, patience, deadline, &answer, &exit_code)) return print_bytes(answer.at, answer.length, exit_code);
  if (quiet) return 0;
  if (passes) return print_result(&config);
  return print_absent(path, named ? space : "?", named ? name : "?");
}
