// Package fake is a container runtime in memory: it implements cri.RuntimeService
// and cri.ImageService, in process or served over gRPC, and a container's program
// is a Go function. It is there to test what is built on a runtime, without root,
// images or processes. Package cri/embedded runs containers on it as plain processes
// of the host, for where no runtime is installed.
//
// # In a test
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
// A program gets its arguments, environment, standard streams and signals in a
// Process and returns the exit code; its context ends when it is killed. Time is
// that of package time, and nothing but programs and log files reaches outside,
// so a runtime lives in a testing/synctest bubble: ten minutes of grace take
// none. Log files are written only for sandboxes with a log_directory;
// Config.OpenLog keeps them in memory. Serve works on a Listener in a bubble, and
// on a unix socket outside.
//
// The behaviour is that of containerd 2 where it is strict: a name stays
// reserved until its container is removed, a sandbox loses its address when it is
// stopped, containers are started once, events carry the status of their pod.
// Errors have the gRPC codes NotFound, AlreadyExists, InvalidArgument,
// FailedPrecondition, Unimplemented and, where runtimes are no more precise,
// Unknown. Lists come oldest first; real runtimes promise no order.
//
// Where runtimes differ, or are lax, the answer is the strict one: an ID is the
// whole ID, though containerd takes a unique prefix of it; stopping what is
// unknown is NotFound; an empty ID is an error everywhere; a label holds 4096
// bytes with its key; a container comes with the config of its sandbox; the
// filter of ListImages has no effect. Package critest has the table of all
// differences. Image names are completed: "busybox" is
// "docker.io/library/busybox:latest".
//
// # Levers
//
// What a node and its containers do to a caller, from a container outwards:
//
//   - How a container ends: the exit code of its Program, KilledBy, OutOfMemory,
//     and Process.Explain for reason and message. A panic is exit code 2.
//   - How it fails to start: an error of the Resolver, such as ErrNotFound, or a
//     StartFailure; a Resolver that takes its time is a start that does.
//   - Who ends it from outside: Signal for a container, CrashSandbox for a pod.
//   - Its log: Config.OpenLog may fail, keep the lines, or be slow.
//   - Images: Config.Images and AnyImage are there; Registry has what can be
//     pulled, slowly, with credentials or not at all; Config.Pull is any code.
//   - Sessions: Config.Exec runs commands, Streams serves exec, attach and
//     port-forward (package cri/streams), Ports is what listens in pods.
//   - The network: UpdateRuntimeConfig, or FixedIPs for every pod.
//   - What Status says: SetCondition. Handlers are its RuntimeClasses.
//   - A runtime that has less: Unimplemented takes calls away, those of the
//     streaming lists too; with "GetContainerEvents" and "RuntimeConfig" it is a
//     containerd 1.6. Checkpoints gives it one more.
//   - The clock: ClockSkew, and SetClockSkew while it runs.
//   - The runtime's own end: Stop, Start and Restart, with its state, after a reboot
//     or with an empty disk (Loss), also over gRPC.
//   - Any call: Intercept sees it first and can delay or fail it. Rules select
//     calls by name, pod, container and count, or at random from a seed.
//
// # The caller's duties
//
//   - Close the runtime: it ends the programs and waits for
//     them. Programs must return when their context ends, and so must the
//     functions of Config that get one.
//   - Not change what Config points to while the runtime is in use.
//   - Not write into the labels and annotations of what calls return and of
//     events: the runtime shares them with all its replies.
//
// # What it does not do
//
// Exec, Attach and PortForward answer Unimplemented without Config.Streams:
// package cri/streams has the server for them. Nothing is measured or enforced:
// statistics and metrics are made up, resources only noted, and a checkpoint
// holds no state of a program. State is not kept over the end of the process.
// Mounts are data for the program (Process.HostPath), not mounts.
//
// Examples that run: ExampleRegistry in example_registry_test.go;
// ExampleNewRules in example_rules_test.go;
// ExampleRuntime_Serve in example_serve_test.go; Example in example_test.go;
// Example_virtualTime in example_virtualtime_test.go.
package fake
