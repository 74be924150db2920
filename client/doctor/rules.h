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

void EvaluateNics(const Facts& facts, Findings& findings);
void EvaluatePorts(const Facts& facts, Findings& findings);
void EvaluateGpus(const Facts& facts, Findings& findings);
void EvaluateRegistration(const Facts& facts, Findings& findings);
void EvaluateMachine(const Facts& facts, Findings& findings);
void EvaluatePlaces(const Facts& facts, Findings& findings);
void EvaluateCertificates(const Facts& facts, Findings& findings);
void EvaluateService(const Facts& facts, Findings& findings);
void EvaluateUcx(const Facts& facts, Findings& findings);
void EvaluateStorage(const Facts& facts, Findings& findings);
void EvaluateProbes(const Facts& facts, Findings& findings);

}  // namespace onecopy::doctor
