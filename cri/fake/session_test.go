package fake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podwright/podwright/cri"
	"github.com/podwright/podwright/cri/fake"
)

// A missing stream of ExecSession is empty input or dropped output. The conformance suite tests
// streams and terminals of sessions.
func TestExecSession(t *testing.T) {
	commands := fake.ByCommand(map[string]fake.Program{
		"upper": func(_ context.Context, p *fake.Process) int {
			text, err := io.ReadAll(p.Stdin)
			if err != nil || !p.Exec || p.TTY {
				return 1
			}
			fmt.Fprint(p.Stdout, strings.ToUpper(string(text)))
			fmt.Fprint(p.Stderr, len(text))
			return 7
		},
		"nothing": fake.Exit(0),
		"panic":   func(context.Context, *fake.Process) int { panic("oh no") },
	}, nil)
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Exec: commands})
		_, id := running(t, rt)
		exec := func(s fake.Session, command ...string) (int, error) {
			return rt.ExecSession(t.Context(), id, command, s)
		}
		code, err := exec(fake.Session{}, "upper") // all streams missing
		require.NoError(t, err)
		require.Equal(t, 7, code)

		// A command that does not read its input ends nevertheless.
		endless, _ := io.Pipe()
		code, err = exec(fake.Session{Stdin: endless}, "nothing")
		require.NoError(t, err)
		require.Zero(t, code)

		var stderr bytes.Buffer
		code, err = exec(fake.Session{Stderr: &stderr}, "panic")
		require.NoError(t, err)
		require.Equal(t, 2, code)
		require.Contains(t, stderr.String(), "panic: oh no")
		require.NoError(t, rt.StopContainer(t.Context(), id, 0))
		_, err = exec(fake.Session{})
		require.ErrorContains(t, err, "container is in CONTAINER_EXITED state")
	})
}

// The end of the session or container ends every blocked program.
func TestSessionsOfStuckPrograms(t *testing.T) {
	programs := map[string]fake.Program{
		"reads": func(_ context.Context, p *fake.Process) int {
			_, _ = io.Copy(io.Discard, p.Stdin)
			return 0
		},
		"writes": func(_ context.Context, p *fake.Process) int {
			for {
				if _, err := fmt.Fprintln(p.Stdout, "more"); err != nil {
					return 0
				}
			}
		},
		"ignores": func(_ context.Context, p *fake.Process) int {
			time.Sleep(time.Minute)
			return 0
		},
	}
	for name := range programs {
		for _, cause := range []string{"client", "container", "runtime"} {
			bubble(t, name+" until the "+cause+" ends", func(t *testing.T) {
				rt, err := fake.New(fake.Config{AnyImage: true, Exec: fake.ByCommand(programs, nil)})
				require.NoError(t, err)
				_, id := running(t, rt)
				ctx, cancel := context.WithCancel(t.Context())
				stdin, feed := io.Pipe()
				out, stdout := io.Pipe()
				ended := make(chan error, 1)
				go func() {
					code, err := rt.ExecSession(ctx, id, []string{name}, fake.Session{Stdin: stdin, Stdout: stdout})
					if err == nil {
						err = fmt.Errorf("exit code %d", code)
					}
					ended <- err
				}()
				synctest.Wait()
				switch cause {
				case "client":
					cancel()
				case "container":
					require.NoError(t, rt.StopContainer(t.Context(), id, 0))
				case "runtime":
					rt.Stop()
				}
				_ = out.Close() // as the end of a connection does to a Write
				err = <-ended
				switch cause {
				case "client":
					require.ErrorIs(t, err, context.Canceled)
				case "container":
					require.EqualError(t, err, "exit code 137")
				case "runtime":
					require.Equal(t, codes.Unavailable, status.Code(err))
				}
				_, err = io.WriteString(feed, "x")
				require.ErrorIs(t, err, io.ErrClosedPipe, "the session has closed its input")
				cancel()
				err = rt.Close()
				var abandoned *fake.AbandonedError
				if err != nil {
					require.ErrorAs(t, err, &abandoned)
					require.Equal(t, "ignores", name)
				}
				time.Sleep(2 * time.Minute)
			})
		}
	}
}

// Input may be read late: the capacity of a real pipe is accepted at once.
func TestAttachSessionInputWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan string, 1)
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(func(ctx context.Context, p *fake.Process) int {
			time.Sleep(time.Hour)
			text := make([]byte, 8)
			_, _ = io.ReadFull(p.Stdin, text)
			got <- string(text)
			<-ctx.Done()
			return 0
		})})
		id := withInput(t, rt)
		begin := time.Now()
		for _, text := range []string{"one ", "two "} {
			require.NoError(t, rt.AttachSession(t.Context(), id, fake.Session{Stdin: strings.NewReader(text)}))
		}
		require.Zero(t, time.Since(begin))
		require.Equal(t, "one two ", <-got)
		// Further input waits for a read until the client's context ends.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := rt.AttachSession(ctx, id, fake.Session{Stdin: strings.NewReader(strings.Repeat("x", 100_000)), Stdout: io.Discard})
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
}

// A session with input for a container without standard input ignores the input.
func TestAttachSessionWithoutInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, fake.Config{AnyImage: true, Programs: fake.Always(after(time.Minute, 0))})
		_, id := running(t, rt)
		begin := time.Now()
		require.NoError(t, rt.AttachSession(t.Context(), id, fake.Session{Stdin: strings.NewReader("x")}))
		require.Zero(t, time.Since(begin))
		require.NoError(t, rt.AttachSession(t.Context(), id, fake.Session{Stdin: strings.NewReader("x"), Stdout: io.Discard}))
		require.Equal(t, time.Minute, time.Since(begin))
		synctest.Wait() // streams end a moment before the container has exited
		err := rt.AttachSession(t.Context(), id, fake.Session{Stdout: io.Discard})
		require.ErrorContains(t, err, "container is in CONTAINER_EXITED state")
	})
}

func TestPortForwardSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ports := func(_ context.Context, pod fake.PodIdentity, port int) (net.Conn, error) {
			switch port {
			case 80:
				ours, theirs := net.Pipe()
				go func() {
					fmt.Fprintf(ours, "%s %s", pod.Name, pod.IPs[0])
					_ = ours.Close()
				}()
				return theirs, nil
			case 81:
				return nil, errors.New("no route")
			case 82:
				panic("oh no")
			}
			return nil, nil
		}
		rt := start(t, fake.Config{Ports: ports})
		id := sandbox(t, rt, "p")
		near, far := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- rt.PortForwardSession(t.Context(), id, 80, far) }()
		text, err := io.ReadAll(near)
		require.NoError(t, err)
		require.Equal(t, "p 10.88.0.2", string(text))
		require.NoError(t, <-ended)

		for port, message := range map[int]string{81: "no route", 82: "panicked", 83: "connection refused"} {
			near, far := net.Pipe()
			require.ErrorContains(t, rt.PortForwardSession(t.Context(), id, port, far), message)
			_, err := near.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "the stream is closed")
		}
		_, far = net.Pipe()
		require.True(t, cri.IsNotFound(rt.PortForwardSession(t.Context(), "unknown", 80, far)))
	})
}
