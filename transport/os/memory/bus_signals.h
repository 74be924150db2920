// SIGBUS: the kernel sends it if a page of a mapping is not available. Other handlers of the
// process may exist before, or come later; each gets the faults that are meant for it.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace onecopy::os {

// Takes a fault at that address: mends it, so that the thread goes on where it was, or leaves the
// handler for good. False: it is none of its business. Called in a signal's handler: takes no lock,
// allocates nothing.
using TakeFault = bool (*)(uintptr_t address, const ucontext_t& interrupted);

// `take` is asked from now on, once for each fault of the processor. A fault that no taker takes
// goes to the handler that was there before, or ends the process as it would have. Once for each
// `take`, of which there are kMostTakers at most. Any thread.
void TakeBusFaults(TakeFault take);
inline constexpr int kMostTakers = 4;

// If another library has installed a handler since, puts ours before it again; that one then gets
// what ours does not take. To be called before bytes are touched that may be missing: one system
// call. Installs nothing without a taker. Any thread.
void StayBeforeOthers();

}  // namespace onecopy::os
