// Whether this was compiled with AddressSanitizer, under which some of what tests expect of the
// machine is otherwise, and all takes several times as long: what repeats does it less often there.
#pragma once

namespace onecopy::testing {

#if defined(__SANITIZE_ADDRESS__)  // gcc's word for it
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

}  // namespace onecopy::testing
