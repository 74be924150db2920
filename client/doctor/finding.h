// What the doctor says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace onecopy::doctor {

enum class Severity {
  kBlocks,  // no byte takes the one-copy path
  kSlows,   // some do, or slower than they could
  kNote,    // worth knowing
};

// "blocks", "slows", "note".
std::string_view SeverityName(Severity severity);

struct Finding {
  std::string code;  // stable: scripts match on it
  Severity severity = Severity::kNote;
  std::string evidence;  // what was seen, with names and figures
  std::string remedy;    // what a person can type or do
};

struct Diagnosis {
  // The one-copy path was seen to work on hardware, between this node and a peer.
  bool works = false;
  std::string proof;              // by what; empty where it does not work
  std::vector<Finding> findings;  // what blocks first

  const Finding* Find(std::string_view code) const;
};

}  // namespace onecopy::doctor
