// Packets with descriptors on a SOCK_SEQPACKET Unix socket.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// The most that the kernel allows in one packet (SCM_MAX_FD).
inline constexpr size_t kMaxPassedFds = 253;

struct Packet {
  std::string bytes;
  std::vector<UniqueFd> fds;  // close-on-exec
  bool end = false;           // the far end has closed; nothing else is set
  bool bytes_cut = false;     // it was longer than the room for it
  // It had more descriptors than this process could open; those are closed, by this very thread.
  bool fds_cut = false;
};

// Does not block: no value when nothing is there. An empty packet cannot be told from the end.
Result<std::optional<Packet>> ReceivePacket(int fd, size_t most_bytes);

// Does not block: RESOURCE_EXHAUSTED when the far end has too much to read already, UNAVAILABLE
// when it has closed.
Status SendPacket(int fd, std::string_view bytes);
// Likewise, with descriptors: kMaxPassedFds at most.
Status SendPacket(int fd, std::string_view bytes, std::span<const int> passed_fds);
inline Status SendPacket(int fd, std::string_view bytes, int passed_fd) {
  return SendPacket(fd, bytes, std::span<const int>(&passed_fd, 1));
}

}  // namespace onecopy::os
