// Package env names the environment variables that the testbed sets for its command and that
// package tb reads.
package env

const (
	// Run is the id of the testbed that a process belongs to.
	Run = "PODWRIGHT_TESTBED"
	// RequireCRI is "1" if tests without a runtime must fail and not skip.
	RequireCRI = "PODWRIGHT_REQUIRE_CRI"
	// CRIV1 is the CRI endpoint of containerd 1.x, with its unix:// scheme.
	CRIV1 = "PODWRIGHT_CRI_V1"
	// CRIV2 is the CRI endpoint of containerd 2.x, with its unix:// scheme.
	CRIV2 = "PODWRIGHT_CRI_V2"
	// Ctl is the path of the unix socket of the control endpoint.
	Ctl = "PODWRIGHT_CTL"
	// Registry is host:port of the local image registry.
	Registry = "PODWRIGHT_REGISTRY"
	// ImageBusybox is the full name of the busybox image.
	ImageBusybox = "PODWRIGHT_IMAGE_BUSYBOX"
	// ImagePause is the full name of the sandbox image.
	ImagePause = "PODWRIGHT_IMAGE_PAUSE"
	// ImageTestprog is the full name of testprog:v1.
	ImageTestprog = "PODWRIGHT_IMAGE_TESTPROG"
	// ImageTestprog2 is the full name of testprog:v2.
	ImageTestprog2 = "PODWRIGHT_IMAGE_TESTPROG2"
	// ControlPlane is the folder of the control plane, with its control endpoint.
	ControlPlane = "PODWRIGHT_CONTROLPLANE"
	// Programs is a folder with programs that tests start: kubelet and kubelet-race. Without it a
	// test builds the kubelet.
	Programs = "PODWRIGHT_PROGRAMS"
	// EveryRuntime is "1" if each test runs on each runtime. The user sets it and Turn.
	EveryRuntime = "PODWRIGHT_EVERY_RUNTIME"
	// Turn is a number that selects the runtime of a test without EveryRuntime.
	Turn = "PODWRIGHT_TURN"
)
