// What the server makes of bytes: HTTP/1.1 as it should be, and everything else.
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "net/net_test_support.h"
#include "net/request_parser.h"

namespace berth::net {
namespace {

// The whole conversation: sends, ends the sending side, reads until the server closes.
std::string talk(const Harbour& harbour, std::string_view bytes) {
  RawClient client(harbour.socket());
  client.send(bytes);
  client.half_close();
  return client.receive();
}

int status_of(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::stoi(answer.substr(9, 3)) : 0;
}

std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string_view::npos;
       at += part.size()) {
    ++count;
  }
  return count;
}

TEST(Protocol, AnswersPipelinedRequestsInTheirOrder) {
  const Harbour harbour(answer_ok);
  std::string requests;
  for (int i = 0; i < 200; ++i) {
    requests +=
        "POST /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
  }
  const std::string answer = talk(harbour, requests);
  EXPECT_EQ(count_of(answer, "HTTP/1.1 200 OK"), 200U);
  std::size_t at = 0;
  for (int i = 0; i < 200; ++i) {
    at = answer.find("POST /" + std::to_string(i) + " abc", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST(Protocol, AnswersOneByteAtATime) {
  const Harbour harbour(answer_ok);
  RawClient client(harbour.socket());
  for (const char c : std::string_view("\r\nPOST /a?b=c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "
                                       "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")) {
    ASSERT_TRUE(client.send({&c, 1}));
  }
  EXPECT_TRUE(client.receive("abcde").contains("POST /a abcde"));
}

TEST(Protocol, AnEmptyChunkedBodyMayComeOneByteAtATime) {  // Beast 1.81 would end the process
  for (const std::string_view rest : {"0\r\n\r\n", "0\r\nX: y\r\n\r\n", "000;a=b\r\n\r\n"}) {
    RequestParser parser({.header = 512, .body = 256});
    ASSERT_EQ(parser.feed("PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").state,
              RequestParser::State::head_done);
    std::string held;
    RequestParser::Step step;
    for (const char c : rest) {
      held += c;
      step = parser.feed(held);
      held.erase(0, step.consumed);
    }
    EXPECT_EQ(step.state, RequestParser::State::complete) << rest;
  }
}

TEST(Protocol, LeavesTheBodyOutOfTheAnswerToHead) {
  const Harbour harbour(answer_ok);
  const std::string answer =
      talk(harbour, "HEAD /x HTTP/1.1\r\nHost: x\r\n\r\nGET /y HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(count_of(answer, "HTTP/1.1 200 OK"), 2U) << answer;
  EXPECT_FALSE(answer.contains("GET /x")) << answer;
  EXPECT_EQ(count_of(answer, "Content-Length: 7"), 2U) << answer;
  EXPECT_TRUE(answer.contains("GET /y")) << answer;
}

TEST(Protocol, AStreamAskedForWithHeadEndsAfterItsHead) {
  const Harbour harbour([](const Request&, Reply reply) {
    const auto stream = reply.stream({.content_type = "text/event-stream"});
    stream->write("data: x\n\n");
  });
  const std::string answer = talk(harbour, "HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.ends_with("\r\n\r\n")) << answer;
  EXPECT_FALSE(answer.contains("data:")) << answer;
}

TEST(Protocol, TellsAClientThatAsksToSendItsBody) {
  const Harbour harbour(answer_ok);
  RawClient client(harbour.socket());
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_TRUE(client.receive("hi").contains("PUT / hi"));
}

TEST(Protocol, DoesNotAskForABodyThatIsTooLong) {
  const Harbour harbour(answer_ok);
  RawClient client(harbour.socket());
  client.send("PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\nExpect: 100-continue\r\n\r\n");
  const std::string answer = client.receive("}}\n");
  EXPECT_EQ(status_of(answer), 413) << answer;
  EXPECT_TRUE(answer.contains(R"("code":"too-large")")) << answer;
}

TEST(Protocol, TakesABodyOfExactlyTheLimitAndRefusesOneMore) {
  const Harbour harbour([](const Request& request, Reply reply) {
    reply.send({.body = std::to_string(request.body.size())});
  });
  Client client = harbour.client();
  const auto most = client.call({.method = "POST", .body = std::string(65536, 'x')});
  ASSERT_TRUE(most.ok()) << most.error().to_string();
  EXPECT_EQ(most->body, "65536");
  const auto more = client.call({.method = "POST", .body = std::string(65537, 'x')});
  ASSERT_TRUE(more.ok()) << more.error().to_string();
  EXPECT_EQ(more->status, 413);
  // A chunked one is refused when it exceeds the limit, not before.
  const std::string chunk = "8000\r\n" + std::string(0x8000, 'y') + "\r\n";
  const std::string answer =
      talk(harbour, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk +
                        chunk + "1\r\nz\r\n0\r\n\r\n");
  EXPECT_EQ(status_of(answer), 413) << answer;
}

TEST(Protocol, ACallMayHaveALimitOfItsOwnAndTheOthersKeepTheirs) {
  const Harbour harbour(
      [](const Request& request, Reply reply) {
        reply.send({.body = std::to_string(request.body.size())});
      },
      {.body_limits = {{.method = "POST", .path = "/large", .bytes = 300'000}}});
  const auto status = [&](const char* method, const char* target, std::size_t bytes) {
    const auto answer = harbour.client().call(
        {.method = method, .target = target, .body = std::string(bytes, 'x')});
    EXPECT_TRUE(answer.ok()) << answer.error().to_string();
    return answer.ok() ? answer->status : 0;
  };
  EXPECT_EQ(status("POST", "/large", 300'000), 200);
  EXPECT_EQ(status("POST", "/large?really=1", 300'000), 200);
  EXPECT_EQ(status("POST", "/large", 300'001), 413);
  EXPECT_EQ(status("PUT", "/large", 65'537), 413);
  EXPECT_EQ(status("POST", "/larger", 65'537), 413);
  EXPECT_EQ(status("POST", "/larger", 65'536), 200);
  const std::string chunk = "8000\r\n" + std::string(0x8000, 'y') + "\r\n";
  const auto chunked = [&](const char* target, int chunks) {
    std::string text =
        fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", target);
    for (int i = 0; i < chunks; ++i)
      text += chunk;
    return status_of(talk(harbour, text + "0\r\n\r\n"));
  };
  EXPECT_EQ(chunked("/large", 9), 200);
  EXPECT_EQ(chunked("/large", 10), 413);
  EXPECT_EQ(chunked("/other", 3), 413);
}

TEST(Protocol, SoManyLargeBodiesAtOnceAndNoMore) {
  const Harbour harbour(answer_ok,
                        {.body_limits = {{.method = "POST", .path = "/large", .bytes = 300'000}},
                         .most_large_bodies = 2});
  const std::string head = "POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n";
  RawClient first(harbour.socket());
  RawClient second(harbour.socket());
  for (RawClient* client : {&first, &second}) {
    client->send(head + "Expect: 100-continue\r\n\r\n");
    EXPECT_EQ(client->receive("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  }
  const std::string refused = talk(harbour, head + "\r\n");
  EXPECT_EQ(status_of(refused), 503) << refused;
  EXPECT_TRUE(refused.contains("Retry-After: 1\r\n")) << refused;
  // One that is complete makes room.
  first.send(std::string(100'000, 'x'));
  EXPECT_EQ(status_of(first.receive("\r\n\r\n")), 200);
  const auto again = harbour.client().call(
      {.method = "POST", .target = "/large", .body = std::string(100'000, 'x')});
  ASSERT_TRUE(again.ok()) << again.error().to_string();
  EXPECT_EQ(again->status, 200);
}

TEST(Protocol, AClientThatSendsMegabytesTooManyStillReadsWhy) {
  const Harbour harbour(answer_ok);
  const auto answer =
      harbour.client().call({.method = "POST", .body = std::string(std::size_t{900} * 1024, 'x')});
  ASSERT_TRUE(answer.ok()) << answer.error().to_string();
  EXPECT_EQ(answer->status, 413);
}

TEST(Protocol, RefusesHeadersBeyondTheLimitTogetherWithTheFirstLine) {
  const Harbour harbour(answer_ok);
  const std::string fits = "GET /" + std::string(8000, 'a') +
                           " HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(8000, 'b') + "\r\n\r\n";
  EXPECT_EQ(status_of(talk(harbour, fits)), 200);
  const std::string long_both = "GET /" + std::string(9000, 'a') +
                                " HTTP/1.1\r\nHost: x\r\nX-Long: " + std::string(9000, 'b') +
                                "\r\n\r\n";
  EXPECT_EQ(status_of(talk(harbour, long_both)), 431);
  EXPECT_EQ(status_of(talk(harbour, "GET /" + std::string(100'000, 'a'))), 431);
}

TEST(Protocol, RefusesWhatIsNoRequest) {
  struct Case {
    std::string_view bytes;
    int status;
  };
  const std::vector<Case> cases{
      {"hello\r\n\r\n", 400},
      {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400},
      {"GET / HTTP/2.0\r\nHost: x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},  // no Host
      {"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na",
       400},
      {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
      {"GET / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\na", 415},
      {"GET / HTTP/1.1\r\nHost: x\r\nExpect: 200-ok\r\n\r\n", 417},
      {"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /?a=%f HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"GET /%ff HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", 400},  // ends early
  };
  std::atomic<int> delivered = 0;
  const Harbour harbour([&](const Request&, Reply reply) {
    ++delivered;
    reply.send({});
  });
  for (const auto& [bytes, status] : cases) {
    const std::string answer = talk(harbour, bytes);
    EXPECT_EQ(status_of(answer), status) << bytes << " -> " << answer;
    EXPECT_TRUE(answer.contains(R"({"error":{"code":")")) << answer;
    EXPECT_TRUE(answer.contains("Connection: close")) << answer;
  }
  EXPECT_EQ(delivered, 0);
}

TEST(Protocol, AnswersAnHttp10ClientAndCloses) {
  const Harbour harbour(answer_ok);
  RawClient client(harbour.socket());
  client.send("GET /old HTTP/1.0\r\n\r\n");
  const std::string answer = client.receive();
  EXPECT_EQ(status_of(answer), 200);
  EXPECT_TRUE(answer.ends_with("GET /old ")) << answer;
}

TEST(Protocol, StreamsToAnHttp10ClientWithoutChunks) {
  const Harbour harbour([](const Request&, Reply reply) {
    reply.stream({.content_type = "text/plain"})->write("piece");
  });
  RawClient client(harbour.socket());
  client.send("GET / HTTP/1.0\r\n\r\n");
  const std::string answer = client.receive();
  EXPECT_TRUE(answer.ends_with("\r\n\r\npiece")) << answer;
  EXPECT_FALSE(answer.contains("chunked")) << answer;
}

TEST(Protocol, AHandlerCannotSmuggleHeaders) {
  const Harbour harbour([](const Request&, Reply reply) {
    reply.send({.headers = {{"X-Key", "a\r\nSet-Cookie: b"}}});
  });
  const std::string answer = talk(harbour, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(answer.contains("X-Key: a  Set-Cookie: b\r\n")) << answer;
}

TEST(Protocol, CarriesOutARequestWhoseSenderDoesNotWaitForTheAnswer) {
  std::atomic<int> delivered = 0;
  const Harbour harbour([&](const Request& request, Reply reply) {
    delivered += request.path == "/v1/release" ? 1 : 0;
    reply.send({});
  });
  for (int i = 0; i < 50; ++i) {
    RawClient client(harbour.socket());
    client.send("POST /v1/release HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}");
    client.close();
  }
  EXPECT_TRUE(eventually([&] { return delivered == 50; })) << delivered;
}

// The request that stands at the beginning of `bytes`, given in pieces; empty if there is none. How
// early a fault is noticed may depend on the cuts, so what else is there does not matter.
std::string parse_cut(const std::string& bytes, const std::vector<std::size_t>& cuts) {
  RequestParser parser({.header = 512, .body = 256});
  std::string held;
  std::size_t used = 0;
  std::size_t given = 0;
  for (std::size_t i = 0; given < bytes.size(); ++i) {
    const std::size_t size = i < cuts.size() ? cuts[i] + 1 : bytes.size();
    held += bytes.substr(given, size);
    given = std::min(given + size, bytes.size());
    RequestParser::Step step;
    do {
      step = parser.feed(held);
      held.erase(0, step.consumed);
      used += step.consumed;
    } while (step.state == RequestParser::State::head_done);
    if (step.state == RequestParser::State::complete) {
      const RequestHead& head = parser.head();
      return head.method + " " + head.target + " " + std::to_string(used) + parser.take_body();
    }
    if (step.state != RequestParser::State::head && step.state != RequestParser::State::body) break;
  }
  return {};
}

TEST(Protocol, TheCutsBetweenBytesDoNotMatter) {
  EXPECT_TRUE(rc::check("whole or in pieces", [] {
    const std::vector<std::string> parts{"GET ",
                                         "POST ",
                                         "/a?b ",
                                         "/ ",
                                         "HTTP/1.1\r\n",
                                         "HTTP/1.0\r\n",
                                         "Host: x\r\n",
                                         "Content-Length: 3\r\n",
                                         "Transfer-Encoding: chunked\r\n",
                                         "\r\n",
                                         "abc",
                                         "3\r\nabc\r\n",
                                         "0\r\n\r\n",
                                         "X: y\r\n z\r\n",
                                         "\r",
                                         "\n",
                                         ":",
                                         "\x80",
                                         std::string(1, '\0'),
                                         std::string(300, 'q')};
    const auto chosen = *rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(parts));
    std::string bytes = *rc::gen::element<std::string>(
        "", "GET /a HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const std::string& part : chosen) {
      bytes += part;
    }
    RC_PRE(!bytes.empty());
    const auto cuts =
        *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, 40));
    const std::string whole = parse_cut(bytes, {});
    RC_CLASSIFY(!whole.empty(), "a request");
    RC_ASSERT(parse_cut(bytes, cuts) == whole);
  }));
}

}  // namespace
}  // namespace berth::net
