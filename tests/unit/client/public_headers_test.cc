// What users include must not bring in what the library is built on.
#include "onecopy/buffer.h"
#include "onecopy/client.h"
#include "onecopy/file_copy.h"
#include "onecopy/host_buffer.h"
#include "onecopy/memory_resource.h"
#include "onecopy/node.h"
#include "onecopy/pool.h"
#include "onecopy/reasons.h"
#include "onecopy/transfer.h"

#if defined(GOOGLE_PROTOBUF_VERSION) || defined(GRPC_PORT_PLATFORM_H) || \
    defined(GRPC_IMPL_CODEGEN_PORT_PLATFORM_H) || defined(GRPCPP_IMPL_CODEGEN_CONFIG_H)
#error "a public header includes gRPC or protobuf"
#endif

#include "tests/support/catch.h"

#include <sstream>

TEST_CASE("requests can be written with the fields that matter") {
  const onecopy::TransferRequest request = {.source = {.buffer = "a"},
                                            .destination = {.node = "west", .buffer = "b"},
                                            .policy = {.at_most_copies = 1}};
  CHECK(request.destination.ToString() == "west:b");
  CHECK(request.policy.at_most_copies == 1U);
  const onecopy::CreateBufferRequest create = {.name = "a", .bytes = 1, .memory = "host"};
  CHECK(create.request_id.empty());
}

TEST_CASE("a status says itself, and whether all is well") {
  std::ostringstream said;
  const onecopy::Status failure(onecopy::Code::kUnavailable, onecopy::reasons::kPeerDown,
                                "west does not answer", "look there");
  said << failure << ' ' << onecopy::OkStatus();
  CHECK(said.str() == "PEER_DOWN: west does not answer (look there) OK");
  CHECK_FALSE(static_cast<bool>(failure));
  CHECK(static_cast<bool>(onecopy::OkStatus()));
  CHECK(static_cast<bool>(onecopy::Result<int>(0)));
  CHECK_FALSE(static_cast<bool>(onecopy::Result<int>(failure)));
}

TEST_CASE("a receipt says the path, each copy, and the checksum") {
  onecopy::Receipt receipt;
  receipt.path = "peer-direct";
  receipt.bytes_per_second = 386.24e9;
  receipt.steps = {{{"west", "GPU-8", "GPU-9", "copy-engine", false, false}, 1 << 30}};
  receipt.checksum = onecopy::ChecksumResult{"xxh3-128", "4e02", true};
  std::ostringstream said;
  said << receipt;
  CHECK(said.str() ==
        "peer-direct, 1 copy, 386.24 GB/s\n"
        "  1  GPU-8 -> GPU-9  copy-engine on west, 1 GiB\n"
        "  xxh3-128 4e02, equal at both ends");
  CHECK(onecopy::Receipt().ToString() == "no path, 0 copies");
}
