// Two nodes with two wires between them, one of which reads from the other.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cluster/pair.h"
#include "tests/support/catch.h"
#include "tests/support/certificates.h"
#include "tests/support/text.h"
#include "tests/support/wire.h"

namespace onecopy::testing {

inline constexpr uint64_t kMegabits = 160;              // of a wire
inline constexpr uint64_t kBytes = uint64_t{64} << 20;  // more than three seconds on one wire
inline constexpr uint64_t kSmall = uint64_t{4} << 20;
// Handshakes, what the kernel had in a queue at a cut, and what it sends again into a wire that is
// cut.
inline constexpr uint64_t kNoPayload = kBytes / 64;
// A chunk that one lane has left when the other one has ended is little of the time.
inline constexpr char kTcp[] = "[tcp]\nlanes = 2\nchunk_bytes = \"256KiB\"\n";

struct Wires {
  explicit Wires(uint64_t second_megabits = kMegabits) : second(first, second_megabits) {}

  Wire first{kMegabits};
  Wire second;

  std::vector<std::string> AddressesOfWest() const {
    return {first.Address(Wire::End::kWest), second.Address(Wire::End::kWest)};
  }
};

// What west sends into a wire from now on.
class Meter {
 public:
  explicit Meter(const Wire& wire) : wire_(wire), before_(wire.BytesSent(Wire::End::kWest)) {}

  uint64_t bytes() const { return wire_.BytesSent(Wire::End::kWest) - before_; }

 private:
  const Wire& wire_;
  const uint64_t before_;
};

inline std::string Identity(Authority* authority, const std::string& node) {
  if (authority == nullptr) return {};
  const Authority::Files files = authority->Issue(node, "DNS:" + node);
  return "[tls]\nca = \"" + authority->ca() + "\"\ncertificate = \"" + files.certificate +
         "\"\nkey = \"" + files.key + "\"\n";
}

inline NodeOptions OptionsAt(const Wire& wire, Wire::End end, Authority* authority) {
  const std::string listen = wire.Address(end) + ":0";
  return {.config = (authority == nullptr ? "insecure = true\n" : "") +
                    std::string("uid_domain = \"wires\"\n[peers.\"*\"]\nuid_domain = \"wires\"\n") +
                    Identity(authority, end == Wire::End::kWest ? "west" : "east") + kTcp,
          .listen = listen,
          .lanes = listen,
          .in_child = wire.Inside(end)};
}

inline NodeOptions OptionsOfWest(const Wire& wire, const std::vector<std::string>& addresses,
                                 Authority* authority, bool called_anywhere) {
  NodeOptions options = OptionsAt(wire, Wire::End::kWest, authority);
  if (called_anywhere) options.listen = "0.0.0.0:0";
  if (addresses.empty()) return options;
  options.lanes.clear();
  for (const std::string& address : addresses) {
    options.lanes += (options.lanes.empty() ? "" : ",") + address + ":0";
  }
  return options;
}

// West at each of those addresses, or where it says that it listens.
inline NodeOptions OptionsOfEast(const Wire& wire, const Node& west, Authority* authority,
                                 const std::vector<std::string>& called_at) {
  NodeOptions options = OptionsAt(wire, Wire::End::kEast, authority);
  if (!called_at.empty()) options.listen = "0.0.0.0:0";
  const std::string peer = west.AsPeer();
  const std::string port = peer.substr(peer.rfind(':'));
  std::string at;
  for (const std::string& address : called_at) at += (at.empty() ? "" : ",") + address + port;
  options.peers = {at.empty() ? peer : "west=" + at};
  return options;
}

// East reads from west. They are peers over `met`, or east calls west at all of `called_at`; west
// says that its lanes are reached at `addresses` or, where there are none, nothing of that kind.
struct WiresRig {
  WiresRig(const Wire& met, const std::vector<std::string>& addresses,
           Authority* authority = nullptr, const std::vector<std::string>& called_at = {})
      : west("west", OptionsOfWest(met, addresses, authority, !called_at.empty())),
        east("east", OptionsOfEast(met, west, authority, called_at)),
        in_west(west.Connect()),
        in_east(east.Connect()),
        out(Filled(in_west, "out", kBytes, 7)),
        in(Filled(in_east, "in", kBytes, 8)) {
    east.WaitForPeer("west");
    west.WaitForPeer("east");
  }

  TransferId Start(uint64_t bytes) {
    TransferRequest request;
    request.source = {"west", "out", 0, bytes};
    request.destination = {"east", "in", 0, bytes};
    request.policy.path_glob = "tcp-direct";
    request.checksum = true;
    return Must(in_east.StartTransfer(request)).id;
  }
  // Waits for the end of a transfer of so many bytes, which must have come in one attempt.
  TransferInfo Finish(const TransferId& id, uint64_t bytes) {
    TransferInfo ended = FinishSomehow(id, bytes);
    CHECK(ended.receipt.attempts.size() == 1);
    return ended;
  }
  TransferInfo FinishSomehow(const TransferId& id, uint64_t bytes) {
    TransferInfo ended = Must(in_east.AwaitTransfer(id));
    REQUIRE_OK(OutcomeOf(ended));
    CHECK(ended.bytes_done == bytes);
    CHECK(ended.receipt.checksum->verified);
    CHECK(IsPayload(in.data(), bytes, 7));
    return ended;
  }
  TransferInfo Copy(uint64_t bytes) { return Finish(Start(bytes), bytes); }

  // Whether east's log says that it left west's end of that wire.
  bool HasLeft(const Wire& wire) const {
    std::istringstream log(east.Log());
    for (std::string line; std::getline(log, line);) {
      if (Has(line, "an address of a peer does not answer") && Has(line, "peer=west") &&
          Has(line, "address=" + wire.Address(Wire::End::kWest))) {
        return true;
      }
    }
    return false;
  }
  void SeeLeft(const Wire& wire) const {
    WaitUntil("east leaves " + wire.Address(Wire::End::kWest), [&] { return HasLeft(wire); });
  }

  Node west;
  Node east;
  Client in_west;
  Client in_east;
  HostBuffer out;
  HostBuffer in;
};

}  // namespace onecopy::testing
