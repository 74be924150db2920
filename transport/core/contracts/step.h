// The steps of operations, and what they add up to.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "onecopy/step.h"

namespace onecopy {

// The steps that one operation took, in order. Built once per route and shared, so that completing
// an operation allocates nothing.
using StepList = std::shared_ptr<const std::vector<Step>>;

// Adds up what the operations of one transfer report. Confined to one thread.
class StepTally {
 public:
  // `bytes` went through every step of `list`. Steps of different lists that differ only in what
  // did the work are one. Where one list has a step before that with which another one begins,
  // these two are one step, which begins where the longer way has it.
  void Add(const StepList& list, uint64_t bytes);

  // In the order in which they are done; of what no list has together, as they were first seen.
  const std::vector<ExecutedStep>& entries() const { return entries_; }

 private:
  // Where the list's steps have their entries, which are made where they are missing.
  std::vector<size_t> Place(const std::vector<Step>& list);

  std::vector<ExecutedStep> entries_;
  std::vector<bool> begins_;  // by entry: so far only as the first step of lists
  StepList last_;             // the list added last, and where its entries are: the usual case
  std::vector<size_t> last_at_;
};

}  // namespace onecopy
