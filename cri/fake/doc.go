// Package fake is a container runtime in memory: it implements cri.RuntimeService
// and cri.ImageService, in process or served over gRPC, and a container's program
// is a Go function. It is there to test what is built on a runtime, without root,
// images or processes, and to run pods as plain host processes where no runtime
// is installed.
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
// Config.OpenLog keeps them in memory. Serve works over bufconn in a bubble, and
// over a unix socket outside.
//
// The behaviour is that of containerd 2 where it is strict: a name stays
// reserved until its container is removed, a sandbox loses its address when it is
// stopped, containers are started once, events carry the status of their pod.
// Config.NoEvents and Config.NoRuntimeConfig make it a containerd 1.6. Errors have
// the gRPC codes NotFound, AlreadyExists, InvalidArgument, FailedPrecondition,
// Unimplemented and, where runtimes are no more precise, Unknown. Lists come
// oldest first; real runtimes promise no order.
//
// Config.Intercept sees each call first and can delay or fail it. Signal,
// CrashSandbox and SetCondition are what happens to a node without a call.
//
// # Host processes
//
// NewEmbedded makes a runtime whose containers are plain processes of the host,
// and HostProcess is the Resolver behind it. They isolate nothing and need no
// root, and all processes end with the agent, also when it is killed with
// SIGKILL: each command runs under a small supervisor, which is the agent's own
// executable started again. Therefore such a program's main begins with
//
//	if fake.RunSupervisor() {
//		return
//	}
//
// and so does the TestMain of a test that uses them. They need Linux.
//
// # The caller's duties
//
//   - Close the runtime, or have Run do it: it ends the programs and waits for
//     them. Programs must return when their context ends.
//   - Not change what Config points to while the runtime is in use.
//
// # What it does not do
//
// Exec, Attach and PortForward, checkpoints and metrics answer Unimplemented.
// Nothing is measured or enforced: statistics are made up, resources only noted.
// State is not kept over a restart. Mounts are data for the program
// (Process.HostPath), not mounts.
package fake
