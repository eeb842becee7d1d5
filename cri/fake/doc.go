// Package fake implements a container runtime in memory: cri.RuntimeService and cri.ImageService,
// in process or over gRPC. A container's program is a Go function. The package tests users of a
// runtime without root, images or processes. Package cri/embedded uses it to run containers as
// plain processes of the host.
//
// # Use in a test
//
//	rt, err := fake.New(fake.Config{
//		AnyImage: true,
//		Programs: fake.ByContainer(map[string]fake.Program{
//			"init": fake.Exit(0),
//			"app":  app, // func(ctx context.Context, p *fake.Process) int
//		}, fake.SleepUntilStopped),
//	})
//	defer rt.Close()
//
// A program gets its arguments, environment, standard streams and signals in a Process and returns
// the exit code; its context ends when it is killed. The runtime uses package time, and only
// programs and log files reach outside, so that it can live in a testing/synctest bubble: ten
// minutes of grace period take no time. Log files are written only for sandboxes with a
// log_directory; Config.OpenLog keeps them in memory. Serve works on a Listener in a bubble, and on
// a unix socket outside.
//
// The behaviour is modelled on containerd 2: a name stays reserved until its container is removed,
// a sandbox loses its address when it is stopped, containers are started once, events carry the
// status of their pod. Errors have the gRPC codes NotFound, AlreadyExists, InvalidArgument,
// FailedPrecondition, Unimplemented and, where runtimes are no more precise, Unknown. Lists are
// ordered oldest first; real runtimes promise no order.
//
// Where runtimes differ or are lax, the fake is strict: an ID is the whole ID, though containerd
// takes a unique prefix of it; stopping an unknown object is NotFound; an empty ID is always an
// error; a label has at most 4096 bytes with its key; CreateContainer requires the config of the
// sandbox; the filter of ListImages has no effect. Package critest has a table of all differences.
// Image names are completed: "busybox" becomes "docker.io/library/busybox:latest".
//
// # Conditions to simulate
//
//   - The end of a container: the exit code of its Program, KilledBy, OutOfMemory, and
//     Process.Explain for reason and message. A panic is exit code 2.
//   - A failed start: an error of the Resolver, such as ErrNotFound, or a StartFailure. A slow
//     Resolver makes the start slow.
//   - An end from outside: Signal for a container, CrashSandbox for a pod.
//   - Logs: Config.OpenLog may fail, keep the lines, or be slow.
//   - Images: Config.Images are present, with AnyImage all images. Config.Pull pulls others: by
//     default any name, with a Registry slowly, with credentials or not at all.
//   - Sessions: Config.Exec runs commands, Streams serves exec, attach and port-forward (package
//     cri/streams), Ports connects to ports of pods.
//   - The network: UpdateRuntimeConfig, or FixedIPs for every pod.
//   - The Status: SetCondition. Handlers are its RuntimeClasses.
//   - Missing calls: Unimplemented removes calls, including the streaming lists. Without
//     "GetContainerEvents" and "RuntimeConfig" the runtime resembles containerd 1.6. Checkpoints
//     adds a call.
//   - The clock: ClockSkew, and SetClockSkew at any time.
//   - The end of the runtime: Stop, Start and Restart, with its state, after a reboot or with an
//     empty disk (Loss), also over gRPC.
//   - Any call: Intercept runs before it and can delay or fail it. Rules select calls by name, pod,
//     container and count, or at random from a seed.
//
// # Requirements
//
//   - Close the runtime: it kills the programs and waits for them. Programs must return when their
//     context ends, and so must the functions of Config that get one.
//   - Do not change data that Config refers to while the runtime is in use.
//   - Do not write to the labels and annotations in results and events: all replies share them.
//
// A Runtime is safe for concurrent use.
//
// # Limits
//
// Exec, Attach and PortForward are Unimplemented without Config.Streams; package cri/streams has a
// server for them. Statistics and metrics are invented, resources are recorded but not enforced,
// and a checkpoint has no state of a program. The state is lost at the end of the process. Mounts
// are data for the program (Process.HostPath), not mounts. For a test of one or two calls, a stub
// of a small interface of package cri is simpler.
//
// These examples run: ExampleRegistry in example_registry_test.go; ExampleNewRules in
// example_rules_test.go; ExampleRuntime_Serve in example_serve_test.go; Example in example_test.go;
// Example_virtualTime in example_virtualtime_test.go.
package fake
