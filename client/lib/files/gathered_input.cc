#include "client/lib/files/gathered_input.h"

#include <algorithm>
#include <limits>

#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::client {

GatheredInput::GatheredInput(std::span<const PlacedFile> files)
    : files_(files), at_(files.front().offset_bytes) {
  end_ = files.back().offset_bytes + *files.back().file.bytes;
}

Result<GatheredInput> GatheredInput::Of(std::span<const PlacedFile> files) {
  const auto refuse = [](const std::string& what) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, what,
                  "name files with their lengths, in the order of their places");
  };
  if (files.empty()) return refuse("no file was named");
  uint64_t end = 0;
  for (const PlacedFile& each : files) {
    if (!each.file.bytes) return refuse("the length of " + each.file.path + " is unknown");
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    ONECOPY_RETURN_IF_ERROR(
        CheckWithin({each.offset_bytes, *each.file.bytes}, kMost, "any buffer"));
    if (each.offset_bytes < end) {
      return refuse(each.file.path + " would overlap the file before it");
    }
    end = each.offset_bytes + *each.file.bytes;
  }
  return GatheredInput(files);
}

std::string GatheredInput::name() const {
  const std::string& first = files_.front().file.path;
  if (files_.size() == 1) return first;
  return first + " (" + std::to_string(files_.size() - 1) + " more files after it)";
}

Result<uint64_t> GatheredInput::Read(std::byte* to, uint64_t bytes, const Waiter& waiter) {
  uint64_t got = 0;
  while (got < bytes && at_ < end_) {
    const PlacedFile& file = files_[next_];
    uint64_t step = 0;
    if (at_ < file.offset_bytes) {
      step = std::min(bytes - got, file.offset_bytes - at_);
      std::fill_n(to + got, step, std::byte{0});
    } else if (at_ == file.offset_bytes + *file.file.bytes) {
      open_.reset();
      ++next_;
    } else {
      if (!open_) {
        ONECOPY_ASSIGN_OR_RETURN(InputFile opened, InputFile::Open(file.file));
        open_.emplace(std::move(opened));
      }
      ONECOPY_ASSIGN_OR_RETURN(step, open_->Read(to + got, bytes - got, waiter));
      if (step == 0) {
        return Status(Code::kDataLoss, reasons::kIo,
                      file.file.path + " became shorter while it was read",
                      "copy it again while no other program changes it");
      }
    }
    got += step;
    at_ += step;
  }
  return got;
}

}  // namespace onecopy::client
