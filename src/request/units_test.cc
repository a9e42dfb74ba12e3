#include "request/units.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "core/model/request.h"

namespace berth::request {
namespace {

template <typename T>
ReasonCode code_of(const Parsed<T>& parsed) {
  EXPECT_FALSE(parsed.has_value());
  return parsed.has_value() ? ReasonCode::hint_ignored : parsed.error().code;
}

std::int64_t quantity_mib(std::string_view text) {
  const auto parsed = parse_quantity(text);
  EXPECT_TRUE(parsed.has_value()) << text << ": " << (parsed ? "" : parsed.error().rule);
  return parsed ? parsed->ceil_mib() : -1;
}

std::int64_t lease_mib(std::string_view text) {
  const auto parsed = parse_lease_size(text);
  EXPECT_TRUE(parsed.has_value()) << text << ": " << (parsed ? "" : parsed.error().rule);
  return parsed ? parsed->ceil_mib() : -1;
}

TEST(Quantity, ReadsEverySuffixOfKubernetes) {
  EXPECT_EQ(quantity_mib("1024Ki"), 1);
  EXPECT_EQ(quantity_mib("8Mi"), 8);
  EXPECT_EQ(quantity_mib("8Gi"), 8192);
  EXPECT_EQ(quantity_mib("1Ti"), 1048576);
  EXPECT_EQ(quantity_mib("1Pi"), 1073741824);
  EXPECT_EQ(quantity_mib("1Ei"), 1099511627776);
  EXPECT_EQ(quantity_mib("1048576k"), 1000);
  EXPECT_EQ(quantity_mib("1000M"), 954);
  EXPECT_EQ(quantity_mib("4G"), 3815);
  EXPECT_EQ(quantity_mib("1T"), 953675);
  EXPECT_EQ(quantity_mib("1P"), 953674317);
  EXPECT_EQ(quantity_mib("1E"), 953674316407);
}

TEST(Quantity, RoundsUpToWholeMebibytes) {
  EXPECT_EQ(quantity_mib("1500M"), 1431);
  EXPECT_EQ(quantity_mib("1.5Gi"), 1536);
  EXPECT_EQ(quantity_mib("1.0009765625Gi"), 1025);
  EXPECT_EQ(quantity_mib("1.00097656250001Gi"), 1026);
  EXPECT_EQ(quantity_mib("1048576"), 1);
  EXPECT_EQ(quantity_mib("1048577"), 2);
}

TEST(Quantity, TakesTheLetterEAsExaAndAsExponent) {
  EXPECT_EQ(quantity_mib("1E"), 953674316407);
  EXPECT_EQ(quantity_mib("1e9"), 954);
  EXPECT_EQ(quantity_mib("1E9"), 954);
  EXPECT_EQ(quantity_mib("10000000000e-1"), 954);
  EXPECT_EQ(quantity_mib("+.5e+10"), 4769);
  EXPECT_EQ(code_of(parse_quantity("1e9k")), ReasonCode::bad_memory);
}

TEST(Quantity, KeepsExactlyTheBytesOfLongFractions) {
  // 2^-60 of an Ei is one byte, and a hair more is two.
  const std::string byte = "1.000000000000000000867361737988403547205962240695953369140625Ei";
  const auto exact = parse_quantity(byte);
  ASSERT_TRUE(exact.has_value());
  EXPECT_EQ(exact->in_bytes(), (std::int64_t{1} << 60) + 1);
  const auto more = parse_quantity(byte.substr(0, byte.size() - 2) + "1Ei");
  ASSERT_TRUE(more.has_value());
  EXPECT_EQ(more->in_bytes(), (std::int64_t{1} << 60) + 2);
}

TEST(Quantity, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", "0", "-1Gi", "NaN", "abc", "0Gi", " 8Gi", "8Gi ", "8 Gi", "Inf", "0x10", "8Gi\n",
        "1,5Gi", ".", "-", "e3", "99999999999999999999", "8Ei"}) {
    EXPECT_EQ(code_of(parse_quantity(text)), ReasonCode::bad_memory) << text;
  }
}

TEST(Quantity, RefusesSubUnitsAndUnknownUnits) {
  for (const char* text : {"500m", "4096m", "4u", "4n", "8GB", "8gi", "8K", "8MiB"}) {
    EXPECT_EQ(code_of(parse_quantity(text)), ReasonCode::bad_memory_unit) << text;
  }
}

