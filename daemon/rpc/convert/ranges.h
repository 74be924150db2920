// Ranges of a transfer between daemons: one end's, which need not pair up with the other's.
#pragma once

#include <string>

#include "onecopy/v1/common.pb.h"
#include "proto/codec/field.h"
#include "transport/core/ranges/layout.h"

namespace onecopy::rpc {

// Fails as Layout::Make does, and for columns of unlike lengths.
Result<Layout> ParseLayout(const v1::Ranges& in, const std::string& what, const codec::Field& at);

// As pieces from the layout's first byte on, which is where the caller's offsets count.
void Print(const Layout& value, v1::Ranges* out);

}  // namespace onecopy::rpc
