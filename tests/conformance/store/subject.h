// What the conformance suite of onecopy::Store runs on: each test program links the suite and one
// subject.
#pragma once

#include <memory>
#include <string>

#include "transport/core/store.h"

namespace onecopy::testing {

// A fresh one; on null the suite is skipped, and `why` says why.
std::unique_ptr<Store> MakeStore(std::string& why);

}  // namespace onecopy::testing