TEST(Quantity, RefusesLessThanAMebibyteAndSaysThatABareNumberIsBytes) {
  for (const char* text : {"8192", "1", "1000Ki", "1048575", "1e-9"}) {
    EXPECT_EQ(code_of(parse_quantity(text)), ReasonCode::memory_below_minimum) << text;
  }
  EXPECT_NE(parse_quantity("8192").error().rule.find("8192Mi"), std::string::npos);
}

TEST(Quantity, EndsWhereBytesNoLongerFit63Bits) {
  EXPECT_EQ(quantity_mib("8796093022207Mi"), core::kMaxAskMib);
  EXPECT_EQ(code_of(parse_quantity("8796093022208Mi")), ReasonCode::bad_memory);
  EXPECT_EQ(code_of(parse_quantity("9223372036854775807")), ReasonCode::bad_memory);
  EXPECT_EQ(code_of(parse_quantity("18446744073709551616")), ReasonCode::bad_memory);
}

TEST(Mib, IsDigitsOnly) {
  EXPECT_EQ(parse_mib("4096")->ceil_mib(), 4096);
  EXPECT_EQ(parse_mib("0004096")->ceil_mib(), 4096);
  EXPECT_EQ(parse_mib("8796093022207")->ceil_mib(), core::kMaxAskMib);
  for (const char* text : {"", "0", "-5", "abc", "1.5", "+5", "4e3", "8796093022208", " 5"}) {
    EXPECT_EQ(code_of(parse_mib(text)), ReasonCode::bad_memory) << text;
  }
}

TEST(Fraction, IsKeptInNano) {
  for (const char* text : {"0.5", "5e-1", ".5", "+0.5", "0.500000000", "50E-2", "0.05e1", "00.5"}) {
    EXPECT_EQ(parse_fraction(text), Nano{500'000'000}) << text;
  }
  EXPECT_EQ(parse_fraction("0.000000001"), Nano{1});
  EXPECT_EQ(parse_fraction("1e-9"), Nano{1});
  EXPECT_EQ(parse_fraction("0.999999999"), Nano{999'999'999});
}

TEST(Fraction, RefusesWhatIsNoShareOfADevice) {
  for (const char* text : {"",
                           "0",
                           "1",
                           "1.2",
                           "-0.5",
                           "NaN",
                           "nan",
                           "abc",
                           "500m",
                           "0x1p-1",
                           "inf",
                           "Infinity",
                           "0,5",
                           " 0.5",
                           "0.5 ",
                           "0.0",
                           "1.0",
                           "10e-1",
                           "0.1234567891",
                           "0.5000000000",
                           "1e-10",
                           "1e99999999999",
                           ".",
                           "e-1",
                           "--0.5"}) {
    EXPECT_EQ(code_of(parse_fraction(text)), ReasonCode::bad_fraction) << text;
  }
  EXPECT_NE(parse_fraction("1").error().rule.find("nvidia.com/gpu: 1"), std::string::npos);
}

TEST(Fraction, OfALimitHasAtMostFiveDigitsAfterThePoint) {
  EXPECT_EQ(parse_fraction("0.50001", kLimitFractionDigits), Nano{500'010'000});
  for (const char* text : {"0", "1", "-0.1", "0.500001", "0.500000"}) {
    EXPECT_EQ(code_of(parse_fraction(text, kLimitFractionDigits)), ReasonCode::bad_fraction)
        << text;
  }
}

TEST(ComputeShare, AllowsOneAndRoundsUp) {
  EXPECT_EQ(parse_compute_share("1"), Milli{1000});
  EXPECT_EQ(parse_compute_share("0.25"), Milli{250});
  EXPECT_EQ(parse_compute_share("0.0001"), Milli{1});
  for (const char* text : {"", "0", "1.01", "x", "-0.5", "1.0000001"}) {
    EXPECT_EQ(code_of(parse_compute_share(text)), ReasonCode::bad_compute_share) << text;
  }
}

TEST(Count, IsAtLeastOne) {
  EXPECT_EQ(parse_count("1"), 1);
  EXPECT_EQ(parse_count("1024"), 1024);
  for (const char* text : {"", "0", "-1", "1.5", "x", "1025", "+1", "99999999999999999999999"}) {
    EXPECT_EQ(code_of(parse_count(text)), ReasonCode::bad_device_count) << text;
  }
}

