"""The table of tools: which version, built from which module.

Pure data, apart from what acts on it (`build`, `Toolchain`), so that a version bump is a change of
one line here and of the folder's go.mod. Seconds were measured on two cores with nothing cached.
"""

from __future__ import annotations

from dataclasses import dataclass, field

KUBERNETES = "1.34.4"
PULUMI = "3.259.0"
# The newest whose module the Go proxy has; the SDK's own version is fetched by an ordinary Pulumi.
PULUMI_KUBERNETES = "4.25.0"
KIND = "0.33.0"
ETCD = "3.6.16"
VERSITYGW = "1.8.0"
CERT_MANAGER = "1.21.2"
ACTIONLINT = "1.7.12"
COREDNS = "1.14.7"
# Our own programs; their version is that of the client library they are built with.
NODE_OWN = f"0.{KUBERNETES.partition('.')[2]}"
KWOK = "0.7.0"
KSTATUS = "1.2.3"
HELM = "4.3.1"

_KUBERNETES_PROVIDER = "github.com/pulumi/pulumi-kubernetes/provider/v4"
_KUBERNETES_STAMP = " ".join(
    f"-X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor=1 -X {package}.gitMinor=34"
    f" -X {package}.gitTreeState=clean"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
)


@dataclass(frozen=True)
class Tool:
    """One executable that Kindling can find or build.

    `folder` holds the pinned go.mod and go.sum (and a main.go where upstream's does not build from a
    module zip); `package` is what `go build` is given. `module_files` are copied next to main.go first:
    (module, path inside it). `seconds` is the build time.
    """

    name: str
    version: str
    folder: str
    package: str
    seconds: float
    ldflags: str = ""
    module_files: tuple[tuple[str, str], ...] = ()
    companions: tuple[str, ...] = field(default=())


def _kubernetes(name: str, seconds: float) -> Tool:
    return Tool(
        name=name,
        version=KUBERNETES,
        folder="kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        seconds=seconds,
        ldflags=_KUBERNETES_STAMP,
    )


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="pulumi",
            version=PULUMI,
            folder="pulumi",
            package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
            seconds=230,
            ldflags=f"-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version={PULUMI}",
            companions=("pulumi-language-python",),
        ),
        Tool(
            # The last version of the host that lives in a module of its own right; it serves newer
            # engines. An ordinary Pulumi install brings its own and never comes here.
            name="pulumi-language-python",
            version="3.79.0",
            folder="pulumi-language-python",
            package="github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
            seconds=31,
        ),
        Tool(
            name="pulumi-resource-kubernetes",
            version=PULUMI_KUBERNETES,
            folder="pulumi-resource-kubernetes",
            package=".",
            seconds=400,
            ldflags=f"-X {_KUBERNETES_PROVIDER}/pkg/version.Version={PULUMI_KUBERNETES}",
            module_files=tuple(
                (_KUBERNETES_PROVIDER, f"cmd/pulumi-resource-kubernetes/{name}")
                for name in ("schema.json", "terraform-mapping.json")
            ),
        ),
        Tool(
            name="kind",
            version=KIND,
            folder="kind",
            package="sigs.k8s.io/kind",
            seconds=27,
        ),
        _kubernetes("kubectl", 75),
        _kubernetes("kube-apiserver", 136),
        _kubernetes("kube-controller-manager", 59),
        _kubernetes("kube-scheduler", 6),
        _kubernetes("kubelet", 19),
        _kubernetes("kubeadm", 16),
        _kubernetes("kube-proxy", 16),
        Tool(name="etcd", version=ETCD, folder="etcd", package="go.etcd.io/etcd/server/v3", seconds=30),
        Tool(name="coredns", version=COREDNS, folder="coredns", package=".", seconds=59),
        # The modules are Kubernetes' own, in its versions: after that is built, little is left to compile.
        Tool(name="node-network", version=NODE_OWN, folder="node-network", package=".", seconds=30),
        Tool(name="node-storage", version=NODE_OWN, folder="node-storage", package=".", seconds=10),
        # Nodes that only say what nodes say: for measurements, not for any cluster of ours.
        Tool(name="kwok", version=KWOK, folder="kwok", package="sigs.k8s.io/kwok/cmd/kwok", seconds=100),
        # Flux's and Helm's judgement of a status, and Argo CD's Lua: for tests alone.
        Tool(name="kstatus", version=KSTATUS, folder="kstatus", package=".", seconds=45),
        # GitHub's workflows, judged by their syntax, expressions and types.
        Tool(
            name="actionlint",
            version=ACTIONLINT,
            folder="actionlint",
            package="github.com/rhysd/actionlint/cmd/actionlint",
            seconds=15,
        ),
        # What installs the chart of a release: for tests alone.
        Tool(
            name="helm",
            version=HELM,
            folder="helm",
            package="helm.sh/helm/v4/cmd/helm",
            seconds=90,
            ldflags=f"-X helm.sh/helm/v4/internal/version.version=v{HELM}",
        ),
        # What issues certificates, for a thorough test alone.
        Tool(
            name="cert-manager-controller",
            version=CERT_MANAGER,
            folder="cert-manager-controller",
            package=".",
            seconds=270,
        ),
        # An S3 server over a folder: for tests, and as the image of a stack with `objectStore`.
        Tool(
            name="versitygw",
            version=VERSITYGW,
            folder="versitygw",
            package="github.com/versity/versitygw/cmd/versitygw",
            seconds=60,
        ),
    )
}

# What a node image is made of, in the order that puts the longest build first.
NODE_TOOLS = (
    "kube-apiserver",
    "kubectl",
    "kube-controller-manager",
    "kubelet",
    "kubeadm",
    "kube-proxy",
    "kube-scheduler",
    "etcd",
    "coredns",
    "node-network",
    "node-storage",
)
