// What travels on a lane: a header of fixed size and, after some kinds, a bounded body.
//
//   reader → owner   HELLO, GET                           lane 0, both ways: MESSAGE
//   owner → reader   WELCOME or FAIL; to each get in order, DATA and END, FAIL, or DATA and FAIL
//                    on lane 0, for an END that promised it: REPORT
//
// What follows DATA says whether its body is good: a body that the owner may not, or cannot, send
// to its end is filled up with zeroes, so that one get ends and not the lane.
//
// Numbers are little-endian. A peer that sends anything else loses its connection, because
// the next header could not be found.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <vector>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::tcp {

enum class FrameKind : uint8_t {
  kHello = 1,    // tag: index of the lane; key, offset: the token
  kWelcome = 2,  // tag: index of the lane
  kGet = 3,      // tag: of the get; key, offset, bytes: what to send
  kData = 4,     // tag: of the get; body: its `bytes` bytes
  kFail = 5,     // tag: of the get; key: code; body: reason, remedy and text, a line each
  kMessage = 6,  // tag: channel; body: the message
  kReport = 7,   // tag: of the get; key: kCopied where the owner's kernel copied of it, or 0
  kEnd = 8,      // tag: of the get, whose DATA came before this; key: kReportFollows or 0
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHello;
  uint64_t tag = 0;
  uint64_t key = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;  // length of the body; for GET, of what is asked for
};

// In END: the body was sent from where it lies. Whether the owner's kernel copied it anyway
// is known once the reader's has acknowledged it, and comes in a REPORT, maybe before this END.
inline constexpr uint64_t kReportFollows = 1;
// In REPORT.
inline constexpr uint64_t kCopied = 1;

inline constexpr size_t kHeaderBytes = 40;
inline constexpr uint64_t kMaxGetBytes = uint64_t{64} << 20;
inline constexpr uint64_t kMaxFailBytes = 1024;

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes Encode(const FrameHeader& header);

// Nothing for bytes that are not a header of this protocol, or whose body would exceed its bound.
std::optional<FrameHeader> Decode(std::span<const std::byte, kHeaderBytes> bytes);

// The lane token: 128 random bits, valid for one connection's lanes.
struct Token {
  uint64_t high = 0;
  uint64_t low = 0;

  friend auto operator<=>(const Token&, const Token&) = default;
};

// What the reader offers and what the owner answers, as they travel over PeerService.
struct Offer {
  uint32_t lanes = 0;         // data lanes; one more carries messages
  bool can_encrypt = false;   // the reader has a certificate
  bool must_encrypt = false;  // and takes no plain text
};
struct Answer {
  Token token;
  uint32_t lanes = 0;
  bool encrypted = false;  // lanes begin with a handshake of TLS
  bool by_kernel = false;  // the owner's kernel encrypts, not its daemon
  // Where the owner listens; lanes go to all of them. At least one, and no more than lanes. The
  // host of a single one may be empty: the address that the answer came from.
  std::vector<os::HostPort> addresses;
};

std::string Encode(const Offer& offer);
std::string Encode(const Answer& answer);
// INVALID_ARGUMENT for anything malformed or out of bounds.
Result<Offer> DecodeOffer(const std::string& text);
Result<Answer> DecodeAnswer(const std::string& text);

inline constexpr uint32_t kMaxLanes = 64;

// Names exported bytes: a random number, and what the owner calls the memory.
struct Key {
  uint64_t id = 0;
  std::string memory;  // Region::step_name()
};
std::string Encode(const Key& key);
Result<Key> DecodeKey(const std::string& text);

// The body of a FAIL frame.
std::string EncodeFailure(const Status& status);
Status DecodeFailure(uint64_t code, std::span<const std::byte> body);

}  // namespace onecopy::tcp
