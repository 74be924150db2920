#include "daemon/rpc/convert_ranges.h"

#include <vector>

#include "proto/codec/codec.h"

namespace onecopy::rpc {

Result<Layout> ParseLayout(const v1::Ranges& in, const std::string& what, const codec::Field& at) {
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> ranges, codec::Parse(in, at));
  return Layout::Make(ranges, what);
}

void Print(const Layout& value, v1::Ranges* out) {
  codec::Print(value.pieces(), value.extent().offset, out);
}

}  // namespace onecopy::rpc
