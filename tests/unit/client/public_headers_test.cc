// What users include must not bring in what the library is built on.
#include "onecopy/buffer.h"
#include "onecopy/client.h"
#include "onecopy/file_copy.h"
#include "onecopy/host_buffer.h"
#include "onecopy/node.h"
#include "onecopy/transfer.h"

#if defined(GOOGLE_PROTOBUF_VERSION) || defined(GRPC_PORT_PLATFORM_H) || \
    defined(GRPC_IMPL_CODEGEN_PORT_PLATFORM_H) || defined(GRPCPP_IMPL_CODEGEN_CONFIG_H)
#error "a public header includes gRPC or protobuf"
#endif

#include "tests/support/catch.h"

TEST_CASE("requests can be written with the fields that matter") {
  const onecopy::TransferRequest request = {.source = {.buffer = "a"},
                                            .destination = {.node = "west", .buffer = "b"},
                                            .policy = {.at_most_copies = 1}};
  CHECK(request.destination.ToString() == "west:b");
  CHECK(request.policy.at_most_copies == 1U);
  const onecopy::CreateBufferRequest create = {.name = "a", .bytes = 1, .memory = "host"};
  CHECK(create.request_id.empty());
}
