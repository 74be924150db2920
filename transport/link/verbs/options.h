// What the configuration says about this link.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/topology.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::verbs {

struct Options {
  std::string node;
  std::string library;               // path of libibverbs; empty: the system's
  std::vector<std::string> devices;  // see AllowsDevice
  int gid_index = -1;                // -1: chosen
  uint16_t pkey = 0xffff;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint32_t path_mtu_bytes = 0;  // 0: the smaller of both ports'

  uint32_t queue_pairs = 1;  // per port of this node, on connections that it reads on
  unsigned threads = 1;
  uint64_t read_bytes = 1 << 20;  // of one RDMA READ, at most
  unsigned reads_per_lane = 16;   // in flight
  uint8_t ack_timeout = 14;       // 4.096 µs · 2^this
  uint8_t retries = 6;
  uint8_t receiver_wait = 20;  // as the specification counts: 10.24 ms
  uint8_t receiver_retries = 6;
  Topology topology = {};
  os::Clock::duration spin{};
  os::Clock::duration lease{};  // how long a peer's read-only region outlives its last use
};

}  // namespace onecopy::verbs
