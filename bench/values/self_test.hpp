// self_test.hpp - what must hold for the figures to mean anything.
#pragma once

namespace ls::values {

// Prints an "ok" or "not ok" line for each test; the exit code of the program.
int self_test();

}  // namespace ls::values
