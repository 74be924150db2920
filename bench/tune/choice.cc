#include "bench/tune/choice.h"

#include <algorithm>
#include <set>

#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr double kBetter = 1.05;
constexpr unsigned kMaxLanes = 32;

using Variants = std::vector<Choice>;

// As onecopyd's configuration has sizes.
std::string SizeText(uint64_t bytes) {
  if (bytes % kMiB == 0) return std::to_string(bytes / kMiB) + "MiB";
  return std::to_string(bytes / kKiB) + "KiB";
}

Variants OfLanes(const Choice& best, unsigned cores) {
  // A busy lane takes a core at each end.
  std::set<unsigned> counts;
  for (const unsigned eighths : {1U, 2U, 3U, 4U, 6U}) {
    counts.insert(std::clamp(cores * eighths / 8, 1U, kMaxLanes));
  }
  Variants variants(counts.size(), best);
  std::transform(counts.begin(), counts.end(), variants.begin(), [&](unsigned count) {
    Choice choice = best;
    choice.lanes = count;
    return choice;
  });
  return variants;
}

// Of the same memory in all.
Variants OfSlotBytes(const Choice& best) {
  Variants variants;
  for (const uint64_t bytes : {256 * kKiB, 512 * kKiB, kMiB, 2 * kMiB, 4 * kMiB}) {
    Choice choice = best;
    choice.slot_bytes = bytes;
    choice.slots = static_cast<unsigned>(best.slot_bytes * best.slots / bytes);
    variants.push_back(choice);
  }
  return variants;
}

// Fewer stay in a processor's cache, more cover longer pauses.
Variants OfSlots(const Choice& best) {
  Variants variants(2, best);
  variants[0].slots = best.slots / 2;
  variants[1].slots = best.slots * 2;
  return variants;
}

Variants OfSocketBuffers(const Choice& best) {
  Variants variants(2, best);
  variants[0].socket_buffer_bytes = 512 * kKiB;
  variants[1].socket_buffer_bytes = 2 * kMiB;
  return variants;
}

}  // namespace

std::string Choice::ToString() const {
  return std::to_string(slots) + " slots of " + FormatBytes(slot_bytes) + ", " +
         (lanes == 0 ? "the default number of" : std::to_string(lanes)) +
         " lanes, socket buffers " +
         (socket_buffer_bytes == 0 ? "as the kernel likes"
                                   : "of " + FormatBytes(socket_buffer_bytes));
}

Result<Search> FindBest(unsigned cores,
                        const std::function<Result<double>(const Choice&)>& measure) {
  Search search;
  ONECOPY_ASSIGN_OR_RETURN(const double rate, measure({}));
  search.best = {{}, rate};
  search.trials = {search.best};
  const std::vector<std::function<Variants(const Choice&)>> settings = {
      [&](const Choice& best) { return OfLanes(best, cores); }, OfSlotBytes, OfSlots,
      OfSocketBuffers};
  for (const auto& variants_of : settings) {
    for (const Choice& choice : variants_of(search.best.choice)) {
      const bool known = std::any_of(search.trials.begin(), search.trials.end(),
                                     [&](const Trial& trial) { return trial.choice == choice; });
      if (known) continue;
      const Result<double> measured = measure(choice);
      if (measured.status().code() == Code::kCancelled) return measured.status();
      if (!measured.ok()) continue;
      search.trials.push_back({choice, *measured});
      if (*measured > search.best.bytes_per_second * kBetter) search.best = search.trials.back();
    }
  }
  return search;
}

std::string TunedFile(const Choice& choice, const std::vector<std::string>& heading) {
  std::string text;
  for (const std::string& line : heading) text += "# " + line + "\n";
  text += "version = 1\n[staging]\nslot_bytes = \"" + SizeText(choice.slot_bytes) +
          "\"\nslots = " + std::to_string(choice.slots) +
          "\n[tcp]\nlanes = " + std::to_string(choice.lanes) + "\n";
  if (choice.socket_buffer_bytes > 0) {
    text += "socket_buffer = \"" + SizeText(choice.socket_buffer_bytes) + "\"\n";
  }
  return text;
}

}  // namespace onecopy::bench
