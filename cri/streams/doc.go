// Package streams serves the exec, attach and port-forward sessions of the fake runtime, and has a
// client for the sessions of any runtime.
//
// A runtime returns a URL from Exec, Attach and PortForward, and serves a session there over SPDY
// or WebSocket. Server does that for package fake with containerd's code (k8s.io/cri-streaming),
// so clients meet the real protocol. Client opens the URL, like an API server in a cluster. It is
// also the session client of the conformance suite in cri/critest.
//
//	server, err := streams.NewServer(streams.Config{Listener: listener})
//	rt, err := fake.New(fake.Config{Streams: server, Exec: commands, Ports: dialPort})
//	go server.Run(ctx, rt) // join it at the end
//
//	response, err := rt.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"date"}, Stdout: true})
//	code, err := new(streams.Client).Exec(ctx, response.Url, streams.Session{Stdout: os.Stdout})
//
// The listener may be TCP, a unix socket, or fake.Listen. With fake.Listen and Client.Dial all of
// it runs in a testing/synctest bubble.
//
// # Behaviour of sessions
//
// As in containerd, measured on 1.6 and 2.2:
//
//   - A URL is valid for one session, which must begin within a minute. Requests for an unknown or
//     stopped container, and requests without a stream, get no URL. A missing command or an unused
//     port is reported in the session, and so are later changes.
//   - A command is killed when its client disconnects, as in containerd 2; containerd 1.6 lets it
//     continue. A command whose container dies ends with exit code 137.
//   - An attached client receives output from that time on. A client that does not read blocks the
//     container until it disconnects or the container is killed. The end of its input ends its
//     session; with StdinOnce and without a terminal it ends the container's input instead.
//   - A WebSocket cannot send the end of input (protocol v4).
//   - A port-forward session reaches any port, independent of the request; over a WebSocket only the
//     requested ports. The end of the client's data is not forwarded. A second after one direction
//     has ended, the connection is closed.
//
// Unlike in containerd, a terminal of the fake neither echoes nor translates newlines (a host
// process has a real terminal), and the end of input on a terminal loses no output.
//
// # Concurrency
//
// Server and Client are safe for concurrent use.
//
// # Duties of callers
//
//   - Run the server, and close the runtime after Run has returned.
//   - Set the same streams in a Session as in the request for its URL.
//   - Read the streams: SPDY has one flow for all streams of a session.
//
// # Limits
//
// cri-streaming writes failures of sessions to klog's global logger, by default to standard error.
// Config.Logger does not receive them; a program can silence klog for the whole process with
// klog.SetLogger. An SPDY client that opens streams outside its request, such as a Stderr, makes
// cri-streaming leak a goroutine: a bubble then ends with "blocked goroutines remain".
//
// Examples that run: Example in example_test.go, and ExampleClient_Exec in kubeletapi_test.go.
package streams
