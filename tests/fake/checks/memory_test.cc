// Every family of memory: what it takes, and that it comes back.
#include <nlohmann/json.hpp>

#include "fake/checks/machine.h"

namespace berth::fake::checks {
namespace {

using client::all_families;
using client::Family;
using client::Session;

TEST(FakeMemory, EveryFamilyTakesItsBytesAndGivesThemBack) {
  const Machine machine("1x16GiB", {"--driver", "580"});
  machine.client([] {
    Session session = open_session();
    for (const Family& family : all_families()) {
      SCOPED_TRACE(family.name);
      const std::size_t before = free_memory(session);
      ASSERT_EQ(take(session, family, 64 * kMiB), 0);
      const std::size_t taken = before - free_memory(session);
      if (family.counted) {
        const std::size_t wanted = std::string(family.name) == "context" ? 128 * kMiB : 64 * kMiB;
        EXPECT_GE(taken, wanted);
        EXPECT_LE(taken, wanted + 32 * kMiB);
      } else {
        EXPECT_EQ(taken, 0U);
      }
      EXPECT_EQ(give_back_all(session), 0);
      EXPECT_EQ(free_memory(session), before);
    }
  });
  EXPECT_EQ(machine.used(), 0U);
}

TEST(FakeMemory, EveryFamilyIsRefusedWithTwoOnAFullCard) {
  const Machine machine("1x2GiB", {"--driver", "580"});
  machine.client([] {
    Session session = open_session();
    ASSERT_EQ(take(session, *client::family_named("linear"), free_memory(session)), 0);
    ASSERT_EQ(free_memory(session), 0U);
    for (const Family& family : all_families()) {
      SCOPED_TRACE(family.name);
      EXPECT_EQ(take(session, family, 8 * kMiB), family.counted ? kOutOfMemory : 0);
    }
  });
}

// By the rule of each family, to the byte.
TEST(FakeMemory, PhysicalSizesAreExact) {
  const Machine machine("1x16GiB", {"--driver", "580", "--context-bytes", "0"});
  machine.client([] {
    Session session = open_session();
    const auto cost = [&](auto deed) {
      const std::size_t before = free_memory(session);
      EXPECT_EQ(deed(), 0);
      return before - free_memory(session);
    };
    client::Pointer pointer = 0;
    client::Handle handle = nullptr;
    std::size_t pitch = 0;
    EXPECT_EQ(cost([&] { return session.calls.cuMemAlloc_v2(&pointer, 1); }), 512U);
    EXPECT_EQ(cost([&] { return session.calls.cuMemAlloc_v2(&pointer, 513); }), 1024U);
    EXPECT_EQ(cost([&] { return session.calls.cuMemAllocPitch_v2(&pointer, &pitch, 100, 10, 4); }),
              5120U);
    EXPECT_EQ(pitch, 512U);
    const client::ArrayShape flat{.width = 100, .height = 3, .format = 0x20, .channels = 4};
    EXPECT_EQ(cost([&] { return session.calls.cuArrayCreate_v2(&handle, &flat); }), 5120U);
    client::Array3dShape shape{
        .width = 16, .height = 16, .depth = 4, .format = 0x01, .channels = 1, .flags = 0};
    EXPECT_EQ(cost([&] { return session.calls.cuArray3DCreate_v2(&handle, &shape); }), 1024U);
    shape.flags = 0x40;  // sparse: no memory of its own
    EXPECT_EQ(cost([&] { return session.calls.cuArray3DCreate_v2(&handle, &shape); }), 0U);
    shape = {.width = 64, .height = 64, .depth = 0, .format = 0x20, .channels = 1, .flags = 0};
    // 64x64, 32x32, 16x16 floats.
    EXPECT_EQ(cost([&] { return session.calls.cuMipmappedArrayCreate(&handle, &shape, 3); }),
              (4096U + 1024U + 256U) * 4U);
    EXPECT_EQ(cost([&] { return session.calls.cuMemAllocAsync(&pointer, 1, nullptr); }), 2 * kMiB);
    EXPECT_EQ(cost([&] { return session.calls.cuMemAllocAsync(&pointer, kMiB, nullptr); }), 0U);
    // Stack: every thread of every multiprocessor.
    EXPECT_EQ(cost([&] { return session.calls.cuCtxSetLimit(0, 2048); }), 1024U * 108U * 2048U);
    EXPECT_EQ(cost([&] { return session.calls.cuCtxSetLimit(2, 8 * kMiB + 512); }), 512U);
  });
}

TEST(FakeMemory, FamiliesAddUpInTheDump) {
  const Machine machine("1x16GiB", {"--driver", "580"});
  const Signal ready;
  const Signal done;
  const pid_t pid = machine.start([&] {
    Session session = open_session();
    for (const Family& family : all_families())
      EXPECT_EQ(take(session, family, 8 * kMiB), 0);
    ready.send();
    EXPECT_TRUE(done.wait());
  });
  ASSERT_TRUE(ready.wait());
  const nlohmann::json process = dump_of(machine)["devices"][0]["processes"][0];
  std::uint64_t sum = 0;
  for (const auto& [name, bytes] : process["families"].items())
    sum += bytes.get<std::uint64_t>();
  EXPECT_EQ(process["families"].size(), 10U) << process;
  EXPECT_EQ(sum, process["held"].get<std::uint64_t>());
  EXPECT_EQ(sum, machine.used());
  EXPECT_EQ(process["pid"].get<int>(), pid);
  done.send();
  EXPECT_EQ(wait_for(pid), 0);
  EXPECT_EQ(machine.used(), 0U);
}

TEST(FakeMemory, AMappingKeepsTheMemoryOfAReleasedHandle) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    ASSERT_EQ(take(session, *client::family_named("mapped"), 64 * kMiB), 0);
    EXPECT_EQ(before - free_memory(session), 64 * kMiB);
    client::Pointer retained = 0;
    ASSERT_EQ(session.calls.cuMemRetainAllocationHandle(
                  &retained, reinterpret_cast<void*>(session.held[0].pointer)),
              0);
    EXPECT_EQ(give_back_all(session), 0);
    EXPECT_EQ(before - free_memory(session), 64 * kMiB) << "a retained handle counts as well";
    EXPECT_EQ(session.calls.cuMemRelease(retained), 0);
    EXPECT_EQ(free_memory(session), before);
    EXPECT_NE(session.calls.cuMemRelease(retained), 0) << "the handle is gone";
  });
}

