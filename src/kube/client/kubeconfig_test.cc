#include "kube/client/kubeconfig.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/client/access.h"

namespace berth::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kBase = R"(
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: c1, user: u1, namespace: team}}
- {name: bare, context: {cluster: c1, user: ""}}
- {name: lost, context: {cluster: nowhere, user: u1}}
clusters:
- {name: c1, cluster: {server: "https://10.0.0.1:6443/prefix/"}}
users:
- {name: u1, user: {token: sesame}}
)";

Result<Access> read(const std::string& text, const std::string& context = "") {
  return read_kubeconfig({{.path = "/etc/k/config", .text = text}}, context);
}

std::string with(std::string text, const std::string& old, const std::string& fresh) {
  const std::size_t at = text.find(old);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, old.size(), fresh);
}

std::string user(const std::string& fields) { return with(kBase, "token: sesame", fields); }
std::string cluster(const std::string& fields) {
  return with(kBase, "server: \"https://10.0.0.1:6443/prefix/\"", fields);
}

std::string refusal(const std::string& text, const std::string& context = "") {
  const Result<Access> access = read(text, context);
  EXPECT_FALSE(access.ok());
  const std::string message = access.ok() ? "" : access.error().to_string();
  EXPECT_THAT(message, Not(HasSubstr("sesame")));
  return message;
}

TEST(Kubeconfig, GivesServerUserAndNamespaceOfTheCurrentContext) {
  const Result<Access> access = read(kBase);
  ASSERT_TRUE(access.ok()) << access.error().to_string();
  EXPECT_EQ(access->server, "https://10.0.0.1:6443/prefix");
  EXPECT_EQ(access->identity.token, "sesame");
  EXPECT_EQ(access->namespace_name, "team");
  EXPECT_EQ(access->origin, "context \"dev\" of /etc/k/config");
  const Result<Access> bare = read(kBase, "bare");
  ASSERT_TRUE(bare.ok());
  EXPECT_EQ(bare->namespace_name, "default");
  EXPECT_TRUE(bare->identity.token.empty());
}

TEST(Kubeconfig, OfSeveralFilesTheFirstWins) {
  const ConfigFile first{.path = "/a/config",
                         .text =
                             "users:\n- {name: u1, user: {tokenFile: t}}\n"
                             "clusters: []\n"};
  const ConfigFile second{.path = "/b/config", .text = kBase};
  const ConfigFile third{
      .path = "/c/config",
      .text = "current-context: other\nclusters:\n- {name: c1, cluster: {server: https://x}}\n"};
  const Result<Access> access = read_kubeconfig({first, second, third}, "");
  ASSERT_TRUE(access.ok()) << access.error().to_string();
  EXPECT_EQ(access->server, "https://10.0.0.1:6443/prefix");
  EXPECT_EQ(access->identity.token_file, "/a/t") << "from the folder of its own file";
  EXPECT_EQ(access->identity.token, "") << "an entry counts as a whole";
}

TEST(Kubeconfig, InlineDataWinsOverPaths) {
  const Result<Access> access = read(
      user("client-certificate-data: Y2VydA==, client-certificate: x.crt, client-key-data: a2V5, "
           "client-key: x.key"));
  ASSERT_TRUE(access.ok()) << access.error().to_string();
  EXPECT_EQ(access->identity.certificate_pem, "cert");
  EXPECT_EQ(access->identity.key_pem, "key");
  EXPECT_EQ(access->identity.certificate_file, "");
  EXPECT_EQ(access->identity.key_file, "");
}

