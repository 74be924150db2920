// A peer that dials a verbs link as a node does, but by verbs of its own: it reads with any key
// that it ever had, whatever it is told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/rdma/reader.h"
#include "transport/core/contracts/link.h"
#include "transport/link/verbs/offer.h"

namespace onecopy::testing {

// One lane from the guest's second device to the owner's, which is the first. Throws where it
// cannot be made.
class RawReader {
 public:
  RawReader(const shim::VerbsApi& verbs, Link& owner);
  ~RawReader();
  RawReader(const RawReader&) = delete;
  RawReader& operator=(const RawReader&) = delete;

  // The owner's end.
  Connection& connection() { return *connection_; }

  // What became of a read of `bytes` bytes; after a failure the lane is of no use any more.
  ibv_wc_status Read(const verbs::Key::Remote& remote, uint32_t bytes);
  // What was read last.
  std::span<const std::byte> bytes() const { return landing_; }

 private:
  ibv_wc_status WaitFor(ibv_wc_opcode opcode);
  void PostReceive();
  void SendHello();

  const shim::VerbsApi& verbs_;
  Port port_;
  std::vector<std::byte> landing_ = std::vector<std::byte>(1 << 16);
  std::vector<std::byte> frames_ = std::vector<std::byte>(4096);  // received, and not looked at
  ibv_mr* landing_region_ = nullptr;
  ibv_mr* frames_region_ = nullptr;
  std::shared_ptr<Connection> connection_;
};

// One export, waited for; throws where it fails.
RemoteKey ExportAndWait(Connection& connection, const Span& span);

}  // namespace onecopy::testing
