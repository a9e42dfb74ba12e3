// The document says what the program does: the same calls, fields, states, reasons and codes.
// (tests/api holds the answers of a running daemon against it.)
#include "api/openapi.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/api.h"
#include "api/job_calls.h"
#include "api/read_plan.h"
#include "api/read_reserve.h"
#include "json/value.h"

namespace berth::api {
namespace {

using json::Value;
using Names = std::set<std::string>;

const Value& document() {
  static const Result<Value> value = json::parse(kOpenapiDocument);
  EXPECT_TRUE(value.ok()) << value.error().message();
  return *value;
}

const Value& at(const Value& value, std::string_view name) {
  const Value* member = value.find(name);
  EXPECT_NE(member, nullptr) << name;
  static const Value nothing = json::object();
  return member == nullptr ? nothing : *member;
}

const Value& schema(std::string_view name) {
  return at(at(at(document(), "components"), "schemas"), name);
}

Names names_of(const Value& object) {
  Names names;
  for (const auto& [name, value] : object.as_object()) {
    names.insert(name);
  }
  return names;
}

Names words_of(const Value& array) {
  Names words;
  for (const Value& word : array.as_array()) {
    words.insert(word.as_string());
  }
  return words;
}

Names set_of(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

TEST(Openapi, IsVersion31WithTitleAndLicence) {
  EXPECT_EQ(document().text("openapi"), "3.1.0");
  EXPECT_EQ(at(document(), "info").text("title"), "Berth");
}

TEST(Openapi, HasExactlyTheCallsOfTheApi) {
  Names written;
  for (const auto& [path, item] : at(document(), "paths").as_object()) {
    if (path.starts_with("/v1/simulated/")) {
      continue;  // those of serve::Simulation; tests/api calls each
    }
    const std::string pattern = std::regex_replace(path, std::regex(R"(\{[a-z]+\})"), "{}");
    for (const auto& [method, call] : item.as_object()) {
      std::string upper = method;
      std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return std::toupper(c); });
      written.insert(upper + " " + pattern);
    }
  }
  Names routes;
  for (const std::vector<RoutePath>& table : {Api::routes(), JobCalls::routes()}) {
    for (const RoutePath& route : table) {
      routes.insert(std::string(route.method) + " " + std::string(route.path));
    }
  }
  EXPECT_EQ(written, routes);
}

TEST(Openapi, EveryOperationHasItsOwnNameAndItsErrors) {
  Names operations;
  for (const auto& [path, item] : at(document(), "paths").as_object()) {
    for (const auto& [method, call] : item.as_object()) {
      EXPECT_TRUE(operations.emplace(call.text("operationId")).second) << method << " " << path;
      EXPECT_THAT(names_of(at(call, "responses")), testing::IsSupersetOf({"401", "500", "503"}))
          << method << " " << path;
    }
  }
}

TEST(Openapi, ReserveHasTheFieldsThatAreRead) {
  EXPECT_EQ(names_of(at(schema("Reserve"), "properties")), set_of(reserve_fields()));
  EXPECT_EQ(names_of(at(schema("ExecutorConfig"), "properties")), set_of(executor_config_fields()));
}

TEST(Openapi, SubmitJobHasTheFieldsThatAreReadAndThoseOfReserveButItsKey) {
  EXPECT_EQ(names_of(at(schema("SubmitJob"), "properties")), set_of(plan_fields()));
  Names claim = set_of(reserve_fields());
  claim.erase("key");
  const Value& lease = at(at(schema("SubmitJob"), "properties"), "lease");
  EXPECT_EQ(words_of(at(at(lease, "propertyNames"), "enum")), claim);
}

TEST(Openapi, ListsEveryStateOfJobs) {
  Names states;
  for (int i = 0; i <= static_cast<int>(jobs::State::lost); ++i) {
    states.emplace(jobs::state_name(static_cast<jobs::State>(i)));
  }
  EXPECT_EQ(words_of(at(schema("JobState"), "enum")), states);
}

TEST(Openapi, ListsEveryState) {
  Names states;
  for (int i = 0; i <= static_cast<int>(lease::State::never); ++i) {
    states.emplace(lease::state_name(static_cast<lease::State>(i)));
  }
  EXPECT_EQ(words_of(at(schema("State"), "enum")), states);
}

TEST(Openapi, ListsEveryReason) {
  Names reasons;
  for (int i = 1; i < static_cast<int>(lease::Reason::kCount); ++i) {
    reasons.emplace(lease::reason_name(static_cast<lease::Reason>(i)));
  }
  EXPECT_EQ(words_of(at(schema("Reason"), "enum")), reasons);
}

// Codes are written where they arise, so the sources are asked.
TEST(Openapi, ListsEveryErrorCodeOfTheSources) {
  Names codes;
  const std::regex code(R"(\bcode = "([a-z-]+)\")");
  for (const char* folder : {"api", "jobs", "lease", "net", "serve"}) {
    const std::filesystem::path path = std::filesystem::path(BERTH_SOURCE_DIR) / "src" / folder;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      const std::string name = entry.path().filename();
      if (!name.ends_with(".cc") || name.ends_with("_test.cc")) {
        continue;
      }
      std::ifstream file(entry.path());
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      for (std::sregex_iterator found(text.begin(), text.end(), code), end; found != end; ++found) {
        codes.insert((*found)[1]);
      }
    }
  }
  EXPECT_GT(codes.size(), 10U);
  const Value& error = at(at(schema("Error"), "properties"), "error");
  EXPECT_EQ(words_of(at(at(at(error, "properties"), "code"), "enum")), codes);
}

void collect_references(const Value& value, Names& references) {
  if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) {
      if (name == "$ref" && member.is_string()) {
        references.insert(member.as_string());
      }
      collect_references(member, references);
    }
  } else if (value.is_array()) {
    for (const Value& item : value.as_array()) {
      collect_references(item, references);
    }
  }
}

TEST(Openapi, EveryPartIsUsedAndEveryReferenceLeadsSomewhere) {
  Names references;
  collect_references(document(), references);
  Names parts;
  for (const char* kind : {"schemas", "responses", "links"}) {
    for (const std::string& name : names_of(at(at(document(), "components"), kind))) {
      parts.insert(std::string("#/components/") + kind + "/" + name);
    }
  }
  EXPECT_EQ(references, parts);
}

}  // namespace
}  // namespace berth::api
