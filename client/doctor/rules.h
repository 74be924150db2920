// Inside the doctor: the rules, by what they look at.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/doctor/facts.h"
#include "client/doctor/finding.h"

namespace onecopy::doctor {

class Findings {
 public:
  void Add(std::string code, Severity severity, std::string evidence, std::string remedy) {
    list_.push_back({std::move(code), severity, std::move(evidence), std::move(remedy)});
  }
  std::vector<Finding>& list() { return list_; }

 private:
  std::vector<Finding> list_;
};

// "a, b and 3 more": names for people.
std::string Join(const std::vector<std::string>& names, size_t most = 8);

void JudgeNics(const Facts& facts, Findings& findings);
void JudgePorts(const Facts& facts, Findings& findings);
void JudgeGpus(const Facts& facts, Findings& findings);
void JudgeRegistration(const Facts& facts, Findings& findings);
void JudgeMachine(const Facts& facts, Findings& findings);
void JudgePlaces(const Facts& facts, Findings& findings);
void JudgeCertificates(const Facts& facts, Findings& findings);
void JudgeUcx(const Facts& facts, Findings& findings);
void JudgeProbes(const Facts& facts, Findings& findings);

}  // namespace onecopy::doctor
