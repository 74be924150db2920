#include "transport/core/contracts/step.h"

#include <algorithm>

namespace onecopy {
namespace {

constexpr size_t kNone = SIZE_MAX;

// Whether these end one pass, the longer way of which began elsewhere.
bool DifferInBeginning(const Step& a, Step b) {
  b.from = a.from;
  return IsOnePass(a, b);
}

}  // namespace

void StepTally::Add(const StepList& list, uint64_t bytes) {
  if (list == nullptr || bytes == 0) return;
  if (list != last_) {
    last_ = list;
    last_at_ = Place(*list);
  }
  for (const size_t at : last_at_) entries_[at].bytes += bytes;
}

std::vector<size_t> StepTally::Place(const std::vector<Step>& list) {
  std::vector<size_t> places;
  for (size_t i = 0; i < list.size(); ++i) {
    // A list may hold equal steps (two passes of one kind): each needs an entry of its own.
    const auto free = [&](size_t at) {
      return std::find(places.begin(), places.end(), at) == places.end();
    };
    size_t place = kNone;
    for (size_t at = 0; at < entries_.size() && place == kNone; ++at) {
      if (entries_[at].step == list[i] && free(at)) place = at;
    }
    for (size_t at = 0; at < entries_.size() && place == kNone; ++at) {
      if (!free(at) || !IsOnePass(entries_[at].step, list[i])) continue;
      JoinPass(list[i], entries_[at].step);
      place = at;
    }
    for (size_t at = 0; at < entries_.size() && place == kNone; ++at) {
      const bool one_begins = (i == 0) != begins_[at];
      if (!one_begins || !free(at) || !DifferInBeginning(entries_[at].step, list[i])) continue;
      if (begins_[at]) entries_[at].step.from = list[i].from;
      JoinPass(list[i], entries_[at].step);
      place = at;
    }
    if (place != kNone && i > 0) begins_[place] = false;
    places.push_back(place);
  }
  // What is new goes before the step that comes after it.
  size_t next = entries_.size();
  for (size_t i = list.size(); i-- > 0;) {
    if (places[i] == kNone) {
      entries_.insert(entries_.begin() + static_cast<ptrdiff_t>(next), ExecutedStep{list[i], 0});
      begins_.insert(begins_.begin() + static_cast<ptrdiff_t>(next), i == 0);
      for (size_t& place : places) place += place != kNone && place >= next ? 1 : 0;
      places[i] = next;
    }
    next = places[i];
  }
  return places;
}

}  // namespace onecopy
