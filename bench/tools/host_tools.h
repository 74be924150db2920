// Other projects' programs that measure what this machine can do. Our own plain loops must be about
// as fast at the same settings; else they are not ceilings.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "bench/measure/mover.h"
#include "bench/tools/tool_mover.h"

namespace onecopy::bench {

// Each is NOT_FOUND (FILE_NOT_FOUND) where the program is not installed.

// iperf3 over loopback: so many streams, calls of so many bytes, one buffer for each stream.
Result<std::unique_ptr<Mover>> MakeIperf3(uint64_t bytes, unsigned streams, uint64_t call_bytes);
// mbw: one memcpy of one array to another, by one thread. `bytes` is rounded to MiB, at least one.
Result<std::unique_ptr<Mover>> MakeMbw(uint64_t bytes);
// fio: sequential reads of a file that is there, past the page cache, one at a time.
Result<std::unique_ptr<Mover>> MakeFioRead(const std::string& file, uint64_t bytes,
                                           uint64_t call_bytes);
// nvbandwidth's test of that name on these GPUs (UUIDs, separated by commas), which prints the sum
// over `results` pairs of places.
Result<std::unique_ptr<Mover>> MakeNvbandwidth(const std::string& test, const std::string& gpus,
                                               unsigned results, uint64_t bytes);

// Bytes per second in a line that the program prints.
std::optional<ToolSaid> ReadIperf3(const std::string& line, bool several_streams);
std::optional<ToolSaid> ReadMbw(const std::string& line);
std::optional<ToolSaid> ReadFio(const std::string& line);
std::optional<ToolSaid> ReadNvbandwidth(const std::string& line, const std::string& test,
                                        unsigned results);

}  // namespace onecopy::bench
