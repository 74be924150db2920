// What a client gets of a buffer that it maps, as it reads it.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <memory>
#include <string>
#include <utility>

#include "google/rpc/status.pb.h"
#include "proto/codec/status_codec.h"
#include "tests/support/engine_cluster.h"
#include "transport/os/memory/mapping.h"
#include "transport/os/sockets/packet.h"

namespace onecopy::testing {

inline Result<engine::MappingGiven> AskToMap(EngineNode& node, const engine::Principal& who,
                                             const std::string& buffer,
                                             const std::string& of_node = {}) {
  auto promise = std::make_shared<std::promise<Result<engine::MappingGiven>>>();
  auto future = promise->get_future();
  node.engine().loop().Post([&node, who, buffer, of_node, promise] {
    node.engine().mappings().MapBuffer(
        who.session, of_node, buffer,
        engine::Reply<engine::MappingGiven>([promise](Result<engine::MappingGiven> given) {
          promise->set_value(std::move(given));
        }));
  });
  return future.get();
}

// Host memory, mapped from its beginning, also of a view.
class MapOf {
 public:
  MapOf(EngineNode& node, const engine::Principal& who, const std::string& buffer) {
    auto given = AskToMap(node, who, buffer);
    REQUIRE_OK(given);
    given_ = std::move(*given);
    REQUIRE(given_.fds.size() == 1);
    auto mapping =
        os::MapShared(given_.fds.front().get(), given_.buffer.offset_bytes + given_.buffer.bytes);
    REQUIRE_OK(mapping);
    mapping_ = std::move(*mapping);
  }

  std::byte* data() const { return mapping_.data(); }
  const engine::MappingGiven& given() const { return given_; }
  int lease() const { return given_.lease.get(); }
  bool told() const {
    pollfd polled{lease(), POLLIN, 0};
    return ::poll(&polled, 1, 0) == 1;
  }
  // Waits for the daemon's word; the code of one that has gone without it is kUnknown.
  Status AwaitRevocation() const {
    pollfd polled{lease(), POLLIN, 0};
    REQUIRE(::poll(&polled, 1, 20'000) == 1);
    auto packet = os::ReceivePacket(lease(), 64 * 1024);
    REQUIRE_OK(packet);
    REQUIRE(packet->has_value());
    google::rpc::Status told;
    if ((*packet)->end) return {Code::kUnknown, "GONE", "the end of the file"};
    REQUIRE(told.ParseFromString((*packet)->bytes));
    return FromProto(told);
  }
  void LetGo() {
    mapping_ = os::Mapping();
    given_.lease.Reset();
  }

 private:
  engine::MappingGiven given_;
  os::Mapping mapping_;
};

}  // namespace onecopy::testing
