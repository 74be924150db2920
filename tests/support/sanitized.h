// Whether this was compiled with AddressSanitizer, which holds some of what tests expect of the
// machine to be otherwise.
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
