// Package hooks runs the lifecycle handlers of containers: what a pod's spec wants
// done after a container has started (postStart) and before it is stopped
// (preStop).
//
// A Runner knows the three kinds that Kubernetes has:
//
//	exec      a command in the container
//	httpGet   a GET request, by default to the pod's own address
//	sleep     a pause (KEP-3960)
//
// The fourth that the API can express, tcpSocket, was never implemented by any
// kubelet. It is refused with ErrUnsupported.
//
//	runner, err := hooks.New(hooks.Config{Exec: runtime, PodIPs: podIPs})
//	output, err := runner.Run(ctx, pod, container, id, container.Lifecycle.PreStop)
//
// # What the caller does
//
// Run ends when the handler does, and has no bound of its own: the context is all
// that bounds a hook. For preStop that is the grace period of the container, for
// postStart there is none. What a failure means is the caller's business as well: a
// failed postStart ends the container, a failed preStop is an event and no more.
//
// The output is for logs. It is cut to 10 KiB, and never part of an error, so that
// errors can become Kubernetes events, which many may read.
//
// A Runner keeps nothing between two calls: no connection, no goroutine.
//
// An example that runs: ExampleRunner_Run in example_test.go.
package hooks
