// What the two ends of a connection tell each other over PeerService to set it up. The other end
// is another machine: everything is bounded and checked before it is used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/link/verbs/gid.h"
#include "transport/link/verbs/wire.h"

namespace onecopy::verbs {

inline constexpr uint32_t kMaxLanes = 256;

// One end of a queue pair.
struct QueuePairAddress {
  std::string nic;     // name of its port, for people and for pairing rails
  std::string fabric;  // see Port
  bool ethernet = false;
  bool emulated = false;
  bool needs_grh = false;
  Gid gid{};
  uint16_t lid = 0;
  uint32_t number = 0;           // of the queue pair; 24 bits
  uint32_t packet_sequence = 0;  // first; 24 bits
  uint32_t mtu_bytes = 0;        // 256 … 4096
  uint8_t reads = 0;  // RDMA READs in flight: that the reader wants, that the owner allows; 1 … 255
};

// Made by the reader: its queue pairs, one for each lane.
struct Offer {
  std::vector<QueuePairAddress> lanes;
};

// Made by the owner: its end of each offered lane, in the same order; absent where it has no port
// that fits.
struct AnsweredLane {
  bool present = false;
  QueuePairAddress address;
};
struct Answer {
  std::vector<AnsweredLane> lanes;
};

// One address, as part of something else; false for one that no device can have.
void PutAddress(Writer& out, const QueuePairAddress& address);
bool GetAddress(Reader& in, QueuePairAddress* address);

std::string Encode(const Offer& offer);
std::string Encode(const Answer& answer);
// INVALID_ARGUMENT for what makes no sense.
Result<Offer> DecodeOffer(const std::string& text);
Result<Answer> DecodeAnswer(const std::string& text);

// What opens a piece of an owner's memory to a reader.
struct Key {
  uint64_t id = 0;           // of the export, on its connection
  bool window = false;       // else a lease
  std::string memory;        // name in steps
  std::string registration;  // how the owner's devices know it
  uint64_t bytes = 0;
  // By lane: 0 where the lane cannot read it.
  struct Remote {
    uint32_t rkey = 0;
    uint64_t address = 0;  // of the first byte
  };
  std::vector<Remote> lanes;
};

std::string Encode(const Key& key);
Result<Key> DecodeKey(const std::string& text);

}  // namespace onecopy::verbs
