// The one place where a processor copies payload from memory to memory.
#pragma once

#include <cstddef>

extern "C" {

// memcpy under a name of its own (and C linkage), so that a test's ledger can count every call.
void onecopy_copy_bytes(void* to, const void* from, size_t bytes);

// `count` elements of `bytes` bytes each, from one stride to another; likewise.
void onecopy_copy_strided(void* to, size_t to_stride, const void* from, size_t from_stride,
                          size_t bytes, size_t count);
}