TEST(FakeMemory, HostMemoryByHandleIsNotTheDevices) {
  const Machine machine("2x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    client::Pointer handle = 0;
    for (const int type : {2, 3, 4}) {
      const client::AllocationProperties properties{.location = {.type = type, .id = 0}};
      EXPECT_EQ(session.calls.cuMemCreate(&handle, 64 * kMiB, &properties, 0), 0);
    }
    const client::AllocationProperties other{.location = {.type = 1, .id = 1}};
    EXPECT_EQ(session.calls.cuMemCreate(&handle, 64 * kMiB, &other, 0), 0);
    EXPECT_EQ(free_memory(session), before) << "another device's memory is not this one's";
  });
}

TEST(FakeMemory, DestroyingAContextFreesWhatWasAllocatedInIt) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    client::Handle other = nullptr;
    ASSERT_EQ(session.calls.cuCtxCreate_v2(&other, 0, 0), 0);
    for (const char* family :
         {"linear", "pitched", "managed", "array", "mipmap", "module", "heap"}) {
      ASSERT_EQ(take(session, *client::family_named(family), 16 * kMiB), 0) << family;
    }
    client::Pointer handle = 0;
    const client::AllocationProperties properties;
    ASSERT_EQ(session.calls.cuMemCreate(&handle, 16 * kMiB, &properties, 0), 0);
    ASSERT_EQ(session.calls.cuCtxDestroy_v2(other), 0);
    ASSERT_EQ(session.calls.cuCtxSetCurrent(session.context), 0);
    EXPECT_EQ(before - free_memory(session), 16 * kMiB) << "physical handles outlive contexts";
    EXPECT_EQ(session.calls.cuMemRelease(handle), 0);
    EXPECT_EQ(free_memory(session), before);
  });
}

