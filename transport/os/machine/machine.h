// Facts about the machine that this process runs on. Calls read the kernel again unless they say
// otherwise; none fails: a fact that cannot be read is empty or zero.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace onecopy::os {

std::string HostName();

// Equal for all processes of one running kernel, containers included; different after a reboot.
// Read until it has been read once, and the same from then on. Empty where it could not be read yet
// (no descriptors left): then it is unknown, and must not be compared.
std::string HostIdentity();

// Bytes that could be allocated without swapping, within the limits of this process's cgroup.
uint64_t AvailableMemoryBytes();

// Processors that this process may run on; at least 1.
unsigned UsableCores();

// Names of the RDMA devices that the kernel knows ("mlx5_0"), in order.
std::vector<std::string> RdmaDevices();

// Whether the process `pid` (as numbered here) runs in this process's PID namespace. A process that
// cannot be looked at counts as foreign.
bool SharesPidNamespace(int32_t pid);
// The number of that process in its own PID namespace; nothing where it cannot be seen.
std::optional<int> InnermostPid(int32_t pid);

// `bytes` random bytes from the kernel, as lower-case hexadecimal digits.
std::string RandomHex(size_t bytes);
uint64_t RandomNumber();

}  // namespace onecopy::os
