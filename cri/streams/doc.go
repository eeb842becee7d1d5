// Package streams serves the exec, attach and port-forward sessions of the fake
// runtime, and has the client that opens such sessions on any runtime.
//
// A runtime answers Exec, Attach and PortForward with a URL, and serves a session
// there over SPDY or WebSocket. Server does that for package fake with the code
// that containerd uses (k8s.io/cri-streaming), so a client meets the real
// protocol. Client is what an API server is in a cluster: it opens the URL. It is
// also the session client of the conformance suite in cri/critest.
//
//	server, err := streams.NewServer(streams.Config{Listener: listener})
//	rt, err := fake.New(fake.Config{Streams: server, Exec: commands, Ports: dialPort})
//	go server.Run(ctx, rt) // join it at the end
//
//	response, err := rt.Exec(ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"date"}, Stdout: true})
//	code, err := new(streams.Client).Exec(ctx, response.Url, streams.Session{Stdout: os.Stdout})
//
// The listener may be TCP, a unix socket, or fake.Listen: with that all of it lives
// in a testing/synctest bubble, and Client.Dial connects to it.
//
// # What sessions are like
//
// As with containerd, measured on 1.6 and 2.2:
//
//   - A URL is good for one session, begun within a minute. An unknown container,
//     one that does not run, and a request for no stream are refused before;
//     that there is no such command, or that nothing listens on the port, shows in
//     the session. So does what has changed in between.
//   - A command whose client goes away is killed, as by containerd 2; containerd
//     1.6 lets it run on. One whose container dies ends with exit code 137.
//   - An attached client gets what is written from then on. One that does not read
//     holds the container up until it leaves or the container is killed. The end
//     of its input ends its session, and with StdinOnce but no terminal instead
//     the container's input.
//   - Over WebSocket the end of input cannot be told (protocol v4).
//   - Port-forward sessions go to any port, whichever the request named, but over
//     a WebSocket to those. That the client sends no more is not passed on; a
//     second after one direction has ended the connection is closed.
//
// Unlike with containerd, a terminal of the fake neither echoes nor translates
// newlines (a host process has a real one), and the end of input on a terminal,
// with which containerd loses output, loses none.
//
// # The caller's duties
//
//   - Run the server, and close the runtime after it has returned.
//   - Set in a Session what the request for its URL has asked for.
//   - Read the streams: SPDY has one flow for all streams of a session.
//
// cri-streaming writes what fails in a session to klog's global logger, that is to
// standard error. Config.Logger cannot get it; a program can silence it for
// itself as a whole with klog.SetLogger. A client over SPDY that opens streams it was
// not to open, such as one with a Stderr that the request did not ask for, makes it
// leave a goroutine behind: a bubble ends with "blocked goroutines remain" then.
//
// Examples that run: Example in example_test.go, and ExampleClient_Exec in
// kubeletapi_test.go.
package streams
