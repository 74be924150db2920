// Small copies in two stages: into memory between the two ends, and on from there.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/small_copy_route.h"

namespace onecopy::pipeline {

// Each copy has a part of the memory between to itself, from the beginning of its first stage to
// the end of its second. Copies that find no room there wait. Stages begin and end when the
// requesting thread asks (Mark, Reached). Once a copy has failed, so have all after it.
class ChainedRoute final : public SmallCopyRoute {
 public:
  // Runs at most once, on the requesting thread: why the first copy to fail has failed.
  using Failed = UniqueFunction<void(const Status&)>;

  // `first` copies from the source into the memory between, and `second` from there to the
  // destination; offsets in that memory begin with 0. Both keep what they need of it.
  ChainedRoute(std::shared_ptr<SmallCopyRoute> first, std::shared_ptr<SmallCopyRoute> second,
               uint64_t between_bytes, Failed failed);

  // At most between_bytes.
  Status Begin(uint64_t from_offset, uint64_t to_offset, uint64_t bytes) override;
  uint64_t Mark() override;
  bool Reached(uint64_t mark, Status* failure) override;
  void Cancel() override;
  // The steps of both stages.
  std::shared_ptr<const SmallSteps> steps() const override { return steps_; }

 private:
  struct Copy {
    uint64_t from = 0;
    uint64_t to = 0;
    uint64_t bytes = 0;
    uint64_t between = 0;    // its part of the memory
    bool under_way = false;  // in its stage; otherwise it has failed
    uint64_t mark = 0;       // of that stage
  };

  Copy& At(uint64_t number) { return copies_[number % kMaxUnderWay]; }
  void Advance();
  void EndSecond();
  void EndFirst();
  void BeginFirst();
  void Fail(uint64_t number, const Status& why);
  // The beginning of a free part; nothing if there is none now.
  std::optional<uint64_t> FindRoom(uint64_t bytes) const;
  void NoteSteps();

  const std::shared_ptr<SmallCopyRoute> first_;
  const std::shared_ptr<SmallCopyRoute> second_;
  const uint64_t between_bytes_;
  Failed failed_;
  const std::shared_ptr<SmallSteps> steps_ = std::make_shared<SmallSteps>();
  StepList first_steps_;  // of which steps_ is made
  StepList second_steps_;

  // Copies are numbered from 0 on. Each of these counts is at most the one before.
  uint64_t begun_ = 0;
  uint64_t in_first_ = 0;   // so many have begun their first stage
  uint64_t in_second_ = 0;  // likewise their second
  uint64_t ended_ = 0;
  std::array<Copy, kMaxUnderWay> copies_;
  uint64_t next_ = 0;  // behind the part that was taken last
  uint64_t first_failed_ = UINT64_MAX;
  Status failure_;
  std::atomic<bool> cancelled_{false};  // nothing more begins
};

}  // namespace onecopy::pipeline
