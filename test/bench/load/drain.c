// SPDX-License-Identifier: Apache-2.0
// N proxies in one thread: each has one connection in the clear with one delta stream, reads everything as fast as it comes, acknowledges it
// and keeps nothing, so that a server is what takes the time. For the benchmark; Linux only.
//   drain -p PORT -n CLIENTS                     everything is subscribed; a line of JSON each time all clients have had their k-th message
//   drain -p PORT -n CLIENTS -o REQUESTS -N PODS one pod's address is asked for at a time on each connection; a line of JSON at the end
// Times are nanoseconds of the monotonic clock.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STREAM_WINDOW (2u << 20)
#define CONNECTION_WINDOW (5u << 20)
#define MOST_MESSAGES 1024
/** Connections that have not heard from the server yet, at a time: more would overflow its queue of connections to accept. */
#define MOST_OPENING 64

enum { DATA = 0, HEADERS = 1, RESET = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
/** Fields of a delta response. */
enum { RESOURCES = 2, NONCE = 5, REMOVED = 6 };

typedef struct {
  int fd, index, connected, heard, wants_write;
  // Bytes that the socket did not take yet.
  uint8_t *out;
  int out_length, out_room;
  // The HTTP/2 frame that is being read, and the start of its payload when it is not DATA.
  uint8_t frame[9], payload[64];
  int frame_read, payload_read;
  uint32_t frame_left;
  uint32_t stream_unacked, connection_unacked;
  // The gRPC message that is being read.
  uint8_t message_head[5];
  int message_head_read;
  uint32_t message_left;
  // The field of the message that is being read: its tag, its length, its bytes.
  enum { AT_TAG, AT_LENGTH, AT_NUMBER, AT_BYTES } at;
  uint32_t number, field, field_left;
  int shift, says_something;
  uint8_t nonce[64];
  int nonce_length;
  uint64_t messages, asked_at;
  uint32_t asked;
} Client;

static int port, clients = 1, requests, pods = 10000, poller, opened, opening, ready;
static Client *all;
static uint64_t *arrivals, *latencies, answered, asking_since;
static int arrived[MOST_MESSAGES];
static const char *TYPE = "type.googleapis.com/istio.workload.Address";

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void fail(Client *c, const char *what) {
  fprintf(stderr, "client %d: %s (%s) after %lu messages\n", c->index, what, strerror(errno), c->messages);
  exit(3);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static void want_write(Client *c, int wanted) {
  if (c->wants_write == wanted) return;
  struct epoll_event e = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0), .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
  c->wants_write = wanted;
}

static void put(Client *c, const void *bytes, int length) {
  if (c->out_length + length > c->out_room) {
    c->out_room = (c->out_length + length) * 2;
    c->out = realloc(c->out, (size_t)c->out_room);
  }
  memcpy(c->out + c->out_length, bytes, (size_t)length);
  c->out_length += length;
}

static void flush(Client *c) {
  while (c->out_length > 0) {
    ssize_t sent = send(c->fd, c->out, (size_t)c->out_length, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) fail(c, "send");
      want_write(c, 1);
      return;
    }
    memmove(c->out, c->out + sent, (size_t)(c->out_length - sent));
    c->out_length -= (int)sent;
  }
  want_write(c, 0);
}

static void put_frame(Client *c, uint8_t type, uint8_t flags, uint32_t stream, uint32_t length) {
  uint8_t h[9] = {length >> 16, length >> 8, length, type, flags, stream >> 24, stream >> 16, stream >> 8, stream};
  put(c, h, 9);
}

static void put_u32(Client *c, uint32_t v) {
  uint8_t b[4] = {v >> 24, v >> 16, v >> 8, v};
  put(c, b, 4);
}

static void put_message(Client *c, const uint8_t *message, int length) {
  put_frame(c, DATA, 0, 1, (uint32_t)length + 5);
  put(c, "\0", 1);
  put_u32(c, (uint32_t)length);
  put(c, message, length);
}

/** A text field of a message; all are shorter than 128 bytes. */
static int field(uint8_t *into, int number, const void *text, int length) {
  into[0] = (uint8_t)(number << 3 | 2);
  into[1] = (uint8_t)length;
  memcpy(into + 2, text, (size_t)length);
  return length + 2;
}

static int header(uint8_t *into, const char *text) {
  into[0] = (uint8_t)strlen(text);
  memcpy(into + 1, text, strlen(text));
  return (int)strlen(text) + 1;
}

/** Asks for the address of another pod, in an order that looks like chance. */
static void ask(Client *c) {
  uint32_t pod = (c->asked++ * 2654435761u + (uint32_t)c->index * 40503u) % (uint32_t)pods;
  char name[32];
  int length = sprintf(name, "/10.%u.%u.%u", 16 + (pod >> 16), pod >> 8 & 255, pod & 255);
  uint8_t m[128];
  int n = field(m, 2, TYPE, (int)strlen(TYPE));
  n += field(m + n, 3, name, length);
  put_message(c, m, n);
  c->asked_at = now();
}

