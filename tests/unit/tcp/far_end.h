// The far end of a lane, which is the test itself: frame by frame.
#pragma once

#include <sys/socket.h>

#include <cstring>
#include <string>
#include <utility>

#include "tests/support/catch.h"
#include "transport/link/tcp/connection.h"
#include "transport/link/tcp/frame.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::testing {

inline std::string Text(const tcp::FrameHeader& header, const std::string& body = {}) {
  const tcp::HeaderBytes bytes = tcp::Encode(header);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + body;
}

// Of a reader's end, with so many data lanes.
inline tcp::ConnectionOptions ReaderOptions(uint32_t data_lanes, bool several_addresses) {
  tcp::ConnectionOptions options;
  options.node = "reader";
  options.peer = "owner";
  options.data_lanes = data_lanes;
  options.chunk_bytes = 1 << 20;
  options.several_addresses = several_addresses;
  return options;
}

// One thread at a time.
class FarEnd {
 public:
  FarEnd() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    near_ = os::UniqueFd(ends[0]);
    socket_ = os::UniqueFd(ends[1]);
    const timeval patience{60, 0};
    REQUIRE(::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
  }

  // The lane's own end, once.
  os::UniqueFd TakeNear() { return std::move(near_); }
  int fd() const { return socket_.get(); }
  void Close() { socket_.Reset(); }

  void Say(const std::string& text) {
    REQUIRE(::send(fd(), text.data(), text.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(text.size()));
  }
  std::string Hear(size_t bytes) {
    std::string heard(bytes, '\0');
    REQUIRE(::recv(fd(), heard.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes));
    return heard;
  }
  tcp::FrameHeader HearHeader() {
    const std::string text = Hear(tcp::kHeaderBytes);
    tcp::HeaderBytes bytes{};
    std::memcpy(bytes.data(), text.data(), bytes.size());
    const auto header = tcp::Decode(bytes);
    REQUIRE(header.has_value());
    return *header;
  }

 private:
  os::UniqueFd near_;
  os::UniqueFd socket_;
};

}  // namespace onecopy::testing