TEST(FakeMemory, PrimaryContextsAreCounted) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    client::Handle primary = nullptr;
    client::Handle again = nullptr;
    ASSERT_EQ(session.calls.cuDevicePrimaryCtxRetain(&primary, 0), 0);
    ASSERT_EQ(session.calls.cuDevicePrimaryCtxRetain(&again, 0), 0);
    EXPECT_EQ(primary, again);
    EXPECT_EQ(before - free_memory(session), 128 * kMiB);
    EXPECT_EQ(session.calls.cuDevicePrimaryCtxRelease_v2(0), 0);
    EXPECT_EQ(before - free_memory(session), 128 * kMiB);
    EXPECT_EQ(session.calls.cuDevicePrimaryCtxRelease_v2(0), 0);
    EXPECT_EQ(free_memory(session), before);
    EXPECT_NE(session.calls.cuDevicePrimaryCtxRelease_v2(0), 0);
  });
}

TEST(FakeMemory, WrongArgumentsChangeNothing) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const std::size_t before = free_memory(session);
    client::Pointer pointer = 0x1234;
    EXPECT_EQ(session.calls.cuMemAlloc_v2(&pointer, 0), 1);
    EXPECT_EQ(session.calls.cuMemAlloc_v2(nullptr, 1), 1);
    EXPECT_EQ(session.calls.cuMemAlloc_v2(&pointer, std::size_t{1} << 63), kOutOfMemory);
    EXPECT_EQ(session.calls.cuMemAlloc_v2(&pointer, SIZE_MAX), kOutOfMemory);
    EXPECT_EQ(pointer, 0x1234U) << "a refused call writes nothing";
    EXPECT_EQ(session.calls.cuMemFree_v2(0), 0);
    EXPECT_EQ(session.calls.cuMemFree_v2(0xDEADBEEF000), 1);
    EXPECT_EQ(session.calls.cuMemAllocPitch_v2(&pointer, nullptr, 1, 1, 4), 1);
    EXPECT_EQ(session.calls.cuMemCreate(&pointer, kMiB, nullptr, 0), 1);
    EXPECT_EQ(session.calls.cuArrayDestroy(&session), 400);
    EXPECT_EQ(session.calls.cuMemGetInfo_v2(nullptr, nullptr), 1);
    EXPECT_EQ(free_memory(session), before);
    ASSERT_EQ(session.calls.cuMemAlloc_v2(&pointer, kMiB), 0);
    EXPECT_EQ(session.calls.cuMemFree_v2(pointer + 512), 1) << "not where the block begins";
    EXPECT_EQ(session.calls.cuMemFree_v2(pointer), 0);
    EXPECT_EQ(session.calls.cuMemFree_v2(pointer), 1) << "freed before";
  });
}

TEST(FakeMemory, PoolsKeepMemoryUntilSynchronised) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    client::Handle pool = nullptr;
    ASSERT_EQ(session.calls.cuDeviceGetDefaultMemPool(&pool, 0), 0);
    const auto attribute = [&](int number) {
      std::uint64_t value = 0;
      EXPECT_EQ(session.calls.cuMemPoolGetAttribute(pool, number, &value), 0);
      return value;
    };
    constexpr int kReserved = 5;
    constexpr int kUsed = 7;
    client::Pointer pointer = 0;
    ASSERT_EQ(session.calls.cuMemAllocAsync(&pointer, 5 * kMiB, session.stream), 0);
    EXPECT_EQ(attribute(kReserved), 6 * kMiB);
    EXPECT_EQ(attribute(kUsed), 5 * kMiB);
    client::Handle owner = nullptr;
    ASSERT_EQ(session.calls.cuPointerGetAttribute(&owner, 17, pointer), 0);
    EXPECT_EQ(owner, pool);
    ASSERT_EQ(session.calls.cuMemFreeAsync(pointer, session.stream), 0);
    EXPECT_EQ(attribute(kUsed), 0U);
    EXPECT_EQ(attribute(kReserved), 6 * kMiB) << "nothing was synchronised yet";
    ASSERT_EQ(session.calls.cuStreamSynchronize(session.stream), 0);
    EXPECT_EQ(attribute(kReserved), 0U);
    std::uint64_t threshold = 4 * kMiB;
    ASSERT_EQ(session.calls.cuMemPoolSetAttribute(pool, 4, &threshold), 0);
    ASSERT_EQ(session.calls.cuMemAllocAsync(&pointer, 9 * kMiB, session.stream), 0);
    ASSERT_EQ(session.calls.cuMemFreeAsync(pointer, session.stream), 0);
    ASSERT_EQ(session.calls.cuCtxSynchronize(), 0);
    EXPECT_EQ(attribute(kReserved), 4 * kMiB) << "the release threshold stays";
    ASSERT_EQ(session.calls.cuMemPoolTrimTo(pool, 0), 0);
    EXPECT_EQ(attribute(kReserved), 0U);
    EXPECT_EQ(attribute(6), 10 * kMiB) << "the high-water mark";
  });
}

