// What moved the bytes: one step is one pass of the payload from one memory to another.
#pragma once

#include "onecopy/language.h"  // first

#include <cstdint>
#include <string>

namespace onecopy {

// `from` and `to` name memories (a GPU's UUID, "host", "dmabuf", "pinned", "kernel", "tls", "ucx",
// "file"), `by` what did the work ("cpu", "copy-engine", "gpu-kernel", "wire", "client",
// "unknown"), or several such, parted by commas, where each did part of it. `node` is where it was
// done.
struct Step {
  std::string node;
  std::string from;
  std::string to;
  std::string by;
  bool loopback = false;  // a wire that never left the machine
  bool emulated = false;  // a software device did what hardware should

  friend bool operator==(const Step&, const Step&) = default;
};

// Whether two steps of different bytes are one pass of the payload: equal except for what did the
// work, which is not a wire.
bool IsOnePass(const Step& a, const Step& b);

// Names in `into` also what did the work of `other`, which is one pass with it.
void JoinPass(const Step& other, Step& into);

// A step, and the payload that went through it.
struct ExecutedStep {
  Step step;
  uint64_t bytes = 0;

  friend bool operator==(const ExecutedStep&, const ExecutedStep&) = default;
};

}  // namespace onecopy
