// What reader and owner tell each other over PeerService before UCX connects them. The same form
// serves as offer and answer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"

namespace onecopy::ucx {

// Names one end of one connection, at random: it is also the right to speak for the far end.
using EndId = uint64_t;

inline constexpr size_t kMaxAddressBytes = 32 * 1024;
inline constexpr size_t kMaxLostEnds = 16;

struct Offer {
  EndId end = 0;            // of the side that makes it
  std::string version;      // of its UCX
  std::string host;         // identity of its machine
  bool network = false;     // its worker may be reached from other machines
  uint32_t process = 0;     // where the worker's address lies, for a peer of this machine:
  uint32_t descriptor = 0;  // a sealed file of that process (see address_file.h)
  std::string address;      // the worker's address itself, for a peer that is trusted; else empty
  // Ends of the receiver's, the latest kMaxLostEnds: what carried them has failed at this worker,
  // whether or not the receiver has noticed (see Worker::Connect).
  std::vector<EndId> lost;

  friend bool operator==(const Offer&, const Offer&) = default;
};

std::string Encode(const Offer& offer);
// INVALID_ARGUMENT for anything but what Encode wrote: sizes are bounded and a checksum is over
// all of it, so that what is not ours never comes near UCX.
Result<Offer> DecodeOffer(std::string_view text);

// A worker's address with a mark, its length and a checksum around it.
std::string Seal(std::string_view address);
Result<std::string> Unseal(std::string_view sealed);

// What a get needs of an export: names it to the reader, to whom the owner has sent UCX's key
// over the connection itself, so that no key of UCX ever comes out of a message of PeerService.
struct KeyName {
  EndId reader = 0;  // the connection's reading end
  uint64_t exported = 0;

  friend bool operator==(const KeyName&, const KeyName&) = default;
};

std::string Encode(const KeyName& key);
Result<KeyName> DecodeKey(std::string_view text);

}  // namespace onecopy::ucx
