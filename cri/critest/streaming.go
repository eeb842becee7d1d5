package critest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/podwright/podwright/cri/fake"
)

func streamingCases() []testCase {
	return []testCase{
		{"exec: a command's streams and its exit code come over the session", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			var stdout, stderr capture
			url := e.execURL(id, writesBoth, &runtimeapi.ExecRequest{Stdout: true, Stderr: true})
			code, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdout: &stdout, Stderr: &stderr})
			require.NoError(e.t, err)
			require.Equal(e.t, 3, code)
			require.Equal(e.t, "out\n", stdout.text())
			require.Equal(e.t, "err\n", stderr.text())
		})},
		{"exec: input reaches the command, and its end too", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			input := strings.Repeat("0123456789\n", 20000)
			var stdout capture
			url := e.execURL(id, echoes, &runtimeapi.ExecRequest{Stdin: true, Stdout: true})
			code, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdin: strings.NewReader(input), Stdout: &stdout})
			require.NoError(e.t, err)
			require.Equal(e.t, 5, code)
			require.True(e.t, input == stdout.text(), "%d bytes of %d", len(stdout.text()), len(input))
		})},
		// The input stays open: some runtimes lose the output of a terminal after the end of its
		// input.
		{"exec: a terminal has one output", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			stdin, _ := io.Pipe()
			var stdout capture
			url := e.execURL(id, writesBoth, &runtimeapi.ExecRequest{Stdin: true, Stdout: true, Tty: true})
			code, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdin: stdin, Stdout: &stdout, TTY: true})
			require.NoError(e.t, err)
			require.Equal(e.t, 3, code)
			require.Equal(e.t, "out\nerr\n", stdout.text())
		})},
		{"exec: a terminal has the size that the client sends", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			stdin, _ := io.Pipe()
			sizes := make(chan fake.TerminalSize, 1)
			sizes <- fake.TerminalSize{Width: 77, Height: 33}
			var stdout capture
			url := e.execURL(id, measures, &runtimeapi.ExecRequest{Stdin: true, Stdout: true, Tty: true})
			result := e.async(func() error {
				code, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdin: stdin, Stdout: &stdout, TTY: true, Resize: sizes})
				if code != 4 {
					return errors.Join(err, errors.New("the terminal never had the second size"))
				}
				return err
			})
			e.requireOutput(&stdout, "first")
			sizes <- fake.TerminalSize{Width: 88, Height: 44}
			require.NoError(e.t, <-result)
		})},
		{"exec: a missing command ends the session with an error", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			response, err := e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"critest-no-such-command"}, Stdout: true})
			e.optional("Exec", err)
			require.NoError(e.t, err)
			_, err = e.Sessions.Exec(e.ctx, response.GetUrl(), fake.Session{Stdout: io.Discard})
			e.reported(err)
		})},
		{"exec: a URL is good for one session", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			url := e.execURL(id, blanks, &runtimeapi.ExecRequest{Stdout: true})
			_, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdout: io.Discard})
			require.NoError(e.t, err)
			var second capture
			_, err = e.Sessions.Exec(e.ctx, url, fake.Session{Stdout: &second})
			require.Error(e.t, err)
			require.Empty(e.t, second.text())
		})},
		{"exec: a client that leaves does not disturb the container", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			ctx, cancel := context.WithCancel(e.ctx)
			defer cancel()
			var stdout capture
			url := e.execURL(id, steady, &runtimeapi.ExecRequest{Stdout: true})
			result := e.async(func() error {
				_, err := e.Sessions.Exec(ctx, url, fake.Session{Stdout: &stdout})
				return err
			})
			e.requireOutput(&stdout, "line 30\n")
			cancel()
			require.ErrorIs(e.t, <-result, context.Canceled)
			require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			_, _, err := e.exec(id, blanks, execTime)
			require.NoError(e.t, err)
		})},
		{"exec: the session ends with the container", withClient(func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			var stdout capture
			url := e.execURL(id, steady, &runtimeapi.ExecRequest{Stdout: true})
			result := e.async(func() error {
				code, err := e.Sessions.Exec(e.ctx, url, fake.Session{Stdout: &stdout})
				if err == nil && code == 0 {
					return errors.New("a command that was killed ended with code 0")
				}
				return nil
			})
			e.requireOutput(&stdout, "line 30\n")
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			require.NoError(e.t, <-result)
			require.NoError(e.t, e.ctx.Err())
		})},
		{"exec and attach: a request without streams, or with a terminal's stderr, is refused", func(e *env) {
			id := e.ready(e.newPod(), "main", quits)
			for _, request := range []*runtimeapi.ExecRequest{{}, {Stdin: true, Stdout: true, Stderr: true, Tty: true}} {
				request.ContainerId, request.Cmd = id, writesBoth.command()
				_, err := e.Runtime.Exec(e.ctx, request)
				e.optional("Exec", err)
				e.refused(err)
			}
			for _, request := range []*runtimeapi.AttachRequest{{}, {Stdin: true, Stdout: true, Stderr: true, Tty: true}} {
				request.ContainerId = id
				_, err := e.Runtime.Attach(e.ctx, request)
				e.optional("Attach", err)
				e.refused(err)
			}
		}},
		{"exec and attach need a running container", func(e *env) {
			p := e.newPod()
			id := e.create(p.id, e.container("main", quits.command()...), p.config)
			try := func() []error {
				_, execErr := e.Runtime.Exec(e.ctx, &runtimeapi.ExecRequest{ContainerId: id, Cmd: writesBoth.command(), Stdout: true})
				_, attachErr := e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
				e.optional("Exec", execErr)
				e.optional("Attach", attachErr)
				return []error{execErr, attachErr}
			}
			for _, err := range try() {
				e.refused(err)
			}
			require.NoError(e.t, e.Runtime.StartContainer(e.ctx, id))
			e.printed(p, "main", "ready")
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			for _, err := range try() {
				e.refused(err)
			}
			require.NoError(e.t, e.Runtime.RemoveContainer(e.ctx, id))
			for _, err := range try() {
				e.notFound(err)
			}
		}},
		{"attach: a client gets new output, and its input arrives", withClient(func(e *env) {
			p, id := e.lineEchoContainer(false)
			a := e.attach(id)
			e.send(a, "hello")
			require.Equal(e.t, []string{"got hello", ""}, withoutKnocks(strings.Split(a.output.text(), "\n")), "only new output")
			e.printed(p, "main", "got hello")
			require.Equal(e.t, []string{"ready", "got hello"}, withoutKnocks(e.text(p, "main")))
		})},
		{"attach: every client gets the output", withClient(func(e *env) {
			_, id := e.lineEchoContainer(false)
			a, b := e.attach(id), e.attach(id)
			e.send(a, "one") // b may not be connected yet
			e.send(b, "two")
			e.requireOutput(a.output, "got two\n")
			e.send(a, "three")
			e.requireOutput(b.output, "got three\n")
		})},
		{"attach: with stdin_once the first client's end of input is the container's", withClient(func(e *env) {
			p, id := e.lineEchoContainer(true)
			a := e.attach(id)
			e.send(a, "hello")
			require.NoError(e.t, a.input.Close())
			require.Equal(e.t, int32(6), e.exited(id).GetExitCode())
			require.Equal(e.t, []string{"ready", "got hello", "end"}, withoutKnocks(e.text(p, "main")))
		})},
		{"attach: a client that leaves does not disturb the container", withClient(func(e *env) {
			_, id := e.lineEchoContainer(false)
			for _, word := range []string{"one", "two"} {
				a := e.attach(id)
				e.send(a, word)
				a.cancel()
				require.ErrorIs(e.t, <-a.ended, context.Canceled)
				e.sleep(200 * time.Millisecond)
				require.Equal(e.t, runtimeapi.ContainerState_CONTAINER_RUNNING, e.status(id).GetState())
			}
		})},
		{"attach: the session ends with the container", withClient(func(e *env) {
			_, id := e.lineEchoContainer(false)
			a := e.attach(id)
			e.send(a, "hello")
			require.NoError(e.t, e.Runtime.StopContainer(e.ctx, id, 0))
			require.NoError(e.t, <-a.ended)
		})},
		{"port-forward: a listener in the pod responds", withClient(func(e *env) {
			p := e.newPod()
			e.ready(p, "main", echoServer)
			e.eventually("an echo", func() bool { return e.echoed(p, "hello") })
			e.eventually("another echo", func() bool { return e.echoed(p, strings.Repeat("0123456789", 10000)) })
		})},
		{"port-forward: a port without a listener is an error of the connection", withClient(func(e *env) {
			p := e.newPod()
			const closedPort = 9
			_, err := e.connect(p, closedPort).Read(make([]byte, 1))
			e.reported(err)
		})},
		{"port-forward needs a ready sandbox", func(e *env) {
			p := e.newPod()
			try := func() error {
				_, err := e.Runtime.PortForward(e.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: p.id, Port: []int32{echoPort}})
				e.optional("PortForward", err)
				return err
			}
			require.NoError(e.t, e.Runtime.StopPodSandbox(e.ctx, p.id))
			e.notReady(p.id)
			e.refused(try())
			require.NoError(e.t, e.Runtime.RemovePodSandbox(e.ctx, p.id))
			e.notFound(try())
		}},
	}
}