TEST(ResourceInteger, IsReadByValue) {
  const IntegerRule rule{.min = 0,
                         .max = 1'000'000,
                         .bad = ReasonCode::bad_memory,
                         .bad_unit = ReasonCode::bad_memory_unit,
                         .expected = "a number"};
  for (const char* text : {"4000", "4k", "4e3", "4.0k", "4000000m", "0.004M"}) {
    EXPECT_EQ(parse_resource_integer(text, rule), 4000) << text;
  }
  EXPECT_EQ(parse_resource_integer("0", rule), 0);
  EXPECT_EQ(parse_resource_integer("0k", rule), 0);
  for (const char* text : {"-1", "1.5", "1500m", "", "x", "2M", "99999999999999999999"}) {
    EXPECT_EQ(code_of(parse_resource_integer(text, rule)), ReasonCode::bad_memory) << text;
  }
  for (const char* text : {"4Gi", "4Ki", "4GB"}) {
    EXPECT_EQ(code_of(parse_resource_integer(text, rule)), ReasonCode::bad_memory_unit) << text;
  }
}

TEST(Cpu, IsMillicoresRoundedUp) {
  EXPECT_EQ(parse_cpu("4"), Milli{4000});
  EXPECT_EQ(parse_cpu("500m"), Milli{500});
  EXPECT_EQ(parse_cpu("0.5"), Milli{500});
  EXPECT_EQ(parse_cpu("1.0001"), Milli{1001});
  EXPECT_EQ(parse_cpu("0"), Milli{0});
  for (const char* text : {"", "-1", "x", "4 ", "1000001"}) {
    EXPECT_EQ(code_of(parse_cpu(text)), ReasonCode::bad_cpu) << text;
  }
}

TEST(Ram, IsAKubernetesQuantityThatMayBeSmall) {
  EXPECT_EQ(parse_ram("16Gi"), Memory::mib(16384));
  EXPECT_EQ(parse_ram("0"), Memory());
  EXPECT_EQ(parse_ram("128974848000m"), Memory::bytes(128974848));
  for (const char* text : {"", "-1", "x", "16GB"}) {
    EXPECT_EQ(code_of(parse_ram(text)), ReasonCode::bad_ram) << text;
  }
}

TEST(LeaseSize, HasTheUnitsOfTheLeaseApi) {
  for (const char* text : {"4096", "4096M", "4096Mi", "4096MiB", "4G", "4Gi", "4GiB", "4194304K",
                           "4194304Ki", "4194304KiB"}) {
    EXPECT_EQ(lease_mib(text), 4096) << text;
  }
  EXPECT_EQ(lease_mib("4GB"), 3815);
  EXPECT_EQ(lease_mib("1000MB"), 954);
  EXPECT_EQ(lease_mib("1KB"), 1);
  EXPECT_EQ(lease_mib("1TB"), 953675);
  for (const char* text : {"1T", "1Ti", "1TiB"})
    EXPECT_EQ(lease_mib(text), 1048576) << text;
  EXPECT_EQ(lease_mib("0"), 0);
  EXPECT_EQ(lease_mib("1099511627776"), kMaxLeaseMib);
}

TEST(LeaseSize, RefusesPointsOtherUnitsAndNegatives) {
  for (const char* text : {"4g", "4gb", "4kb", "4P", "4B", "4m", "4GIB", "4iB"}) {
    EXPECT_EQ(code_of(parse_lease_size(text)), ReasonCode::bad_memory_unit) << text;
  }
  for (const char* text : {"", "-4", "+4", "1.5G", "4.0", "4 G", "NaN", "true", "1e3", "G",
                           "1099511627777", "2097152T", "4G "}) {
    EXPECT_EQ(code_of(parse_lease_size(text)), ReasonCode::bad_memory) << text;
  }
  EXPECT_NE(parse_lease_size("1.5G").error().rule.find("1536MiB"), std::string::npos);
}

RC_GTEST_PROP(Quantity, OfMebibytesReadsBack, ()) {
  const auto mib = *rc::gen::inRange<std::int64_t>(1, core::kMaxAskMib);
  const auto parsed = parse_quantity(std::to_string(mib) + "Mi");
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(parsed->ceil_mib() == mib);
}

