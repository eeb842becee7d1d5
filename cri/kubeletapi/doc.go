// Package kubeletapi serves the part of the kubelet API that kubectl logs, exec, attach,
// cp and port-forward end at: /containerLogs, /exec, /attach and /portForward, as an
// http.Handler for agents of one's own.
//
//	api, err := kubeletapi.New(kubeletapi.Config{
//		Allow:   func(r *http.Request) error { ... },  // who may
//		Pods:    syncer,                               // which container: a podsyncer.Syncer, or your own
//		Runtime: runtime,                              // which runtime: a cri.RuntimeService
//		Logs:    reader,                               // a logs.Reader
//	})
//	mux.Handle("/", api)
//
// An API server that has the agent's address in its Node passes kubectl's requests on to
// these paths, over TLS. What it sends, and what it makes of the answers, is the wire
// behaviour of upstream kubelets:
//
//	GET      /containerLogs/NAMESPACE/POD/CONTAINER         follow, previous, timestamps, tailLines, limitBytes, sinceSeconds, sinceTime, stream
//	GET POST /exec/NAMESPACE/POD[/UID]/CONTAINER            command (one per word), input, output, error, tty
//	GET POST /attach/NAMESPACE/POD[/UID]/CONTAINER          input, output, error
//	GET POST /portForward/NAMESPACE/POD[/UID]               port, for WebSockets
//
// # Sessions
//
// A session is begun by an upgrade of the connection. The runtime is asked for the URL at
// which it serves the session, and from then on all bytes pass between client and runtime
// as they are, so the handler speaks what the runtime does: SPDY, and WebSocket up to v4
// with containerd. kubectl asks for WebSocket v5 first; an API server of 1.30 and later
// answers that itself and translates to SPDY towards all nodes that do not declare
// otherwise (status.features), so there is nothing to do here.
//
// A session ends when one of its sides does, when nothing has gone over it for
// IdleTimeout, or with the context of its request. The http.Server does not end what
// was taken over from it: cancel its BaseContext.
//
// # Limits
//
// Sessions and readers of logs are at most MaxSessions together; one more is answered
// with 429 and a sentence that says how many there may be. A client that does not read
// holds up its own session only, until IdleTimeout. The http.Server's ReadTimeout and
// WriteTimeout can be short: neither holds for what is served here.
//
// # The caller's duties
//
// TLS, and who clients are: Allow is asked about each request, before anything else.
// Package streams (a module of its own) has a client for tests.
//
// Examples that run: Example in example_test.go, and ExampleClient_Exec of package
// streams for sessions.
package kubeletapi
