#include "daemon/plan/policy.h"

#include <algorithm>
#include <array>

#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"
#include "transport/core/base/glob.h"
#include "transport/core/base/nearest.h"

namespace onecopy::plan {
namespace {

constexpr std::array<std::string_view, 3> kLinks = {"verbs", "ucx", "tcp"};

Status BadPolicy(std::string message, std::string remedy) {
  return {Code::kInvalidArgument, reasons::kBadPolicy, std::move(message), std::move(remedy)};
}

std::string PathNames() {
  std::string names;
  for (const Rung& rung : kLadder) {
    if (!names.empty()) names += ", ";
    names += rung.name;
  }
  return names;
}

std::string BehindFile(const Rung& rung) {
  return std::string(kFileThenLink) + std::string(rung.name);
}

bool FitsAnyRung(const std::string& glob) {
  return std::any_of(kLadder.begin(), kLadder.end(), [&glob](const Rung& rung) {
    return MatchesGlob(glob, rung.name) ||
           (MayFollowFile(rung) && MatchesGlob(glob, BehindFile(rung)));
  });
}

Refusal Against(const Path& path, std::string_view reason, std::string detail, std::string remedy) {
  return {path.path, std::string(reason), std::move(detail), std::move(remedy)};
}

std::string Copies(size_t copies) {
  return std::to_string(copies) + (copies == 1 ? " copy" : " copies");
}

// What was probably meant: all paths that begin so, or the nearest one; else empty.
std::string MeantPath(const std::string& typed) {
  std::vector<std::string> names;
  for (const Rung& rung : kLadder) {
    if (rung.name.starts_with(typed + "-")) return "did you mean \"" + typed + "-*\"? ";
    names.emplace_back(rung.name);
  }
  const std::string nearest = Nearest(typed, names);
  return nearest.empty() ? "" : "did you mean " + nearest + "? ";
}

}  // namespace

Status CheckPolicy(const Policy& policy, const NodeCapability& source,
                   const NodeCapability& destination) {
  if (!policy.path_glob.empty() && !FitsAnyRung(policy.path_glob)) {
    return BadPolicy("there is no path \"" + policy.path_glob + "\"",
                     MeantPath(policy.path_glob) + "the paths are " + PathNames() + ", and " +
                         std::string(kFileThenLink) +
                         "rdma-… or tcp-… of a file and another node; * and ? are wildcards");
  }
  if (policy.at_most_copies == 0U) {
    return BadPolicy("a path needs at least 1 copy, so at most 0 copies is impossible",
                     "allow at least 1 copy");
  }
  const bool known =
      policy.link.empty() || std::find(kLinks.begin(), kLinks.end(), policy.link) != kLinks.end() ||
      source.FindLink(policy.link) != nullptr || destination.FindLink(policy.link) != nullptr;
  if (!known) {
    std::string names;
    for (const std::string_view name : kLinks) {
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    return BadPolicy("there is no link \"" + policy.link + "\"", "the links are " + names);
  }
  return OkStatus();
}

std::optional<Refusal> Objection(const Policy& policy, const Path& path) {
  if (!policy.path_glob.empty() && !MatchesGlob(policy.path_glob, path.path)) {
    return Against(path, reasons::kNotRequested, "the policy asks for path=" + policy.path_glob,
                   "ask for path=" + path.path + " to use it");
  }
  if (!policy.link.empty() && path.link != policy.link) {
    return Against(path, reasons::kNotRequested,
                   "the policy asks for link=" + policy.link + ", and this path uses " +
                       (path.link.empty() ? "no link" : path.link),
                   path.link.empty() ? "ask for no link to use it"
                                     : "ask for link=" + path.link + " to use it");
  }
  const size_t copies = path.copies() + (policy.client_file ? 1 : 0);
  if (policy.at_most_copies && copies > *policy.at_most_copies) {
    const std::string whose =
        policy.client_file ? ", including the client's own copy of its file" : "";
    return Against(path, reasons::kMoreCopies,
                   "it takes " + Copies(copies) + whose + ", and the policy allows " +
                       std::to_string(*policy.at_most_copies),
                   "allow " + Copies(copies));
  }
  if (policy.at_most_copies && path.emulated && !policy.allow_emulated) {
    return Against(path, reasons::kEmulated,
                   "a software device would emulate the RDMA of " + path.link +
                       ", and onecopy cannot count the processor's copies in it",
                   "use --allow-emulated if that is acceptable");
  }
  return std::nullopt;
}

std::string Describe(const Policy& policy) {
  std::string text;
  const auto add = [&text](const std::string& part) { text += (text.empty() ? "" : " ") + part; };
  if (!policy.path_glob.empty()) add("path=" + policy.path_glob);
  if (policy.at_most_copies) add("at-most=" + std::to_string(*policy.at_most_copies));
  if (!policy.link.empty()) add("link=" + policy.link);
  return text;
}

}  // namespace onecopy::plan
