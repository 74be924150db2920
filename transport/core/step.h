// What moved the bytes: one step is one pass of the payload from one memory to another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace onecopy {

// `from` and `to` name memories (a GPU's UUID, "host", "dmabuf", "pinned", "kernel", "tls", "ucx",
// "file"), `by` what did the work ("cpu", "copy-engine", "gpu-kernel", "wire", "client",
// "unknown"). `node` is where it was done.
struct Step {
  std::string node;
  std::string from;
  std::string to;
  std::string by;
  bool loopback = false;  // a wire that never left the machine
  bool emulated = false;  // a software device did what hardware should

  friend bool operator==(const Step&, const Step&) = default;
};

// The steps that one operation took, in order. Built once per route and shared, so that completing
// an operation allocates nothing.
using StepList = std::shared_ptr<const std::vector<Step>>;

// Adds up what the operations of one transfer report. Confined to one thread.
class StepTally {
 public:
  struct Entry {
    Step step;
    uint64_t bytes = 0;
  };

  // `bytes` went through every step of `list`.
  void Add(const StepList& list, uint64_t bytes);

  // In the order in which the steps were first seen.
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
  StepList last_;  // the list added last, and where its entries are: the usual case
  std::vector<size_t> last_at_;
};

}  // namespace onecopy