/** Preface, settings, the call's headers and the first request. */
static void greet(Client *c) {
  put(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
  put_frame(c, SETTINGS, 0, 0, 6);
  put(c, "\0\4", 2);
  put_u32(c, STREAM_WINDOW);
  put_frame(c, WINDOW_UPDATE, 0, 0, 4);
  put_u32(c, CONNECTION_WINDOW - 65535);
  uint8_t h[256];
  int n = 0;
  h[n++] = 0x83; // :method POST
  h[n++] = 0x86; // :scheme http
  h[n++] = 0x04; // :path
  n += header(h + n, "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources");
  h[n++] = 0x01; // :authority
  n += header(h + n, "bench:15010");
  h[n++] = 0x0f; // content-type
  h[n++] = 0x10;
  n += header(h + n, "application/grpc");
  h[n++] = 0x00;
  n += header(h + n, "te");
  n += header(h + n, "trailers");
  put_frame(c, HEADERS, 4, 1, (uint32_t)n);
  put(c, h, n);
  char id[100];
  int length = sprintf(id, "ztunnel~10.0.%d.%d~ztunnel-%05d.istio-system~istio-system.svc.cluster.local",
                       c->index >> 8 & 255, c->index & 255, c->index);
  uint8_t node[128], m[256];
  n = field(m, 1, node, field(node, 1, id, length));
  n += field(m + n, 2, TYPE, (int)strlen(TYPE));
  if (requests > 0) {
    n += field(m + n, 3, "*", 1);
    n += field(m + n, 4, "*", 1);
  }
  put_message(c, m, n);
  if (requests > 0) ask(c);
}

static void acknowledge(Client *c) {
  uint8_t m[128];
  int n = field(m, 2, TYPE, (int)strlen(TYPE));
  n += field(m + n, 6, c->nonce, c->nonce_length);
  put_message(c, m, n);
}

static void report_message(int k) {
  uint64_t *times = arrivals + (size_t)k * (size_t)clients;
  qsort(times, (size_t)clients, 8, by_value);
  printf("{\"ev\":\"message\",\"k\":%d,\"first\":%lu,\"p50\":%lu,\"last\":%lu}\n", k, times[0], times[clients / 2],
         times[clients - 1]);
  fflush(stdout);
}

static void report_answers(uint64_t at) {
  qsort(latencies, (size_t)requests, 8, by_value);
  printf("{\"ev\":\"answers\",\"n\":%d,\"seconds\":%.6f,\"p50Us\":%.1f,\"p99Us\":%.1f}\n", requests,
         (double)(at - asking_since) / 1e9, (double)latencies[requests / 2] / 1e3,
         (double)latencies[(int)(requests * 0.99)] / 1e3);
  fflush(stdout);
}

static void take_message(Client *c) {
  acknowledge(c);
  if (requests > 0) {
    // What says nothing is the answer to having given up everything.
    if (!c->says_something) return;
    uint64_t at = now();
    c->messages++;
    if (answered < (uint64_t)requests) latencies[answered] = at - c->asked_at;
    if (++answered == (uint64_t)requests) report_answers(at);
    if (answered < (uint64_t)requests) ask(c);
    return;
  }
  uint64_t k = c->messages++;
  if (k >= MOST_MESSAGES) return;
  arrivals[k * (uint64_t)clients + (uint64_t)c->index] = now();
  if (++arrived[k] == clients) report_message((int)k);
}

/** Walks over the fields of a response as its bytes come by; keeps the nonce. */
static void read_fields(Client *c, const uint8_t *p, uint32_t n) {
  while (n > 0) {
    if (c->at == AT_BYTES) {
      uint32_t k = n < c->field_left ? n : c->field_left;
      if (c->field == NONCE)
        for (uint32_t i = 0; i < k && c->nonce_length < 64; i++) c->nonce[c->nonce_length++] = p[i];
      p += k, n -= k, c->field_left -= k;
      if (c->field_left == 0) c->at = AT_TAG;
      continue;
    }
    c->number |= (uint32_t)(*p & 127) << c->shift;
    c->shift += 7;
    n--;
    if (*p++ & 128) continue;
    uint32_t value = c->number;
    c->number = 0, c->shift = 0;
    if (c->at == AT_TAG) {
      c->field = value >> 3;
      if ((value & 7) != 2 && (value & 7) != 0) fail(c, "unexpected wire type");
      c->at = (value & 7) == 2 ? AT_LENGTH : AT_NUMBER;
    } else if (c->at == AT_LENGTH) {
      c->field_left = value;
      if (c->field == RESOURCES || c->field == REMOVED) c->says_something = 1;
      if (c->field == NONCE) c->nonce_length = 0;
      c->at = value > 0 ? AT_BYTES : AT_TAG;
    } else {
      c->at = AT_TAG;
    }
  }
}

static void read_data(Client *c, const uint8_t *p, uint32_t n) {
  while (n > 0) {
    if (c->message_head_read < 5) {
      c->message_head[c->message_head_read++] = *p++;
      n--;
      if (c->message_head_read < 5) continue;
      uint8_t *h = c->message_head;
      if (h[0] != 0) fail(c, "compressed message");
      c->message_left = (uint32_t)h[1] << 24 | (uint32_t)h[2] << 16 | (uint32_t)h[3] << 8 | h[4];
      c->at = AT_TAG, c->number = 0, c->shift = 0, c->says_something = 0;
    }
    uint32_t k = n < c->message_left ? n : c->message_left;
    read_fields(c, p, k);
    p += k, n -= k, c->message_left -= k;
    if (c->message_left == 0) {
      c->message_head_read = 0;
      take_message(c);
    }
  }
}

/** Gives windows back in halves. */
static void count_read(Client *c, uint32_t n) {
  c->stream_unacked += n, c->connection_unacked += n;
  if (c->stream_unacked >= STREAM_WINDOW / 2) {
    put_frame(c, WINDOW_UPDATE, 0, 1, 4);
    put_u32(c, c->stream_unacked);
    c->stream_unacked = 0;
  }
  if (c->connection_unacked >= CONNECTION_WINDOW / 2) {
    put_frame(c, WINDOW_UPDATE, 0, 0, 4);
    put_u32(c, c->connection_unacked);
    c->connection_unacked = 0;
  }
}

static void end_frame(Client *c) {
  uint8_t type = c->frame[3], flags = c->frame[4];
  c->frame_read = 0, c->payload_read = 0;
  if (type == SETTINGS && !(flags & 1)) {
    put_frame(c, SETTINGS, 1, 0, 0);
  } else if (type == PING && !(flags & 1)) {
    put_frame(c, PING, 1, 0, 8);
    put(c, c->payload, 8);
  } else if ((type == HEADERS || type == DATA) && (flags & 1)) {
    fail(c, "the server ends the stream");
  } else if (type == RESET || type == GOAWAY) {
    fail(c, "the server ends the connection");
  }
}

static void read_bytes(Client *c, const uint8_t *p, uint32_t n) {
  while (n > 0) {
    if (c->frame_read < 9) {
      c->frame[c->frame_read++] = *p++;
      n--;
      if (c->frame_read < 9) continue;
      c->frame_left = (uint32_t)c->frame[0] << 16 | (uint32_t)c->frame[1] << 8 | c->frame[2];
    }
    uint32_t k = n < c->frame_left ? n : c->frame_left;
    if (c->frame[3] == DATA) {
      read_data(c, p, k);
      count_read(c, k);
    } else {
      for (uint32_t i = 0; i < k && c->payload_read < 64; i++) c->payload[c->payload_read++] = p[i];
    }
    p += k, n -= k, c->frame_left -= k;
    if (c->frame_left == 0) end_frame(c);
  }
}

static void open_more(void) {
  while (opened < clients && opening < MOST_OPENING) {
    Client *c = &all[opened];
    c->index = opened++;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) fail(c, "socket");
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) fail(c, "connect");
    opening++;
    c->wants_write = 1;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
  }
}

