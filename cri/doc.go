// Package cri provides interfaces for the Container Runtime Interface (runtime.v1) and a gRPC
// client for a runtime behind a unix socket.
//
// # Interfaces
//
// RuntimeService and ImageService embed one small interface per concern: sandboxes, containers,
// exec, stats, events and more. Code declares only the interfaces that it needs (a log rotator
// needs a ContainerReader and a LogReopener). A fake, a wrapper and a client are then
// interchangeable. Rules for every method:
//
//   - It is safe for concurrent use. It neither keeps nor changes an argument after it returns.
//   - Returned messages belong to the caller, except for their maps (labels, annotations), which
//     are read-only: an in-process implementation shares them between replies.
//   - The context bounds the call. An implementation may add deadlines, such as the client's below.
//   - Errors of the runtime keep their gRPC status, wrapped or not: status.Code, IsNotFound and
//     IsUnimplemented (the runtime lacks an optional call) work on them.
//   - Stopping a stopped object and removing an absent one succeeds or returns NotFound. A caller
//     treats both as success.
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
// DialImages does the same for the ImageService. Both make one call to check for a CRI runtime.
// Afterwards the client reconnects by itself, 100 ms to 3 s between attempts. While the runtime is
// away, calls fail at once with code Unavailable. Calls are never retried: after a deadline or a
// broken connection the runtime may have executed the call. Clients are safe for concurrent use.
//
// Every call has a deadline in addition to the caller's context. T is ClientConfig.RequestTimeout
// (default: 2 min):
//
//	RunPodSandbox                    2T
//	StopContainer                    T + grace
//	ExecSync                         T + timeout; none if timeout is zero
//	CheckpointContainer              the larger of T and the request's timeout
//	PullImage, GetContainerEvents    none
//	all others                       T
//
// A failed call returns a *CallError with the endpoint, the call, its object and the gRPC status.
// It distinguishes the caller's cancellation, the client's deadline and errors of the runtime. A
// reply without a mandatory field is an error too (*ReplyError), so callers need not check for
// empty IDs. A reply of more than 16 MiB or 40,000 entries fails with ErrReplyTooLarge;
// ClientConfig.StreamLists permits lists of 32 MiB if the runtime supports it. A request that exceeds
// the runtime's limit fails with ErrRequestTooLarge.
//
// # Around the client
//
// HealthMonitor polls Status and reports whether runtime and network are ready. CgroupDriver reads
// the cgroup driver from the runtime. ParseEndpoint checks an endpoint without connecting.
//
// # Duties of callers
//
// Close clients. Call PullImage, GetContainerEvents and ExecSync without timeout only with a
// context that ends. When GetContainerEvents returns, subscribe again and list the containers,
// because events were missed meanwhile.
//
// # Limits
//
// Starting pods is in package cri/pods, reading logs in cri/logs. A runtime in the same process,
// such as cri/fake, needs no client. The streaming protocols behind the URLs of Exec, Attach and
// PortForward are not part of this package. Docker, Windows pipes and CRI v1alpha2 are not
// supported.
//
// Examples that run: Example, ExampleDialRuntime_absent and ExampleHealthMonitor in
// example_test.go.
package cri
