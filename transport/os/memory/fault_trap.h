// Memory of others that this process touches, and that may lose pages under it: a file that
// a program has mapped, and that is cut short meanwhile. Missing pages must not be replaced, as
// os::FaultGuard does in mappings of our own: other code looks at them, too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace onecopy::os {

// Calls work(context), which touches bytes of [data, data + bytes). False: one of them was not
// there (SIGBUS), and the work was left at that instruction, never to go on. So it must not hold a
// lock or own anything, nor call what may (allocate, log). Blocks nothing, allocates nothing but
// the first few times; any thread, not inside another one. SIGBUS must not be blocked
// (SignalsBlocked leaves it open).
bool TouchForeign(const std::byte* data, uint64_t bytes, void (*work)(void*), void* context);

template <typename Work>
bool TouchForeign(const std::byte* data, uint64_t bytes, Work work) {
  return TouchForeign(
      data, bytes, [](void* context) { (*static_cast<Work*>(context))(); }, &work);
}

}  // namespace onecopy::os
