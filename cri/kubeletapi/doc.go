// Package kubeletapi serves the part of the kubelet API behind kubectl logs, exec, attach, cp and
// port-forward, as an http.Handler for agents: /containerLogs, /exec, /attach and /portForward.
//
//	api, err := kubeletapi.New(kubeletapi.Config{
//		Allow:   func(r *http.Request) error { ... },  // authorizes requests
//		Pods:    syncer,                               // finds containers: a podsyncer.Syncer, or your own
//		Runtime: runtime,                              // a cri.RuntimeService
//		Logs:    reader,                               // a logs.Reader
//	})
//	mux.Handle("/", api)
//
// An API server forwards kubectl's requests over TLS to the agent's address in its Node. Requests
// and responses are as in upstream kubelets:
//
//	GET      /containerLogs/NAMESPACE/POD/CONTAINER         follow, previous, timestamps, tailLines, limitBytes, sinceSeconds, sinceTime, stream
//	GET POST /exec/NAMESPACE/POD[/UID]/CONTAINER            command (one per word), input, output, error, tty
//	GET POST /attach/NAMESPACE/POD[/UID]/CONTAINER          input, output, error
//	GET POST /portForward/NAMESPACE/POD[/UID]               port, for WebSockets
//
// # Sessions
//
// A session begins with an upgrade of the connection. The handler requests the session's URL from
// the runtime and then copies all bytes between client and runtime. It therefore supports the
// runtime's protocols: SPDY, and with containerd WebSocket up to v4. kubectl tries WebSocket v5
// first. An API server of 1.30 or later terminates v5 itself and uses SPDY to all nodes that do
// not declare otherwise (status.features).
//
// A session ends when one of its sides ends, after IdleTimeout without traffic, or with the
// context of its request. The http.Server does not end hijacked connections: cancel its
// BaseContext.
//
// # Concurrency and limits
//
// The handler is safe for concurrent use. MaxSessions bounds the sum of sessions and log readers;
// another request gets status 429 with the limit in its text. A client that does not read delays
// only its own session, until IdleTimeout. The http.Server's ReadTimeout and WriteTimeout can be
// short: they do not apply to sessions and logs.
//
// # Duties of callers
//
// The caller provides TLS and authentication. Allow is called first for each request. Package
// streams (a separate module) has a client for tests. An agent without an API server needs no
// handler: it reads logs with package logs and runs commands with cri.Execer.
//
// Examples that run: Example in example_test.go, and ExampleClient_Exec of package streams for
// sessions.
package kubeletapi
