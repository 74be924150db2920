#include "transport/link/verbs/factory.h"

#include <algorithm>

#include "transport/link/verbs/verbs_link.h"

namespace onecopy::verbs {
namespace {

// Enough to cover the time that a read takes to come back, in few enough pieces to be fair.
constexpr uint64_t kBytesInFlight = 16 << 20;

std::vector<SettingSpec> Specs() {
  return {
      {.key = "queue_pairs",
       .type = SettingType::kInteger,
       .fallback = int64_t{1},
       .doc = "Queue pairs per port to each peer from which this node reads.",
       .least = 1,
       .most = 16},
      {.key = "threads",
       .type = SettingType::kInteger,
       .fallback = int64_t{1},
       .doc = "I/O threads that drive the queue pairs; each connection stays on one of them.",
       .least = 1,
       .most = 64},
      {.key = "read_bytes",
       .type = SettingType::kBytes,
       .fallback = int64_t{1} << 20,
       .doc = "The largest RDMA READ; smaller for GPUs with a small BAR1.",
       .least = 4096,
       .most = int64_t{1} << 30},
      {.key = "reads_in_flight",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "RDMA READs in flight on one queue pair. 0: as many as make 16 MiB, from 8 to 64.",
       .most = 64},
      {.key = "ack_timeout",
       .type = SettingType::kInteger,
       .fallback = int64_t{14},
       .doc = "How long to wait for the answer to a packet: 4.096 us times 2 to the power of this. "
              "14 is 67 ms, more than any switch delays a packet; devices may take four times as "
              "long.",
       .least = 8,
       .most = 22},
      {.key = "retries",
       .type = SettingType::kInteger,
       .fallback = int64_t{6},
       .doc = "How often a packet is resent before its queue pair fails. A dead path is known "
              "within 2 s even so, by its silence; 7, for ever, is not allowed.",
       .least = 0,
       .most = 6},
      {.key = "receiver_retries",
       .type = SettingType::kInteger,
       .fallback = int64_t{6},
       .doc = "How often a message is resent to a node that has no room for it, each time after "
              "the receiver's receiver_wait, before its queue pair fails. Nodes have room for 512 "
              "messages of a device, so that this tells one that no longer runs.",
       .least = 0,
       .most = 6},
      {.key = "receiver_wait",
       .type = SettingType::kInteger,
       .fallback = int64_t{20},
       .doc = "How long others are to wait when this node has no room for a message, as the "
              "InfiniBand specification counts: 1 is 0.01 ms, 14 is 1.28 ms, 20 is 10.24 ms, 31 is "
              "491.52 ms.",
       .least = 1,
       .most = 31},
      {.key = "spin_microseconds",
       .type = SettingType::kInteger,
       .fallback = int64_t{0},
       .doc = "How long an I/O thread polls for more work before it sleeps. Polling keeps a core "
              "busy.",
       .most = 1'000'000},
      {.key = "lease",
       .type = SettingType::kDuration,
       .fallback = int64_t{5000},
       .doc = "How long a peer may still read GPU memory (memory without windows) after its last "
              "transfer, so that the next transfer need not register it again."},
  };
}

}  // namespace

Backend<Link> Describe() {
  Backend<Link> backend;
  backend.name = "verbs";
  backend.library = "ibverbs";
  backend.settings = Specs();
  backend.rdma = true;
  backend.create = [](const BackendContext& context) -> Result<std::unique_ptr<Link>> {
    const Settings& own = context.settings;
    const Settings& rdma = context.rdma;
    Options options;
    options.node = context.node;
    options.library = context.library;
    options.devices = rdma.TextList("devices");
    options.gid_index = static_cast<int>(rdma.Integer("gid_index"));
    options.pkey = static_cast<uint16_t>(rdma.Integer("pkey"));
    options.traffic_class = static_cast<uint8_t>(rdma.Integer("traffic_class"));
    options.service_level = static_cast<uint8_t>(rdma.Integer("service_level"));
    options.path_mtu_bytes = static_cast<uint32_t>(rdma.Integer("path_mtu"));
    options.queue_pairs = static_cast<uint32_t>(own.Integer("queue_pairs"));
    options.threads = static_cast<unsigned>(own.Integer("threads"));
    options.read_bytes = own.Bytes("read_bytes");
    options.reads_per_lane = static_cast<unsigned>(own.Integer("reads_in_flight"));
    if (options.reads_per_lane == 0) {
      options.reads_per_lane =
          static_cast<unsigned>(std::clamp<uint64_t>(kBytesInFlight / options.read_bytes, 8, 64));
    }
    options.ack_timeout = static_cast<uint8_t>(own.Integer("ack_timeout"));
    options.retries = static_cast<uint8_t>(own.Integer("retries"));
    options.receiver_retries = static_cast<uint8_t>(own.Integer("receiver_retries"));
    options.receiver_wait = static_cast<uint8_t>(own.Integer("receiver_wait"));
    options.spin = std::chrono::microseconds(own.Integer("spin_microseconds"));
    options.topology = context.topology;
    options.lease = own.Duration("lease");
    return VerbsLink::Create(std::move(options));
  };
  return backend;
}

}  // namespace onecopy::verbs
