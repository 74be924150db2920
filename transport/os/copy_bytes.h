// The one place where a processor copies payload from memory to memory.
#pragma once

#include <cstddef>

// memcpy under a name of its own (and C linkage), so that a test's ledger can count every call.
extern "C" void onecopy_copy_bytes(void* to, const void* from, size_t bytes);
