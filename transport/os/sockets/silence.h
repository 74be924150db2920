// How long the far end of a TCP connection may be silent.
#pragma once

#include <chrono>

namespace onecopy::os {

inline constexpr std::chrono::seconds kSilenceLimit{10};

// Has the kernel end the connection, with ETIMEDOUT, once the far end has not been heard for
// `limit`, of whole seconds and at least 3, whether bytes wait to be acknowledged or nothing is
// sent at all. A far end that merely has nothing to say is asked by the kernel, which answers for
// it. Before or after it is connected; where it cannot be had the socket stays as it was.
void LimitSilence(int fd, std::chrono::seconds limit = kSilenceLimit);

// For a listening socket whose clients speak first: the kernel keeps connections to itself until
// their first byte is there, for about kSilenceLimit. Those that are silent for longer, or come as
// a flood, can be accepted silent. Where it cannot be had the socket stays as it was.
void AwaitFirstByte(int listener);

}  // namespace onecopy::os
