// A client's file at one end of a transfer, as the planner sees it.
#pragma once

#include "onecopy/capability.h"
#include "transport/core/contracts/store.h"

namespace onecopy::plan {

// The file's direct way to a GPU's memory.
struct DirectEnd {
  Viability viability;  // of this file
  bool edges = false;  // whether some bytes at its ends, less than a block each, take the other way
};

// The end of kind kFileKind: the source where it is read.
struct FileEnd {
  FileUse use = FileUse::kRead;
  FilePass pass = FilePass::kPageCache;  // of what goes the longest way
  DirectEnd direct = {};
  DrivePlace drive = {};  // as its own node knows it
};

}  // namespace onecopy::plan
