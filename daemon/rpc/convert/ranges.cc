#include "daemon/rpc/convert/ranges.h"

#include <utility>
#include <vector>

#include "proto/codec/codec.h"

namespace onecopy::rpc {

Result<Layout> ParseLayout(const v1::Ranges& in, const std::string& what, const codec::Field& at) {
  if (auto equal = codec::ParseEqual(in)) {
    return Layout::MakeEqual(std::move(equal->offsets), equal->bytes, what);
  }
  ONECOPY_ASSIGN_OR_RETURN(const std::vector<StridedRange> ranges, codec::Parse(in, at));
  return Layout::Make(ranges, what);
}

void Print(const Layout& value, v1::Ranges* out) {
  const uint64_t base = value.extent().offset;
  if (value.equal_bytes() != 0) {
    return codec::PrintEqual(value.equal_offsets(), value.equal_bytes(), base, out);
  }
  codec::Print(value.unlike_pieces(), base, out);
}

}  // namespace onecopy::rpc
