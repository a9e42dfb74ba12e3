#include "net/sse.h"

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace berth::net {
namespace {

std::vector<std::string> read_all(std::string_view text, std::size_t piece) {
  SseReader reader;
  std::vector<std::string> events;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, piece);
    text.remove_prefix(part.size());
    reader.feed(part, [&](const SseEvent& event) {
      events.push_back(event.id + "|" + event.event + "|" + event.data);
      return true;
    });
  }
  return events;
}

TEST(Sse, ReadsWhatItWrites) {
  EXPECT_EQ(sse_text({.id = "4", .event = "granted", .data = "{}"}),
            "id: 4\nevent: granted\ndata: {}\n\n");
  EXPECT_EQ(sse_text({.data = "a\nb"}), "data: a\ndata: b\n\n");
  EXPECT_EQ(sse_text({.id = "a\nb", .data = ""}), "id: a b\ndata: \n\n");
}

TEST(Sse, ReadsTheStandardsExamples) {  // WHATWG HTML, 9.2.6
  EXPECT_EQ(read_all("data: YHOO\ndata: +2\ndata: 10\n\n", 100),
            (std::vector<std::string>{"||YHOO\n+2\n10"}));
  EXPECT_EQ(read_all(": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\n"
                     "data:  third event\n\n",
                     100),
            (std::vector<std::string>{"1||first event", "||second event", "|| third event"}));
  EXPECT_EQ(read_all("data\n\ndata\ndata\n\ndata:", 100), (std::vector<std::string>{"||", "||\n"}));
}

TEST(Sse, AnIdStandsUntilAnotherComes) {
  EXPECT_EQ(read_all("id: 1\ndata: a\n\ndata: b\n\n", 100),
            (std::vector<std::string>{"1||a", "1||b"}));
}

TEST(Sse, WhereThePiecesAreCutDoesNotMatter) {
  const std::string text =
      "id: 1\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\n: note\rdata: c\r\rdata: d\n\n";
  const std::vector<std::string> whole{"1|x|a\nb", "1||c", "1||d"};
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    EXPECT_EQ(read_all(text, piece), whole) << piece;
  }
}

TEST(Sse, StopsWhenItsReaderHasEnough) {
  SseReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.feed("data: a\n\ndata: b\n\n", [&](const SseEvent&) {
    ++seen;
    return false;
  }));
  EXPECT_EQ(seen, 1);
}

TEST(Sse, EveryTextComesBack) {
  EXPECT_TRUE(rc::check("write, read", [] {
    std::string data =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab\n: \xc3\xa4{}")));
    const std::string text = sse_text({.id = "7", .event = "e", .data = data});
    RC_ASSERT(read_all(text, *rc::gen::inRange<std::size_t>(1, 9)) ==
              (std::vector<std::string>{"7|e|" + data}));
  }));
}

}  // namespace
}  // namespace berth::net
