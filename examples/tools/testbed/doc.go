// Testbed prepares real container runtimes around a command, runs it, and
// takes everything down again:
//
//	go run ./examples/tools/testbed -- go test ./cri/...
//
// or tests the whole workspace:
//
//	go run ./examples/tools/testbed -all
//
// The command finds two runtimes side by side, containerd 1.x of Debian (which
// has no RuntimeConfig and no GetContainerEvents) and containerd 2.2.1 (which
// has both), an image registry, and a few images that both runtimes have
// already pulled. What is missing on the machine is fetched at the first start,
// which takes about a minute and a half; later starts take a few seconds.
//
// # Environment of the command
//
//	PODWRIGHT_REQUIRE_CRI      1: a test that needs a runtime fails rather than skips
//	PODWRIGHT_CRI_V1           CRI endpoint of containerd 1.x, unix:///...
//	PODWRIGHT_CRI_V2           CRI endpoint of containerd 2.x, unix:///...
//	PODWRIGHT_REGISTRY         127.0.0.1:PORT, plain http; tests may push to it
//	PODWRIGHT_IMAGE_PAUSE      the sandbox image
//	PODWRIGHT_IMAGE_BUSYBOX    busybox with its applets below /bin
//	PODWRIGHT_IMAGE_TESTPROG   testprog:v1; see testprog for what it can do
//	PODWRIGHT_IMAGE_TESTPROG2  testprog:v2, the same program as another image
//	PODWRIGHT_CTL              unix socket of the control endpoint
//	PODWRIGHT_PROGRAMS         with -all: folder of the kubelets that tests start
//	PODWRIGHT_TESTBED          id of this run; processes that carry it end with the run
//	PODWRIGHT_CONTROLPLANE     folder of the control plane, where there is one, and
//	KUBECONFIG                 its administrator's; see examples/tools/controlplane
//	TMPDIR                     a folder of the run, deleted with it, mounts included
//
// Go tests read them through package tb, which also sees to it that the test
// binaries of go test ./... use the runtimes one after the other.
//
// # Control plane
//
// With -controlplane there are a Kubernetes API server, controller manager and
// scheduler, too, which examples/tools/controlplane builds (some minutes, the first time),
// starts and ends. Go tests use them through package tb/controlplane.
//
// # All tests
//
// With -all the testbed tests every module of the repository, or the packages that are
// arguments, with the race detector. It builds each test program once. Packages that need
// no runtime are tested by go test at low priority. The others run beside them in lanes
// (-lanes). A lane is a testbed of its own, and starts a control plane when it needs one. A
// package needs a runtime if its tests import tb or internal/testkit/testcri, and a control plane
// if they import tb/controlplane, directly or not. docs/running-the-tests.md has the details.
//
// # Control endpoint
//
// HTTP over the unix socket: POST /v1/VERB and /v2/VERB, where VERB is stop
// (SIGTERM), kill (SIGKILL), pause (SIGSTOP), resume, or start, which returns
// once CRI answers. Pods survive the end of their runtime.
//
// # What a run touches
//
// Everything lies in one temporary folder: root, state, sockets, network
// namespaces, and the runtimes' logs, unless -logs DIR asks to keep those.
// Outside of it there are a bridge and a subnet per runtime, cgroups (below
// /k8s.io unless a pod names a parent), NAT rules for host ports where iptables
// works, and shim sockets in /run/containerd/s. All go at the end, also when the
// command crashed, on Ctrl-C, and, by a watchdog process, on kill -9; if that
// was killed too, at the next start. Only net.ipv4.ip_forward, which the bridge
// plugin turns on, stays. Several testbeds can run at the same time.
//
// Programs are kept in the user's cache folder, below podwright-testbed.
// Debian packages are unpacked there and not installed, so no service starts and
// nothing is replaced; only gcc and iptables are installed where they are missing.
//
// # Exit code
//
// The command's, with -all 1 if a test failed; or 128 and the signal that ended it; 2 for bad usage, 125 when
// the testbed could not be set up, 127 when the command could not be started.
// (go run itself reports 1 for each of these and prints the code.)
//
// Without root there are no runtimes: the testbed says so, and runs the command
// without these variables, so that tests skip what needs them.
package main
