// A libibverbs of devices that a test plants. They move bytes within the process, at once, and keep
// the rules of real ones that software devices do not keep: which page size a registration gets,
// what becomes of receive entries when a queue pair ends, which packets a port takes.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace onecopy::fake_verbs {

using Gid = std::array<uint8_t, 16>;

struct PlantedGid {
  Gid gid{};
  uint32_t type = IBV_GID_TYPE_ROCE_V2;
};

struct PlantedPort {
  int wire = 0;  // ports reach each other where this is equal
  ibv_port_state state = IBV_PORT_ACTIVE;
  bool ethernet = false;
  bool needs_grh = false;  // as a port of a virtual function: packets without one are dropped
  uint16_t lid = 1;
  ibv_mtu mtu = IBV_MTU_4096;
  std::vector<PlantedGid> gids;
  std::vector<uint16_t> pkeys = {0xffff};
};

struct PlantedDevice {
  std::string name;
  std::vector<PlantedPort> ports;
  bool windows = true;
  uint8_t reads_in = 16;   // as responder
  uint8_t reads_out = 16;  // as initiator
  uint32_t most_inline = 256;
  unsigned refuses = 0;  // access flags of dma-bufs
  // Raises LAST_WQE_REACHED, as the specification has it; Soft-RoCE does not.
  bool tells_last_receive = true;
};

// Physically contiguous bytes, as the device's bus sees them.
struct Segment {
  uint64_t bus = 0;
  uint64_t bytes = 0;
};

struct Registration {
  std::string device;
  uint64_t first = 0;  // the address, or the offset in a dma-buf
  uint64_t bytes = 0;
  uint64_t base = 0;  // what the device calls its first byte
  unsigned access = 0;
  bool dma_buf = false;
  uint64_t page_bytes = 0;  // that the device maps it by
};

struct QueuePair {
  std::string device;
  uint32_t number = 0;
  bool exists = true;
  ibv_qp_state state = IBV_QPS_RESET;
  ibv_qp_attr addressed{};  // as it was given for RTR
  ibv_qp_attr started{};    // for RTS
  uint32_t most_inline = 0;
  uint64_t bytes_read = 0;  // by its own reads
  uint64_t sends = 0;
  uint64_t sent_inline = 0;
  bool ended_in_order = true;  // drained before it was destroyed
};

// A test's hold on the library, which it finds by the symbol onecopy_fake_verbs. Any thread.
class Control {
 public:
  virtual ~Control() = default;
  // No devices; for when all that used the former ones has gone.
  virtual void Reset() = 0;
  virtual void Plant(const PlantedDevice& device) = 0;
  // Changes a port, and raises the event.
  virtual void Change(const std::string& device, size_t port, const PlantedPort& now,
                      ibv_event_type event) = 0;
  // The memory that begins at this address, or the dma-buf with this inode number, lies there; what
  // nothing is known of lies in single pages, here and there.
  virtual void LiesAt(uint64_t address_or_inode, std::vector<Segment> segments) = 0;
  // From now on nothing that is posted on the device is ever completed, as when its retries go on.
  virtual void Swallow(const std::string& device) = 0;

  // Of all that were made.
  virtual std::vector<Registration> Registrations() const = 0;
  virtual std::vector<QueuePair> QueuePairs() const = 0;
  // Receive entries that no completion gave back.
  virtual uint64_t LostReceives() const = 0;
};

}  // namespace onecopy::fake_verbs
