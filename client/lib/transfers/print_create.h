// The request for a transfer, as it is sent.
#pragma once

#include "onecopy/result.h"
#include "onecopy/transfer.h"
#include "onecopy/v1/transfer.pb.h"

namespace onecopy::client {

// With its ranges folded where that is worth it, and an id of the library's where it has none. Any
// thread; takes milliseconds where there are very many ranges. INVALID_ARGUMENT for texts that can
// be no names, and for more ranges or buffers than a transfer takes.
Result<v1::CreateTransferRequest> PrintCreate(const TransferRequest& request);

}  // namespace onecopy::client