TEST(Kubeconfig, ReadsAnExecPluginAndImpersonation) {
  std::ifstream file(BERTH_SOURCE_DIR "/fuzz/corpus/kubeconfig_fuzz/exec");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const Result<Access> access = read(text);
  ASSERT_TRUE(access.ok()) << access.error().to_string();
  EXPECT_EQ(access->ca_pem, "foo");
  EXPECT_EQ(access->tls_server_name, "kubernetes.default.svc");
  const Identity& identity = access->identity;
  ASSERT_TRUE(identity.exec.has_value());
  EXPECT_EQ(identity.exec->command, "/etc/k/./bin/get-token");
  EXPECT_EQ(identity.exec->arguments, (std::vector<std::string>{"--cluster", "c"}));
  EXPECT_EQ(identity.exec->environment.front().second, "b");
  EXPECT_TRUE(identity.exec->provide_cluster_info);
  EXPECT_EQ(identity.as_user, "someone");
  EXPECT_EQ(identity.as_groups, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(identity.as_extra.front().second, "view");
}

TEST(Kubeconfig, RefusesInOneSentenceThatSaysWhatToDo) {
  EXPECT_EQ(refusal(kBase, "prod"),
            "/etc/k/config has no context \"prod\"; it has: dev, bare, lost");
  EXPECT_EQ(refusal(kBase, "lost"),
            "/etc/k/config has no cluster \"nowhere\", which context \"lost\" names; it has: c1");
  EXPECT_EQ(refusal(with(kBase, "current-context: dev", "")),
            "/etc/k/config names no current context; choose one with `kubectl config use-context "
            "NAME`");
  EXPECT_THAT(refusal(user("auth-provider: {name: gcp}")),
              HasSubstr("user \"u1\" uses auth-provider \"gcp\", which Kubernetes has removed; use "
                        "the exec plug-in of your provider, or a token"));
  EXPECT_THAT(refusal(user("client-certificate: x.crt")),
              HasSubstr("user \"u1\" has a client certificate without its key"));
  EXPECT_THAT(refusal(user("client-key-data: '?'")), HasSubstr("is not base64"));
  EXPECT_THAT(refusal(cluster("server: 'https://x', certificate-authority: ca.crt")),
              HasSubstr("/etc/k/ca.crt cannot be read: No such file or directory"));
  EXPECT_THAT(refusal(cluster("server: 'ftp://x'")), HasSubstr("is no http(s) address"));
  EXPECT_THAT(refusal(cluster("proxy-url: 'http://p'")), HasSubstr("is not given"));
  EXPECT_THAT(refusal(cluster("server: 'https://x', insecure-skip-tls-verify: true, "
                              "certificate-authority-data: Zm9v")),
              HasSubstr("remove one of them"));
  EXPECT_THAT(refusal(cluster("server: 'https://x', insecure-skip-tls-verify: perhaps")),
              HasSubstr("must be true or false"));
  EXPECT_THAT(refusal("{"), HasSubstr("/etc/k/config:1"));
  EXPECT_THAT(refusal("[]"), HasSubstr("is no kubeconfig"));
  EXPECT_THAT(refusal(""), HasSubstr("is empty"));
}

TEST(Kubeconfig, RefusesPluginsThatCannotWork) {
  const std::string v1 = "apiVersion: client.authentication.k8s.io/v1";
  EXPECT_THAT(refusal(user("exec: {" + v1 + ", command: x}")), HasSubstr("needs interactiveMode"));
  EXPECT_THAT(refusal(user("exec: {" + v1 + ", command: x, interactiveMode: Always}")),
              HasSubstr("wants a terminal"));
  EXPECT_THAT(
      refusal(user("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}")),
      HasSubstr("bring the plug-in up to date"));
  EXPECT_THAT(refusal(user("exec: {" + v1 + ", interactiveMode: Never}")),
              HasSubstr("names no command"));
}

TEST(Kubeconfig, RefusesHeadersInsideImpersonation) {
  EXPECT_THAT(refusal(user(R"(token: sesame, as: "me\r\nX-Evil: 1")")),
              HasSubstr("control character"));
}

struct KubeAccess : testing::Test {
  KubeAccess() {
    std::string name = testing::TempDir() + "berth-access-XXXXXX";
    folder = mkdtemp(name.data());
    environment.get = [this](std::string_view variable) -> std::optional<std::string> {
      const auto found = variables.find(std::string(variable));
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    environment.service_account_folder = folder + "/sa";
  }
  ~KubeAccess() override { std::filesystem::remove_all(folder); }

  std::string put(const std::string& name, const std::string& text) const {
    const std::string path = folder + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }

  std::string folder;
  std::map<std::string, std::string> variables;
  Environment environment;
};

TEST_F(KubeAccess, ComesFromTheFlagThenTheListThenThePodThenHome) {
  const std::string flag = put("flag", kBase);
  variables["HOME"] = folder;
  EXPECT_FALSE(find_access({}, environment).ok());
  put(".kube/config", with(kBase, "team", "home"));
  EXPECT_EQ(find_access({}, environment)->namespace_name, "home");
  put("sa/token", "t\n");
  put("sa/ca.crt", "ca");
  put("sa/namespace", "pod\n");
  variables["KUBERNETES_SERVICE_HOST"] = "fd00::1";
  variables["KUBERNETES_SERVICE_PORT"] = "443";
  const Result<Access> pod = find_access({}, environment);
  ASSERT_TRUE(pod.ok()) << pod.error().to_string();
  EXPECT_EQ(pod->namespace_name, "pod");
  EXPECT_EQ(pod->server, "https://[fd00::1]:443");
  EXPECT_EQ(pod->identity.token_file, folder + "/sa/token");
  variables["KUBECONFIG"] = folder + "/not-there:" + put("list", with(kBase, "team", "list"));
  EXPECT_EQ(find_access({}, environment)->namespace_name, "list");
  EXPECT_EQ(find_access({.kubeconfig = flag}, environment)->namespace_name, "team");
}

TEST_F(KubeAccess, SaysWhatIsMissing) {
  EXPECT_EQ(find_access({}, environment).error().message(),
            "no cluster is configured: give --kubeconfig FILE, set KUBECONFIG, or run in a pod "
            "with a service account");
  EXPECT_EQ(find_access({.kubeconfig = "/no/such"}, environment).error().message(),
            "/no/such cannot be read: No such file or directory");
  variables["KUBECONFIG"] = "/no/such:/nor/this";
  EXPECT_EQ(find_access({}, environment).error().message(),
            "there is no kubeconfig at /no/such, /nor/this");
  variables.erase("KUBECONFIG");
  variables["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
  EXPECT_THAT(find_access({}, environment).error().message(),
              HasSubstr("set automountServiceAccountToken: true on the pod"));
}

}  // namespace
}  // namespace berth::kube
