// server_trace_test.hpp - tests of the converter of servers' traces.  Empty, or what is wrong.
#pragma once
#include <string>

namespace ls::values {

std::string replaced_values_are_one_key();
std::string what_is_rolled_back_or_copied_does_no_harm();
std::string commands_and_sessions_are_kept_apart();
std::string damaged_server_traces_are_refused();
// Whatever a server may have said: the result is a trace, and each record is accounted for.
std::string any_server_trace_is_a_trace();

}  // namespace ls::values
