// SPDX-License-Identifier: Apache-2.0
// Drives the configuration scanner of the CNI plugin without the plugin around it: reads texts from stdin, each behind its length (four bytes, big endian),
// and prints one line for each: `-` when it is no JSON object, else what was found for prevResult and cniVersion, as offset+length or `none`, and the
// version's text. Each text lies in memory of exactly its size, so that a sanitizer sees every byte read outside.

#define main addressd_cni_main
#include "../../native/addressd-cni.c"
#undef main

static void print_span(struct span value, const byte *start) {
  if (value.at == NULL) printf(" none");
  else printf(" %zu+%zu", (size_t)(value.at - start), value.length);
}

int main(void) {
  byte size[4];
  while (fread(size, 1, 4, stdin) == 4) {
    size_t length = (size_t)size[0] << 24 | (size_t)size[1] << 16 | (size_t)size[2] << 8 | size[3];
    byte *text = malloc(length == 0 ? 1 : length);
    char version[32], home[64];
    struct config config;
    if (fread(text, 1, length, stdin) != length) return 2;
    if (!read_config((struct span){text, length}, &config)) {
      printf("-\n");
    } else {
      printf("+");
      print_span(config.prev_result, text);
      print_span(config.version, text);
      printf(" %s", read_string(config.version, version, sizeof version) < 0 ? "none" : version);
      // Only for the reading itself: every path through the texts is taken.
      read_string(config.pod_namespace, home, sizeof home);
      printf(" %d\n", list_holds(config.excluded, "kube-system"));
    }
    free(text);
  }
  return 0;
}
