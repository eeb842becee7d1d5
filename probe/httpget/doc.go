// Package httpget executes httpGet probes: a container passes if it responds to a GET request
// with a status from 200 to 399, completely and within the probe's timeout.
//
//	prober, err := httpget.New(httpget.Config{})
//	manager, err := probe.New(probe.Config{
//		Probers: map[probe.Handler]probe.Prober{probe.HTTPGet: prober},
//		...
//	})
//
// A Prober is safe for concurrent use.
//
// # Request
//
// The host is the handler's, by default the pod's address. The port is a number, the name of a
// port of the same container, or a number as text. The path may contain a query; an invalid path
// is used literally. Headers of the handler are added in their order, including several of one
// name. Host replaces the requested host name. By default the request contains "User-Agent:
// kube-probe/1.36" and "Accept: */*"; a header of the handler replaces them, or removes them if
// its value is empty.
//
// No proxy is used, regardless of the environment. Certificates are not verified, because they
// rarely contain the pod's address. Each probe makes its own connection, requests the server to
// close it, and closes it at the end. It uses HTTP/1.1, also over TLS; a server that requires
// HTTP/2 fails and needs package tcpsocket or grpc.
//
// # Response
//
// Up to ten redirects are followed within the same host name; scheme and port may change. A
// redirect to another host is not followed, so that a pod cannot make the node send requests to
// arbitrary hosts. It is a Warning, which counts as success, as is a status from 300 to 399
// without a new address. At most 10 KiB of the body are read; a longer one passes.
//
// The texts of warnings and failures are upstream's, with two differences: an error shows the
// URL of the probe, not of a redirect, and "no valid HTTP response" replaces the server's bytes.
// Results become events, which many users can read, so the body is part of a result only where
// it is in upstream: after a redirect to another host.
//
// # Errors
//
// An unknown port, a pod without an address, and an invalid request of the handler are errors
// without a verdict about the container. So are a cancelled caller, and a node without free files
// or local ports. All other problems are failures.
//
// Runnable example: Example in example_test.go.
package httpget
