// The least that reads remote memory: one reliable queue pair on each of two devices.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/guest.h"
#include "transport/shim/verbs.h"

namespace onecopy::testing {

// An opened device with a protection domain, a completion queue and a queue pair. What cannot be
// made is null, with errno as the call left it: `context` first. Event descriptors do not block.
class Port {
 public:
  Port(const shim::VerbsApi& verbs, const GuestDevice& device);
  ~Port();
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // The index of the device's RoCE v2 GID for its IPv4 address, or -1.
  int GidIndex(ibv_gid* gid) const;
  // As Port does for its own. Null with errno where that is refused.
  ibv_qp* MakeQueuePair();
  static constexpr int kMaxReceives = 16;

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;

 private:
  const shim::VerbsApi& verbs_;
  const GuestDevice& device_;
};

// Makes the two queue pairs ready to send to each other. 0, or the first errno.
int Connect(const shim::VerbsApi& verbs, Port& one, Port& other);
// Makes one end ready for a queue pair whose first packet has that number; its own first packet is
// number 0.
int ConnectTo(const shim::VerbsApi& verbs, Port& port, const ibv_gid& other_gid,
              uint32_t other_number, uint32_t other_first_packet);

// Posts a read of `bytes` from `remote` of the other port into `local` of this one. 0 or an errno.
int PostRead(Port& port, const ibv_mr& local, uint64_t local_address, uint64_t remote,
             uint32_t rkey, uint32_t bytes);

// Polls until one completion is there, at most for a minute, and returns it; its status is
// IBV_WC_GENERAL_ERR where there was none or the queue cannot be polled.
ibv_wc WaitForCompletion(Port& port);

}  // namespace onecopy::testing
