// A client's file at one end of a transfer, as the planner sees it.
#pragma once

#include "transport/core/store.h"

namespace onecopy::plan {

// The end of kind kFileKind: the source where it is read.
struct FileEnd {
  FileUse use = FileUse::kRead;
  FilePass pass = FilePass::kPageCache;  // of what goes the longest way
};

}  // namespace onecopy::plan
