#include "cli/container_words.h"

#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string rewritten(const std::string& line, const ContainerGrant& grant = {}) {
  const auto command = rewrite_container(words_of(line), grant);
  return command.ok() ? fmt::format("{}", fmt::join(command->words, " "))
                      : "refused: " + command.error().message();
}

const ContainerGrant kGrant{
    .uuids = {"GPU-1"},
    .environment = {{"NVIDIA_VISIBLE_DEVICES", "GPU-1"}, {"CUDA_VISIBLE_DEVICES", "0"}},
    .grant_directory = "/s/grants/l-1",
    .guard_library = "/lib/libberth_guard.so",
    .id_file = "/tmp/id"};

TEST(ContainerWords, GiveDockerTheGrantedDeviceVariablesAndGuard) {
  EXPECT_EQ(rewritten("docker run --rm img cmd", kGrant),
            "docker run --gpus device=GPU-1 -e NVIDIA_VISIBLE_DEVICES=GPU-1 -e "
            "CUDA_VISIBLE_DEVICES=0 -e LD_PRELOAD=/run/berth/libberth_guard.so "
            "-v /lib/libberth_guard.so:/run/berth/libberth_guard.so:ro "
            "-v /s/grants/l-1:/run/berth/grant:ro "
            "-v /s/grants/l-1/account:/run/berth/grant/account:rw --cidfile /tmp/id --rm img cmd");
}

TEST(ContainerWords, NameSeveralDevicesWithinQuotes) {
  EXPECT_EQ(rewritten("docker run img", {.uuids = {"GPU-1", "GPU-2"}, .environment = {}}),
            "docker run --gpus \"device=GPU-1,GPU-2\" img");
}

TEST(ContainerWords, GivePodmanDevicesByNameWhereTheMachineHasThem) {
  EXPECT_EQ(rewritten("podman run img",
                      {.uuids = {"GPU-1", "MIG-2"}, .environment = {}, .device_names = true}),
            "podman run --device nvidia.com/gpu=GPU-1 --device nvidia.com/gpu=MIG-2 img");
  EXPECT_EQ(rewritten("podman run img", {.uuids = {"GPU-1"}, .environment = {}}), "podman run img");
}

TEST(ContainerWords, LeaveOutWhatAsksForGpus) {
  const auto command = rewrite_container(
      words_of("docker run --gpus all --gpus=2 -e NVIDIA_VISIBLE_DEVICES=all --env "
               "CUDA_VISIBLE_DEVICES=1 --env=BERTH_LEASE_ID=l-0 -eCUDA_VISIBLE_DEVICES "
               "--device nvidia.com/gpu=all -e A=NVIDIA_VISIBLE_DEVICES=all img"),
      {});
  ASSERT_TRUE(command.ok());
  EXPECT_THAT(command->words,
              ElementsAre("docker", "run", "-e", "A=NVIDIA_VISIBLE_DEVICES=all", "img"));
  EXPECT_EQ(command->notes.size(), 7U);
  EXPECT_EQ(command->notes[0], "--gpus all was left out: the container gets what its lease grants");
}

TEST(ContainerWords, LeaveTheProgramsOwnWordsAlone) {
  EXPECT_EQ(rewritten("docker run img --gpus all --privileged -d"),
            "docker run img --gpus all --privileged -d");
  EXPECT_EQ(rewritten("podman run -- img --privileged"), "podman run img --privileged");
}

TEST(ContainerWords, KnowWhereTheImageStands) {
  // Values that look like options, letters in one word, values attached to letters.
  EXPECT_EQ(rewritten("docker run --name --privileged -itv/a:/b -w/x -p 80:80 --init img -d"),
            "docker run --name --privileged -i -t -v /a:/b -w /x -p 80:80 --init img -d");
  EXPECT_EQ(rewritten("/usr/bin/podman --log-level debug container run -it img"),
            "/usr/bin/podman --log-level debug container run -i -t img");
}

TEST(ContainerWords, RefuseWhatWouldWidenTheGrant) {
  const auto refused = [](const std::string& options, const std::string& why) {
    EXPECT_THAT(rewritten("docker run " + options + " img"),
                testing::AllOf(testing::StartsWith("refused: "), HasSubstr(why)))
        << options;
  };
  refused("--privileged", "every GPU");
  refused("--privileged=true", "every GPU");
  refused("--device /dev/nvidia0", "not granted");
  refused("--device=/dev/nvidiactl:/dev/x:rwm", "not granted");
  refused("--device /dev/dri/renderD128", "not granted");
  refused("--device-cgroup-rule c_195:*_rmw", "other GPUs");
  refused("-v /dev:/dev", "devices of the machine");
  refused("-v /:/host", "devices of the machine");
  refused("--mount type=bind,src=/dev,dst=/d", "devices of the machine");
  refused("-v /x:/run/berth/grant", "limit is read from");
  refused("--mount type=tmpfs,target=/run", "limit is read from");
  refused("-d", "end the lease");
  refused("-itd", "end the lease");
  refused("--cgroups=no-conmon", "cgroup");
  refused("-X", "write its long form");
  refused("--name", "names no image");
  EXPECT_THAT(rewritten("docker -H tcp://other run img"), HasSubstr("another machine"));
  EXPECT_THAT(rewritten("docker --context=other run img"), HasSubstr("another machine"));
  EXPECT_THAT(rewritten("docker ps"), HasSubstr("takes a command that runs a container"));
  EXPECT_THAT(rewritten("python train.py"), HasSubstr("knows docker and podman, not \"python\""));
}

TEST(ContainerWords, KeepWhatDoesNotMatter) {
  for (const std::string options : {"--device /dev/fuse", "-v /data:/data:ro", "--privileged=false",
                                    "--detach=false", "--cgroups=enabled", "--shm-size 1g"})
    EXPECT_EQ(rewritten("docker run " + options + " img"), "docker run " + options + " img");
}

TEST(ContainerWords, PutAUsersPreloadBehindTheGuard) {
  EXPECT_THAT(rewritten("docker run -e LD_PRELOAD=/mine.so img", kGrant),
              HasSubstr("-e LD_PRELOAD=/run/berth/libberth_guard.so:/mine.so"));
  EXPECT_EQ(rewritten("docker run -e LD_PRELOAD=/mine.so img"),
            "docker run -e LD_PRELOAD=/mine.so img");
}

TEST(ContainerWords, UseAUsersIdFile) {
  const auto command = rewrite_container(words_of("podman run --cidfile /my/id img"), kGrant);
  ASSERT_TRUE(command.ok());
  EXPECT_EQ(command->id_file, "/my/id");
  EXPECT_FALSE(command->own_user_names);
  EXPECT_TRUE(
      rewrite_container(words_of("podman run --userns keep-id img"), kGrant)->own_user_names);
}

TEST(ContainerWords, KnowWhoStartsContainers) {
  EXPECT_EQ(started_engine(words_of("docker run img")), "docker");
  EXPECT_EQ(started_engine(words_of("/usr/bin/podman --log-level=x container run img")), "podman");
  EXPECT_EQ(started_engine(words_of("docker compose up")), "docker");
  EXPECT_EQ(started_engine(words_of("docker ps")), "");
  EXPECT_EQ(started_engine(words_of("docker build run")), "");
  EXPECT_EQ(started_engine(words_of("python run")), "");
  EXPECT_EQ(started_engine({}), "");
  EXPECT_THAT(started_engine({"docker"}), IsEmpty());
}

}  // namespace
}  // namespace berth::cli