// SessionClient opens sessions by the URLs that a runtime returns. The Client of cri/streams, a
// separate module, implements it. An error that the runtime reported in a session, such as a
// missing command, has a method HTTPStatus() int; a broken connection's error does not. If ctx
// ended the session, the error wraps the error of ctx.
type SessionClient interface {
	// Exec runs the command and returns its exit code.
	Exec(ctx context.Context, url string, s fake.Session) (exitCode int, err error)
	// Attach returns when the container exits.
	Attach(ctx context.Context, url string, s fake.Session) error
	// PortForward connects to a port. ctx bounds the connecting; Close ends the session. Read
	// returns errors that the runtime reports.
	PortForward(ctx context.Context, url string, port int) (io.ReadWriteCloser, error)
}

// withClient skips a case if there is no session client.
func withClient(run func(*env)) func(*env) {
	return func(e *env) {
		if e.Sessions == nil {
			e.t.Skip("no session client: Subject.Sessions is nil")
		}
		run(e)
	}
}

// reported requires an error that the runtime reported in a session.
func (e *env) reported(err error) {
	e.t.Helper()
	var reported interface{ HTTPStatus() int }
	require.ErrorAs(e.t, err, &reported)
}

// execURL requests a session with a program in a container.
func (e *env) execURL(id string, what program, request *runtimeapi.ExecRequest) string {
	e.t.Helper()
	request.ContainerId, request.Cmd = id, what.command()
	response, err := e.Runtime.Exec(e.ctx, request)
	e.optional("Exec", err)
	require.NoError(e.t, err)
	return response.GetUrl()
}

