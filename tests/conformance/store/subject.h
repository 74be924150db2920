// What the conformance suite of onecopy::Store runs on: each test program links the suite and one
// subject.
#pragma once

#include <memory>
#include <string>

#include "transport/core/contracts/store.h"

namespace onecopy::testing {

// A fresh one; on null the suite is skipped, and `why` says why.
std::unique_ptr<Store> MakeStore(std::string& why);
// Whether what goes past the page cache is moved by registered memory, where it is held.
bool RegistersMemory();

}  // namespace onecopy::testing
