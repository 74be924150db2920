// Ranges of a transfer; see convert_common.h.
#pragma once

#include "daemon/rpc/fields.h"
#include "onecopy/v1/common.pb.h"
#include "transport/core/scatter.h"

namespace onecopy::rpc {

// Both ends' ranges as a client pairs them. Fails as Scatter::Make does, and for columns of unlike
// lengths.
Result<ScatterRef> ParsePairs(const v1::Ranges& source, const v1::Ranges& destination,
                              const Field& at);
// One end's.
Result<Layout> ParseLayout(const v1::Ranges& in, const std::string& what, const Field& at);

// As pieces from the layout's first byte on, which is where the caller's offsets count.
void Print(const Layout& value, v1::Ranges* out);

}  // namespace onecopy::rpc
