#include "daemon/pipeline/summed_end.h"

#include <vector>

#include "transport/core/contracts/backing.h"
#include "transport/digest/tree.h"

namespace onecopy::pipeline {

Result<SmallSum> SummedEnd::Sum(uint64_t offset, uint64_t bytes) const {
  const uint64_t at = base_ + offset;
  const Backing* const backing = region_->backing();
  if (backing != nullptr && !backing->IsFull() && backing->HasHoles(at, bytes)) {
    thread_local std::vector<std::byte> read;  // as long as the longest so far
    if (read.size() < bytes) read.resize(bytes);
    ONECOPY_RETURN_IF_ERROR(backing->Read(at, read.data(), bytes));
    return digest::LeafRootOf(read.data(), bytes);
  }
  const SmallSum sum = digest::LeafRootOf(region_->address() + at, bytes);
  ONECOPY_RETURN_IF_ERROR(region_->CheckIntact());
  return sum;
}

}  // namespace onecopy::pipeline
