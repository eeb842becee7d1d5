// Package cri is the Container Runtime Interface (runtime.v1): the interfaces,
// cut small, and a client for a runtime behind a unix socket.
//
// # Interfaces
//
// RuntimeService and ImageService join one interface per concern: sandboxes,
// containers, exec, stats, events and so on. Code that needs a part declares that
// part (a log rotator needs a ContainerReader and a LogReopener), so that it can
// be handed a fake, a wrapper or a client alike. Optional calls answer with an
// error that IsUnimplemented recognises.
//
// # The client
//
//	runtime, err := cri.DialRuntime(ctx, cri.ClientConfig{Endpoint: "/run/crio/crio.sock"})
//	if err != nil {
//		return err // runtime unix:///run/crio/crio.sock: Version: Unavailable: ... no such file or directory
//	}
//	defer runtime.Close()
//	pods, err := runtime.ListPodSandbox(ctx, nil)
//
// DialImages does the same for the ImageService. Dialling makes one call to see
// that a CRI runtime is there. Afterwards the client connects again by itself,
// with 100ms to 3s between attempts: while the runtime is away, calls fail at once
// with code Unavailable, and once it is back they work. Nothing is retried.
//
// Every call has a deadline besides the caller's context, in terms of
// ClientConfig.RequestTimeout (T, by default 2m):
//
//	RunPodSandbox                    2T
//	StopContainer                    T + grace
//	ExecSync                         T + timeout; none if timeout is zero
//	CheckpointContainer              the larger of T and the request's timeout
//	PullImage, GetContainerEvents    none
//	all others                       T
//
// A failed call returns a *CallError, which names endpoint, call and what the
// call was about, keeps the gRPC status, and tells the caller's cancellation from
// the client's deadline and from what the runtime says. Replies without what the
// CRI makes mandatory are errors too (*ReplyError), so callers need not check for
// empty IDs. A reply of more than 16 MiB fails with ErrReplyTooLarge;
// ClientConfig.StreamLists avoids that for lists, on runtimes that can. A request
// that is too large for the runtime fails with ErrRequestTooLarge.
//
// # Around the client
//
// HealthMonitor polls Status and answers whether runtime and network are ready.
// CgroupDriver asks the runtime which cgroup driver to use. ParseEndpoint
// checks an endpoint without connecting.
//
// # What callers do
//
// Close clients. Give PullImage, GetContainerEvents and ExecSync without timeout
// a context that ends. Subscribe again when GetContainerEvents returns, and list
// what was missed in between. Treat NotFound from stop and remove calls as done.
//
// # What this package does not do
//
// It starts no pods (package cri/pods does), reads no logs (cri/logs), and does
// not speak the streaming protocols behind the URLs of Exec, Attach and
// PortForward. It does not know docker, Windows pipes or CRI v1alpha2.
//
// Examples that run: Example, ExampleDialRuntime_absent and ExampleHealthMonitor in
// example_test.go.
package cri
