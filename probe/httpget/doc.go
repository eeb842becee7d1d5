// Package httpget executes httpGet probes: a container passes when it answers a GET
// request with a status from 200 to 399, completely and within the probe's timeout.
//
//	prober, err := httpget.New(httpget.Config{})
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.HTTPGet: prober},
//		...
//	})
//
// # The request
//
// The host is the handler's, or else the pod's address; the port is a number, the
// name of a port of the same container, or a number as text. The path may have a
// query; one that cannot be parsed is taken literally. Headers of the handler are
// added in their order, also several of one name; Host replaces the name that the
// server is asked for. Unless the handler has its own, the request carries
// "User-Agent: kube-probe/1.36" and "Accept: */*"; an empty one takes the header
// away.
//
// No proxy is used, whatever the environment says. Certificates are not verified:
// a pod is asked by its address, for which it hardly ever has one. Each probe makes
// a connection of its own, asks the server to close it, and leaves nothing behind.
// It speaks HTTP/1.1, also over TLS; a server that insists on HTTP/2 does not pass.
//
// # The answer
//
// Redirects are followed as long as they stay on the same host name, ten of them;
// scheme and port may change. One that leads elsewhere is not followed, and is a
// warning, which counts as a success: a pod cannot make the node send requests where
// it likes. Of the body at most 10 KiB are read, and nothing of it becomes part of a
// result, since results become events, which many may read.
//
// # What is no answer
//
// A port that cannot be found, a pod without an address, and a request that cannot
// be made from the handler are errors: nothing was learned then. So are a caller that
// gives up, and a node that has no more files or local ports. Everything else that
// goes wrong is a failure.
//
// An example that runs: Example in example_test.go.
package httpget