static void finish_connecting(Client *c) {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
  errno = error;
  if (error != 0) fail(c, "connect");
  c->connected = 1;
  if (ready++ == 0) asking_since = now();
  greet(c);
  flush(c);
  if (ready == clients) {
    printf("{\"ev\":\"connected\",\"n\":%d}\n", clients);
    fflush(stdout);
  }
}

int main(int count, char **words) {
  for (int i = 1; i + 1 < count; i += 2) {
    int value = atoi(words[i + 1]);
    if (!strcmp(words[i], "-p")) port = value;
    else if (!strcmp(words[i], "-n")) clients = value;
    else if (!strcmp(words[i], "-o")) requests = value;
    else if (!strcmp(words[i], "-N")) pods = value;
    else return 2;
  }
  if (port == 0 || clients < 1) return 2;
  all = calloc((size_t)clients, sizeof *all);
  arrivals = calloc((size_t)clients * MOST_MESSAGES, 8);
  latencies = calloc((size_t)requests + 1, 8);
  poller = epoll_create1(0);
  open_more();
  static uint8_t bytes[1 << 18];
  struct epoll_event events[512];
  for (;;) {
    int n = epoll_wait(poller, events, 512, -1);
    for (int i = 0; i < n; i++) {
      Client *c = events[i].data.ptr;
      if (!c->connected) {
        if (events[i].events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) finish_connecting(c);
        continue;
      }
      if (events[i].events & EPOLLOUT) flush(c);
      if (!(events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
      ssize_t got = recv(c->fd, bytes, sizeof bytes, 0);
      if (got < 0 && errno == EAGAIN) continue;
      if (got <= 0) fail(c, got < 0 ? "recv" : "the server hangs up");
      if (!c->heard) {
        c->heard = 1;
        opening--;
        open_more();
      }
      read_bytes(c, bytes, (uint32_t)got);
      flush(c);
    }
  }
}
