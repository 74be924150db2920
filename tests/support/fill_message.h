// Protobuf messages in which every field says something, made by reflection: a field that is added
// later and forgotten in a conversion makes a test fail.
#pragma once

#include <string>

#include "google/protobuf/message.h"

namespace onecopy::testing {

// Sets every field, all to different values where the type allows; lists and maps get two entries,
// a oneof its last member. Times are whole milliseconds, a google.rpc.Status is an error of ours.
void Fill(google::protobuf::Message* message);

// The first field, at any depth, that has its default value (or is an empty list); empty if none.
// Members of a oneof count as one.
std::string FirstUnset(const google::protobuf::Message& message);

// What differs between two messages; empty if nothing does.
std::string Difference(const google::protobuf::Message& a, const google::protobuf::Message& b);

}  // namespace onecopy::testing
