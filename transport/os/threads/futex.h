// Sleeps on a word of shared memory, and wakes the threads that sleep there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace onecopy::os {

// Sleeps until the word is woken, while it has `expected`; at most `limit`. May return early.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::nanoseconds limit);

// Wakes at most `count` threads of any process. Never blocks, whatever the others do to the word.
void FutexWake(std::atomic<uint32_t>& word, int count);

}  // namespace onecopy::os
