// The buffer that `cp --create` makes for its bytes.
#pragma once

#include <cstdint>
#include <string>

#include "client/cli/endpoint.h"
#include "onecopy/client.h"

namespace onecopy::cli {

// How many bytes a file, a buffer or a range of either has; INVALID_ARGUMENT for a stream, whose
// size is unknown, and for no bytes.
Result<uint64_t> BytesOf(Client& client, const ParsedEndpoint& source);

// A new buffer for `bytes`. INVALID_ARGUMENT if `where` is not a whole buffer; ALREADY_EXISTS
// (NAME_TAKEN) if the buffer exists.
Result<BufferInfo> MakeBuffer(Client& client, const ParsedEndpoint& where, uint64_t bytes,
                              const std::string& memory);

// A failure to make a buffer, with what to do where there is one of that name, or may be one now.
Status AdviseOnCreation(const Status& failure);

// The copy has failed: removes what was made for it. `why`, and if that fails, too, that.
Status Unmake(Client& client, const BufferInfo& made, const Status& why);

}  // namespace onecopy::cli
