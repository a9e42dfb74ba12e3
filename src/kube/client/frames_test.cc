#include "kube/client/frames.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace berth::kube {
namespace {

std::string recorded(const std::string& name) {
  std::ifstream file(std::string(BERTH_SOURCE_DIR "/fuzz/corpus/frames_fuzz/") + name);
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_GT(text.str().size(), 1000U);
  return text.str();
}

std::vector<std::string> frames_of(const std::vector<std::string_view>& pieces) {
  std::vector<std::string> frames;
  FrameSplitter splitter;
  for (const std::string_view piece : pieces) {
    EXPECT_TRUE(splitter.feed(piece, [&](std::string_view frame) {
      frames.emplace_back(frame);
      return true;
    }));
  }
  EXPECT_EQ(splitter.unfinished(), 0U);
  return frames;
}

TEST(KubeFrames, AreTheSameWhereverTheBytesAreCut) {
  const std::string bytes = recorded("watch_of_pods");
  const std::vector<std::string> whole = frames_of({bytes});
  ASSERT_EQ(whole.size(), 9U);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view all(bytes);
    ASSERT_EQ(frames_of({all.substr(0, cut), all.substr(cut)}), whole) << "cut at " << cut;
  }
  std::vector<std::string_view> single;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    single.push_back(std::string_view(bytes).substr(i, 1));
  }
  EXPECT_EQ(frames_of(single), whole);
}

TEST(KubeFrames, TellTypeAndMetadata) {
  const std::vector<std::string> frames = frames_of({recorded("watch_of_pods")});
  std::string seen;
  for (const std::string& frame : frames) {
    const Result<FrameHead> head = read_frame_head(frame);
    ASSERT_TRUE(head.ok()) << frame;
    const Result<MetaHead> meta = read_meta_head(head->object);
    ASSERT_TRUE(meta.ok()) << frame;
    seen += std::string(head->type) + " " + std::string(meta->namespace_name) + "/" +
            std::string(meta->name) + "@" + std::string(meta->version) + "\n";
  }
  EXPECT_EQ(seen,
            "ADDED default/p1@242\nADDED default/p2@244\nBOOKMARK /@244\n"
            "MODIFIED default/p1@247\nMODIFIED default/p2@248\nDELETED default/p2@249\n"
            "ADDED default/p2@250\nBOOKMARK /@250\nBOOKMARK /@250\n");
}

TEST(KubeFrames, OfAnotherOrderOfMembersAreReadToo) {
  const Result<FrameHead> head = read_frame_head(
      R"( { "object" : {"metadata" : {"resourceVersion":"7","uid":"u","name":"n"}} )"
      R"( , "type":"ADDED"} )");
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->type, "ADDED");
  const Result<MetaHead> meta = read_meta_head(head->object);
  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->name, "n");
  EXPECT_EQ(meta->namespace_name, "");
  EXPECT_EQ(meta->version, "7");
}

TEST(KubeFrames, ThatAreNoneAreErrors) {
  for (const char* frame : {"", "x", "[]", "{}", "{\"type\":1,\"object\":{}}",
                            "{\"type\":\"ADDED\"}", "{\"type\":\"ADDED\",\"object\":7}",
                            "{\"type\":\"ADDED", "{\"type\":\"ADDED\\\",\"object\":{}}"}) {
    EXPECT_FALSE(read_frame_head(frame).ok()) << frame;
  }
  for (const char* object : {"", "{}", "[]", "{\"metadata\":7}", "{\"metadata\":{\"name\":\"x\"",
                             "{\"metadata\":{\"name\"}}"}) {
    EXPECT_FALSE(read_meta_head(object).ok()) << object;
  }
}

TEST(KubeFrames, LongerThanAnyObjectAreRefused) {
  FrameSplitter splitter;
  const std::string piece(std::size_t{1} << 20U, 'x');
  bool fine = true;
  for (int i = 0; i < 9 && fine; ++i) {
    fine = splitter.feed(piece, [](std::string_view) { return true; });
  }
  EXPECT_FALSE(fine);
}

struct ListRead {
  std::vector<std::string> items;
  std::string version;
  bool complete = false;
  bool ok = true;
};

ListRead read_list(const std::vector<std::string_view>& pieces) {
  ListRead read;
  ListSplitter splitter;
  for (const std::string_view piece : pieces) {
    read.ok =
        read.ok &&
        splitter.feed(piece, [&](std::string_view item) { read.items.emplace_back(item); }).ok();
  }
  read.version = splitter.resource_version();
  read.complete = splitter.complete();
  return read;
}

TEST(KubeLists, AreTheSameWhereverTheBytesAreCut) {
  const std::string bytes = recorded("list_of_pods");
  const ListRead whole = read_list({bytes});
  ASSERT_TRUE(whole.ok && whole.complete);
  ASSERT_EQ(whole.items.size(), 2U);
  EXPECT_EQ(whole.version, "250");
  EXPECT_EQ(read_meta_head(whole.items[1])->name, "p2");
  EXPECT_EQ(read_meta_head(whole.items[1])->namespace_name, "default");
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const std::string_view all(bytes);
    const ListRead read = read_list({all.substr(0, cut), all.substr(cut)});
    ASSERT_TRUE(read.ok && read.complete) << "cut at " << cut;
    ASSERT_EQ(read.items, whole.items) << "cut at " << cut;
    ASSERT_EQ(read.version, whole.version) << "cut at " << cut;
  }
}

TEST(KubeLists, MayBeEmptyAndInAnyOrder) {
  const ListRead first = read_list({R"({"items":[],"metadata":{"resourceVersion":"9"}})"});
  EXPECT_TRUE(first.ok && first.complete && first.items.empty());
  EXPECT_EQ(first.version, "9");
  const ListRead second =
      read_list({R"({"x":{"items":[1,{}]},"n":null,"b":true ,"items":[ {"a":"]}\\\""} , {} ],)",
                 R"("metadata":{"resourceVersion":"9","continue":""},"s":"}"})"});
  EXPECT_TRUE(second.ok && second.complete);
  EXPECT_EQ(second.items, (std::vector<std::string>{R"({"a":"]}\\\""})", "{}"}));
}

TEST(KubeLists, ThatEndEarlyAreNotComplete) {
  const std::string bytes = recorded("list_of_pods");
  const std::size_t end = bytes.rfind('}');
  for (std::size_t size = 0; size <= end; size += 7) {
    EXPECT_FALSE(read_list({std::string_view(bytes).substr(0, size)}).complete) << size;
  }
  EXPECT_FALSE(read_list({"<html>"}).ok);
  for (const char* text : {"{\"items\":[}]}", "{\"a\":}", "{\"items\":[{},:]]}", "{\"a\":,}"}) {
    const ListRead read = read_list({text});
    EXPECT_FALSE(read.ok && read.complete) << text;
  }
}

}  // namespace
}  // namespace berth::kube
