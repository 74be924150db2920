#include "client/cli/copy_summary.h"

#include <algorithm>
#include <utility>

#include "client/cli/output/report.h"

namespace onecopy::cli {
namespace {

// Each copy has a sum of its own: what is left of them is whether all were equal.
void AddChecksum(const Receipt& part, Receipt& whole, bool first) {
  if (!part.checksum) return;
  const bool before = first || (whole.checksum && whole.checksum->verified);
  whole.checksum =
      ChecksumResult{part.checksum->algorithm, "of each", before && part.checksum->verified};
}

}  // namespace

void CopySummary::Add(Move move, uint64_t files) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - std::exchange(last_, now)).count();
  if (session_.json()) {
    copies_.push_back(ToJson(move));
    copies_.back()["files"] = files;
    return;
  }
  Together& all = by_path_[move.receipt.path];
  MergeReceipt(move.receipt, all.move.receipt);
  AddChecksum(move.receipt, all.move.receipt, all.files == 0);
  all.move.receipt.seconds += seconds;
  all.move.bytes += move.bytes;
  all.move.parts += std::max<uint64_t>(move.parts, 1);
  all.files += files;
}

void CopySummary::End(Json more) {
  if (session_.json()) {
    more["copies"] = std::move(copies_);
    return Print(session_.out(), more);
  }
  if (session_.quiet()) return;
  for (auto& [path, all] : by_path_) {
    Move& move = all.move;
    move.source = std::to_string(all.files) + (all.files == 1 ? " file" : " files");
    move.destination = destination_;
    const double seconds = move.receipt.seconds;
    move.receipt.bytes_per_second = seconds > 0 ? static_cast<double>(move.bytes) / seconds : 0;
    PrintReceipt(session_.out(), move);
  }
}

}  // namespace onecopy::cli
