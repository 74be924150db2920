// What a test asks for, as files in the folder that $ONECOPY_TEST_VERBS names; see README.md.
#pragma once

#include <cstdint>
#include <string>

namespace onecopy::lend {

// The folder, or "" where no test controls this process: then every call goes to the real library.
// Read once. Any thread.
const std::string& ControlFolder();

// The path under which the memory behind a dma-buf can be opened; "" where the test told none.
std::string MemoryBehind(uint64_t dmabuf_inode);

bool Removed(const std::string& device);
bool NoQueuePairs();
bool NoWindows();

// The folder whose files name the devices that are removed.
std::string RemovedFolder();

}  // namespace onecopy::lend