RC_GTEST_PROP(Quantity, OfBytesRoundsUpAndNeverByMoreThanAMebibyte, ()) {
  const auto bytes = *rc::gen::inRange<std::int64_t>(Memory::kBytesPerMib, std::int64_t{1} << 62);
  const auto parsed = parse_quantity(std::to_string(bytes));
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(parsed->in_bytes() == bytes);
  RC_ASSERT(parsed->ceil_mib() * Memory::kBytesPerMib >= bytes);
  RC_ASSERT((parsed->ceil_mib() - 1) * Memory::kBytesPerMib < bytes);
}

RC_GTEST_PROP(Quantity, GrowsWithItsNumber, ()) {
  const auto a = *rc::gen::inRange<std::int64_t>(1, 1'000'000'000);
  const auto b = *rc::gen::inRange<std::int64_t>(a, 1'000'000'001);
  const std::string unit = *rc::gen::element<std::string>("M", "Mi", "G", "Gi");
  const auto scaled = [&](std::int64_t n) {
    return parse_quantity(std::to_string(n / 1000) + "." +
                          std::to_string(1000 + n % 1000).substr(1) + unit);
  };
  RC_PRE(a >= 2000);
  RC_ASSERT(scaled(a).has_value() && scaled(b).has_value());
  RC_ASSERT(*scaled(a) <= *scaled(b));
}

RC_GTEST_PROP(Fraction, ReadsBackFromItsText, ()) {
  const auto nano = *rc::gen::inRange<std::int64_t>(1, kWholeNano.count());
  RC_ASSERT((parse_fraction(fraction_text(Nano{nano})) == Nano{nano}));
}

RC_GTEST_PROP(LeaseSize, ReadsBackFromItsText, ()) {
  const auto mib = *rc::gen::inRange<std::int64_t>(0, kMaxLeaseMib);
  RC_ASSERT((parse_lease_size(lease_size_text(Memory::mib(mib))) == Memory::mib(mib)));
}

RC_GTEST_PROP(Units, AnyBytesGiveAnAnswer, (const std::string& noise)) {
  const std::string alphabet = "0123456789.eE+-kMGTPEimunB x";
  std::string text = *rc::gen::arbitrary<bool>() ? noise : std::string();
  for (const auto index : *rc::gen::container<std::vector<std::size_t>>(
           rc::gen::inRange<std::size_t>(0, alphabet.size()))) {
    text += alphabet[index];
  }
  const auto answered = [](const auto& parsed) {
    return parsed.has_value() || !parsed.error().rule.empty();
  };
  RC_ASSERT(answered(parse_quantity(text)) && answered(parse_mib(text)));
  RC_ASSERT(answered(parse_fraction(text)) && answered(parse_fraction(text, kLimitFractionDigits)));
  RC_ASSERT(answered(parse_compute_share(text)) && answered(parse_count(text)));
  RC_ASSERT(answered(parse_cpu(text)) && answered(parse_ram(text)));
  RC_ASSERT(answered(parse_lease_size(text)));
}

TEST(Printable, KeepsTextAndEscapesTheRest) {
  EXPECT_EQ(printable("0.5"), "0.5");
  EXPECT_EQ(printable("größe"), "größe");
  EXPECT_EQ(printable(std::string_view("a\0b\n", 4)), "a\\x00b\\x0a");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_LT(printable(std::string(10'000, 'x')).size(), 100U);
}

TEST(Nearest, FindsTheWordThatWasMeant) {
  const std::vector<std::string_view> words{"gpu_memory", "gpu_fraction", "cpu", "ram"};
  EXPECT_EQ(nearest("gpu_memroy", words), "gpu_memory");
  EXPECT_EQ(nearest("gpumemory", words), "gpu_memory");
  EXPECT_EQ(nearest("cup", words), "cpu");
  EXPECT_EQ(nearest("banana", words), std::nullopt);
  EXPECT_EQ(nearest("", words), std::nullopt);
}

TEST(ReasonNames, AreDifferentAndReadBack) {
  for (std::size_t i = 0; i < kReasonCodes; ++i) {
    const auto code = static_cast<ReasonCode>(i);
    EXPECT_EQ(reason_from_name(reason_name(code)), code) << reason_name(code);
  }
}

}  // namespace
}  // namespace berth::request
