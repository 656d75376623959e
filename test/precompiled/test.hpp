// test.hpp - the same for tests of the engine.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <unordered_set>

#include "engine.hpp"
