// Byte counts as people type and read them.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <string>
#include <string_view>

#include "onecopy/result.h"

namespace onecopy {

// Reads `4096`, `64KiB`, `1GiB`, `1.5GB`. Binary units KiB…EiB, decimal units KB…EB, and a bare
// `B`, in exactly this case. Fails with INVALID_ARGUMENT for anything else: a sign, an unknown
// unit, a fraction of a byte, or more than 2^64−1.
Result<uint64_t> ParseBytes(std::string_view text);

// "1 GiB", "1.5 MiB": at most two decimals.
std::string FormatBytes(uint64_t bytes);

// "26.2 GB/s", decimal units as networks use them.
std::string FormatRate(double bytes_per_second);

}  // namespace onecopy
