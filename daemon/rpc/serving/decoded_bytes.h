// How much memory a message takes once it is decoded, told before it is decoded. Two bytes of a
// message can become an object of a hundred.
#pragma once

#include <google/protobuf/descriptor.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "onecopy/result.h"

namespace onecopy::rpc {

// More than the largest valid request takes: a transfer of kMaxRanges ranges with 4 MiB of texts.
inline constexpr uint64_t kMostDecodedBytes = 32 << 20;

// An upper estimate in bytes. INVALID_ARGUMENT (BAD_ARGUMENT) if these are not the bytes of such a
// message, (BAD_SIZE) if the estimate exceeds `most`. Takes time in proportion to the message, and
// none after `most` is exceeded. `message` stays as it is.
Result<uint64_t> DecodedBytes(grpc::ByteBuffer message, const google::protobuf::Descriptor& type,
                              uint64_t most = kMostDecodedBytes);

}  // namespace onecopy::rpc
