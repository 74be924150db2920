// Where threads run and pages lie on a machine with several NUMA nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace onecopy::os {

// Processors as the kernel lists them, "0-55,112-167", each by its number. Nothing for what is no
// such list, or names a processor beyond the thousands.
std::optional<std::vector<unsigned>> ParseCpuList(std::string_view text);

// Keeps the calling thread on those of the listed processors that it may use now. False, and
// nothing is changed, where there is none of them.
bool BindThread(std::string_view cpus);

// The processors that the calling thread may use now, as the kernel lists them.
std::string AllowedCpus();

// The NUMA node that this page of the process, which lies there already, is on; -1 where the kernel
// does not say.
int32_t NumaNodeOfPage(const std::byte* page);

// How many NUMA nodes the machine below `root` has; 1 where it does not say.
size_t NumaNodes(const std::string& root = "/");

// Asks for the pages of a mapping, which have not been touched yet, to come from that NUMA node
// where it has any left. False where the kernel does not do so.
bool PreferNumaNode(std::byte* data, uint64_t bytes, int32_t node);

}  // namespace onecopy::os