type capture struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (c *capture) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept.Write(p)
}

// text returns the output with the original line ends, which terminals may change.
func (c *capture) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.ReplaceAll(c.kept.String(), "\r\n", "\n")
}

func (e *env) requireOutput(c *capture, text string) {
	e.t.Helper()
	e.eventually("the session delivers "+text, func() bool { return strings.Contains(c.text(), text) })
}

// lineEchoContainer starts a container that responds to its input.
func (e *env) lineEchoContainer(once bool) (p livePod, id string) {
	e.t.Helper()
	p = e.newPod()
	config := e.container("main", lineEcho.command()...)
	config.Stdin, config.StdinOnce = true, once
	id = e.start(p.id, config, p.config)
	e.printed(p, "main", "ready")
	return p, id
}

type attachment struct {
	input  *io.PipeWriter
	output *capture
	cancel context.CancelFunc
	ended  <-chan error
}

// attach opens a session that ends with the case, and returns when it delivers output. containerd
// connects the input of a session before its output, so responses to the first lines may be lost.
func (e *env) attach(id string) *attachment {
	e.t.Helper()
	response, err := e.Runtime.Attach(e.ctx, &runtimeapi.AttachRequest{ContainerId: id, Stdin: true, Stdout: true, Stderr: true})
	e.optional("Attach", err)
	require.NoError(e.t, err)
	ctx, cancel := context.WithCancel(e.ctx)
	stdin, input := io.Pipe()
	a := &attachment{input: input, output: &capture{}, cancel: cancel}
	over := make(chan struct{})
	a.ended = e.async(func() error {
		defer close(over)
		defer stdin.Close() // a session that ends without reading fails the writer
		return e.Sessions.Attach(ctx, response.GetUrl(), fake.Session{Stdin: stdin, Stdout: a.output, Stderr: a.output})
	})
	e.t.Cleanup(func() {
		cancel()
		<-over
	})
	for i := 0; ; i++ {
		word := fmt.Sprint(knock, i)
		_, err := io.WriteString(input, word+"\n")
		require.NoError(e.t, err)
		for range 40 {
			if strings.Contains(a.output.text(), "got "+word+"\n") {
				return a
			}
			e.sleep(25 * time.Millisecond)
		}
	}
}

// knock begins the lines that attach sends.
const knock = "knock "

// withoutKnocks removes the responses to attach.
func withoutKnocks(lines []string) []string {
	return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "got "+knock) })
}

// send sends a line and waits for the response.
func (e *env) send(a *attachment, word string) {
	e.t.Helper()
	_, err := io.WriteString(a.input, word+"\n")
	require.NoError(e.t, err)
	e.requireOutput(a.output, "got "+word+"\n")
}

// forward requests a session with a port of a pod.
func (e *env) forward(p livePod, port int32) string {
	e.t.Helper()
	response, err := e.Runtime.PortForward(e.ctx, &runtimeapi.PortForwardRequest{PodSandboxId: p.id, Port: []int32{port}})
	e.optional("PortForward", err)
	require.NoError(e.t, err)
	return response.GetUrl()
}

// connect connects to a port of a pod. The connection ends with the case or its context.
func (e *env) connect(p livePod, port int) io.ReadWriteCloser {
	e.t.Helper()
	conn, err := e.Sessions.PortForward(e.ctx, e.forward(p, int32(port)), port)
	require.NoError(e.t, err)
	stop := context.AfterFunc(e.ctx, func() { _ = conn.Close() })
	e.t.Cleanup(func() {
		stop()
		_ = conn.Close()
	})
	return conn
}

// echoed sends a word to a port and reports whether it came back.
func (e *env) echoed(p livePod, word string) bool {
	e.t.Helper()
	conn := e.connect(p, echoPort)
	defer conn.Close()
	if _, err := io.WriteString(conn, word); err != nil {
		return false
	}
	answer := make([]byte, len(word))
	_, err := io.ReadFull(conn, answer)
	return err == nil && string(answer) == word
}
