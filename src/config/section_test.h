// What every table of keys is held to: its examples are accepted by its own readers.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "config/section.h"
#include "config/value.h"
#include "yaml/tree.h"

namespace berth::config {

template <typename T>
void expect_examples_are_accepted(const Section<T>& section) {
  for (const Key<T>& key : section.keys) {
    const std::string text(key.doc.example);
    const auto document = yaml::parse(text, "example");
    ASSERT_TRUE(document.ok()) << key.doc.name << ": " << document.error().message();
    ASSERT_EQ(document->size(), 1U) << key.doc.name;
    T into{};
    const auto read = key.read(Value(document->front(), key.doc.name, "example"), into);
    EXPECT_TRUE(read.ok()) << section.name << "." << key.doc.name << ": " << text << ": "
                           << (read.ok() ? "" : read.error().message());
    // Readers that collect complaints instead of stopping at the first.
    if constexpr (requires { into.errors; }) {
      EXPECT_TRUE(into.errors.empty()) << key.doc.name;
    }
    EXPECT_FALSE(key.doc.summary.empty()) << key.doc.name;
  }
}

}  // namespace berth::config
