// Testbed prepares real container runtimes, runs a command with them, and removes them:
//
//	go run ./examples/tools/testbed -- go test ./cri/...
//
// or tests the whole workspace:
//
//	go run ./examples/tools/testbed -all
//
// The command has two runtimes: containerd 1.x of Debian, which has no RuntimeConfig and no
// GetContainerEvents, and containerd 2.2.1, which has both. It also has an image registry, and a
// few images that both runtimes have already pulled. The first start downloads programs that the
// machine lacks, which takes about a minute and a half. Later starts take a few seconds.
//
// # Environment of the command
//
//	PODWRIGHT_REQUIRE_CRI      1: a test that needs a runtime fails rather than skips
//	PODWRIGHT_CRI_V1           CRI endpoint of containerd 1.x, unix:///...
//	PODWRIGHT_CRI_V2           CRI endpoint of containerd 2.x, unix:///...
//	PODWRIGHT_REGISTRY         127.0.0.1:PORT, plain http; tests may push to it. The runtimes also
//	                           pull the images of docker.io and registry.k8s.io from it.
//	PODWRIGHT_IMAGE_PAUSE      the sandbox image
//	PODWRIGHT_IMAGE_BUSYBOX    busybox with its applets below /bin
//	PODWRIGHT_IMAGE_TESTPROG   testprog:v1; see testprog for its commands
//	PODWRIGHT_IMAGE_TESTPROG2  testprog:v2, the same program as another image
//	PODWRIGHT_CTL              unix socket of the control endpoint
//	PODWRIGHT_PROGRAMS         with -all: folder of the kubelets that tests start
//	PODWRIGHT_TESTBED          id of this run; processes that have it end with the run
//	PODWRIGHT_CONTROLPLANE     with a control plane: its folder
//	KUBECONFIG                 with a control plane: the administrator's kubeconfig
//	TMPDIR                     a folder of the run, deleted at its end, mounts included
//
// Go tests read them through package tb, which also gives the runtimes to one test binary of go
// test ./... at a time.
//
// # Control plane
//
// With -controlplane the testbed also starts a Kubernetes API server, controller manager and
// scheduler, with examples/tools/controlplane. The first start builds them, which takes some
// minutes. Go tests use them through package tb/controlplane.
//
// # All tests
//
// With -all the testbed tests every module of the repository, or the packages that are arguments,
// with the race detector. It builds each test program once. Packages that need no runtime are
// tested by go test at low priority. The others run beside them in lanes (-lanes). A lane is a
// testbed of its own, and starts a control plane when it needs one. A package needs a runtime if
// its tests import tb or internal/testkit/testcri, and a control plane if they import
// tb/controlplane, directly or not. docs/running-the-tests.md has the details.
//
// # Control endpoint
//
// HTTP over the unix socket: POST /v1/VERB and /v2/VERB. VERB is stop (SIGTERM), kill (SIGKILL),
// pause (SIGSTOP), resume, or start, which returns once CRI responds. Pods survive the end of
// their runtime.
//
// # Effects on the machine
//
// All files are in one temporary folder: root, state, sockets, network namespaces, and the
// runtimes' logs. -logs DIR keeps the logs in DIR. Outside of the folder a run has a bridge and a
// subnet per runtime, cgroups (below /k8s.io unless a pod names a parent), NAT rules for host
// ports where iptables works, and shim sockets in /run/containerd/s. The run removes all of these
// at its end, also after a crash of the command and on Ctrl-C. After a kill -9 a watchdog process
// removes them; if the watchdog was killed too, the next start does. Only net.ipv4.ip_forward,
// which the bridge plugin enables, stays changed. Several testbeds can run at the same time.
//
// Programs are kept in the user's cache folder, below podwright-testbed. Debian packages are
// unpacked there and not installed, so that no service starts and no installed program is
// replaced. Only gcc, iptables, a headless Chromium and dbus-daemon are installed if they are
// missing.
//
// # Exit code
//
// The exit code is the command's, or 128 plus the signal that ended it. With -all it is 1 if a
// test failed. It is 2 for bad usage, 125 if the testbed could not be set up, and 127 if the
// command could not be started. go run itself exits with 1 for each of these and prints the code.
//
// Without root there are no runtimes. The testbed then logs this and runs the command without
// these variables, so that tests skip.
package main
