// The machines that the planner is tried on: what their daemons say they can do, one file each in
// nodes/, including machines that nobody here has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "daemon/plan/planner.h"
#include "onecopy/capability.h"

namespace onecopy::testing {

// The files' contents.
const std::vector<std::string>& NodeTexts();

// All of them, and by the node's name, which must be one of theirs.
const std::vector<NodeCapability>& Nodes();
const NodeCapability& Node(const std::string& name);

// A second daemon on the same host, with the same devices.
NodeCapability Twin(const NodeCapability& node, const std::string& name);

// "rail-a/cuda:3", "laptop/host": a memory of a node.
plan::End End(const std::string& text);
// The name of that memory in steps.
std::string StepNameOf(const std::string& text);

// From one such memory to another, 1 GiB under the default policy.
plan::Request Move(const std::string& source, const std::string& destination);

// As if so many transfers of every size had made that rate by this path, staged at either end.
void Measure(plan::Request& request, const std::string& path, const std::string& link,
             plan::PathRate rate);
// Twice, which is enough to be believed.
void Measure(plan::Request& request, const std::string& path, const std::string& link,
             double bytes_per_second);

// The refusal of that path, which must be there.
const Refusal& RefusalOf(const std::vector<Refusal>& refused, std::string_view path);

}  // namespace onecopy::testing