TEST(FakeMemory, GraphMemoryIsTakenAtLaunchAndKeptUntilTrimmed) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    const client::Calls& calls = session.calls;
    const std::size_t before = free_memory(session);
    client::Handle graph = nullptr;
    client::Handle node = nullptr;
    client::Handle exec = nullptr;
    client::AllocationNode allocation;
    allocation.bytes = 10 * kMiB;
    ASSERT_EQ(calls.cuGraphCreate(&graph, 0), 0);
    ASSERT_EQ(calls.cuGraphAddMemAllocNode(&node, graph, nullptr, 0, &allocation), 0);
    ASSERT_EQ(calls.cuGraphInstantiateWithFlags(&exec, graph, 0), 0);
    client::Handle second = nullptr;
    EXPECT_NE(calls.cuGraphInstantiateWithFlags(&second, graph, 0), 0)
        << "a graph with memory nodes has one executable at a time";
    EXPECT_EQ(free_memory(session), before) << "nothing was launched yet";
    ASSERT_EQ(calls.cuGraphLaunch(exec, session.stream), 0);
    EXPECT_EQ(before - free_memory(session), 10 * kMiB);
    EXPECT_NE(calls.cuGraphLaunch(exec, session.stream), 0) << "its memory was not freed";
    ASSERT_EQ(calls.cuMemFree_v2(allocation.pointer), 0);
    EXPECT_EQ(before - free_memory(session), 10 * kMiB) << "freed, but still reserved";
    ASSERT_EQ(calls.cuGraphLaunch(exec, session.stream), 0);
    EXPECT_EQ(before - free_memory(session), 10 * kMiB);
    ASSERT_EQ(calls.cuMemFree_v2(allocation.pointer), 0);
    ASSERT_EQ(calls.cuGraphExecDestroy(exec), 0);
    ASSERT_EQ(calls.cuGraphDestroy(graph), 0);
    ASSERT_EQ(calls.cuDeviceGraphMemTrim(0), 0);
    EXPECT_EQ(free_memory(session), before);
  });
}

TEST(FakeMemory, CopiesKeepTheirContent) {
  const Machine machine("1x16GiB");
  machine.client([] {
    Session session = open_session();
    std::vector<unsigned char> sent(3 * kMiB);
    for (std::size_t place = 0; place < sent.size(); ++place) {
      sent[place] = static_cast<unsigned char>(place * 31 + place / 257);
    }
    std::vector<unsigned char> got(sent.size());
    client::Pointer first = 0;
    client::Pointer second = 0;
    ASSERT_EQ(session.calls.cuMemAlloc_v2(&first, sent.size()), 0);
    ASSERT_EQ(take(session, *client::family_named("mapped"), sent.size()), 0);
    second = session.held[0].pointer;
    EXPECT_EQ(session.calls.cuMemcpyHtoD_v2(first, sent.data(), sent.size()), 0);
    EXPECT_EQ(session.calls.cuMemcpyDtoD_v2(second, first, sent.size()), 0);
    EXPECT_EQ(session.calls.cuMemcpyDtoH_v2(got.data(), second, got.size()), 0);
    EXPECT_EQ(sent, got);
    EXPECT_EQ(session.calls.cuMemsetD32_v2(first, 0x01020304, 4), 0);
    EXPECT_EQ(session.calls.cuMemcpyDtoH_v2(got.data(), first, 20), 0);
    EXPECT_EQ(got[0], 4);
    EXPECT_EQ(got[15], 1);
    EXPECT_EQ(got[16], sent[16]);
    EXPECT_EQ(session.calls.cuMemcpyHtoD_v2(first + 512, sent.data(), sent.size()), 1)
        << "beyond the end";
  });
}

}  // namespace
}  // namespace berth::fake::checks
