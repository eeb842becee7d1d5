// Package hooks runs the lifecycle handlers of containers for an agent: postStart handlers after
// a container has started, and preStop handlers before it is stopped.
//
// A Runner supports three kinds of handlers:
//
//	exec      a command in the container
//	httpGet   a GET request, by default to the pod's own address
//	sleep     a pause (KEP-3960)
//
// The API also has tcpSocket, which no kubelet implements. It fails with ErrUnsupported.
//
//	runner, err := hooks.New(hooks.Config{Exec: runtime, PodIPs: podIPs})
//	output, err := runner.Run(ctx, pod, container, id, container.Lifecycle.PreStop)
//
// Only the context bounds Run: pass the grace period of the container for preStop; postStart has
// no bound. The caller handles failures: a failed postStart stops the container, a failed preStop
// only causes an event.
//
// The output is for logs. It is cut to 10 KiB and is never part of an error, so that errors can
// become Kubernetes events, which many users can read.
//
// A Runner is safe for concurrent use. It keeps no connections or goroutines between calls.
//
// See ExampleRunner_Run in example_test.go.
package hooks
