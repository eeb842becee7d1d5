package fake

import (
	"bytes"
	"context"
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestAddressPool(t *testing.T) {
	p := newAddressPool(nil, netip.MustParsePrefix("10.0.0.9/29"))
	var got []string
	for range 6 { // .8 is the network, .9 the gateway
		ips, err := p.take()
		require.NoError(t, err)
		got = append(got, ips...)
	}
	require.Equal(t, []string{"10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.0.14", "10.0.0.15"}, got)
	_, err := p.take()
	require.ErrorContains(t, err, "no IP addresses available")
	p.give([]string{"10.0.0.14", "10.0.0.11"})
	ips, err := p.take()
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.11"}, ips, "after the last comes the first")
	p.give(ips)
	ips, err = p.take()
	require.NoError(t, err)
	require.Equal(t, []string{"10.0.0.14"}, ips, "what was just given back comes last")

	for _, tiny := range []string{"10.0.0.1/32", "10.0.0.0/31"} {
		p = newAddressPool(nil, netip.MustParsePrefix(tiny))
		_, err = p.take()
		require.Error(t, err)
	}
	p = newAddressPool(nil, netip.MustParsePrefix("10.0.0.0/24"), netip.MustParsePrefix("fd00::1/128"))
	_, err = p.take()
	require.Error(t, err)
	require.Empty(t, p.used, "a half-taken pair is given back")
	p = newAddressPool([]string{"192.0.2.1"})
	for range 2 {
		ips, err = p.take()
		require.NoError(t, err)
		require.Equal(t, []string{"192.0.2.1"}, ips)
	}
}

func TestOneImageWithTwoNames(t *testing.T) {
	id := digestOf("x")
	s := newImageStore([]Image{{Name: "a", ID: id}, {Name: "b:1", ID: id}, {Name: "c"}}, false)
	require.Equal(t, []string{"docker.io/library/a:latest", "docker.io/library/b:1"}, s.lookup("b:1").tags)
	require.Len(t, s.order, 2)
	s.put(Image{Name: "b:1"}) // the name moves to another image
	require.Equal(t, []string{"docker.io/library/a:latest"}, s.lookup("a").tags)
	require.NotEqual(t, id, s.lookup("b:1").ID)
	s.remove("a")
	require.Nil(t, s.lookup(id))
	require.NotNil(t, s.lookup("b:1"))
}

// A nil variable is a variable without a name.
func TestMissingVariable(t *testing.T) {
	require.Equal(t, []string{"="}, envOf([]*runtimeapi.KeyValue{nil}))
}

func TestHostPath(t *testing.T) {
	p := Process{Mounts: []Mount{
		{ContainerPath: "/data", HostPath: "/srv"}, {ContainerPath: "/data/deep/", HostPath: "/deep"}, {ContainerPath: "/image"},
	}}
	for in, want := range map[string]string{
		"/data": "/srv", "/data/a/../b": "/srv/b", "/data/deep/x": "/deep/x", "/database": "", "/image/x": "", "/": "",
	} {
		got, ok := p.HostPath(in)
		require.Equal(t, want, got, in)
		require.Equal(t, want != "", ok, in)
	}
	p.Mounts = append(p.Mounts, Mount{ContainerPath: "/", HostPath: "/root"})
	got, ok := p.HostPath("/database")
	require.True(t, ok)
	require.Equal(t, "/root/database", got)
}

func TestStopSignals(t *testing.T) {
	require.Equal(t, sigTerm, stopSignal(runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT))
	require.EqualValues(t, 3, stopSignal(runtimeapi.Signal_SIGNAL_SIGQUIT))
	require.EqualValues(t, 28, stopSignal(runtimeapi.Signal_SIGNAL_SIGWINCH))
	require.EqualValues(t, 31, stopSignal(runtimeapi.Signal_SIGNAL_SIGSYS))
	seen := map[int]string{}
	for number, name := range runtimeapi.Signal_name {
		if got := stopSignal(runtimeapi.Signal(number)); got == sigTerm {
			continue
		} else if before, twice := seen[int(got)]; twice {
			// Three signals have two names.
			require.Contains(t, []string{"SIGNAL_SIGABRT SIGNAL_SIGIOT", "SIGNAL_SIGCHLD SIGNAL_SIGCLD", "SIGNAL_SIGIO SIGNAL_SIGPOLL"},
				strings.Join(slices.Sorted(slices.Values([]string{before, name})), " "), got)
		} else {
			seen[int(got)] = name
		}
	}
}

type discardLog struct{ bytes.Buffer }

func (*discardLog) Close() error { return nil }

// FuzzLogStream writes a text in arbitrary pieces and compares it with the log. They are equal
// except for a carriage return at the end of a line.
func FuzzLogStream(f *testing.F) {
	f.Add([]byte("one\ntwo\n\nrest"), uint8(3))
	f.Add([]byte("\n"), uint8(1))
	f.Add([]byte("a\r\n\r\nb\r\r\nc\rd\r"), uint8(0))
	f.Add(slices.Concat(bytes.Repeat([]byte("x"), maxLogLine), []byte("\r\n")), uint8(255))
	f.Add(slices.Concat(bytes.Repeat([]byte("x"), maxLogLine), []byte("\r")), uint8(255))
	f.Add(bytes.Repeat([]byte("x"), 3*maxLogLine+1), uint8(255))
	f.Fuzz(func(t *testing.T, text []byte, piece uint8) {
		file := &discardLog{}
		log := &logFile{}
		require.NoError(t, log.begin("x", func(string) (io.WriteCloser, error) { return file, nil }))
		s := &logStream{name: "stdout", log: log, gate: &logGate{}, clock: &clock{}}
		written := 0
		for chunk := range slices.Chunk(text, int(piece)*7+1) {
			switch { // sometimes the runtime is down
			case written%3 == 1 && len(chunk) < pipeSize:
				s.gate.hold()
			default:
				s.gate.release()
			}
			written++
			n, err := s.Write(chunk)
			require.NoError(t, err)
			require.Equal(t, len(chunk), n)
		}
		s.gate.release()
		s.end()
		s.flush(true)
		require.NoError(t, log.close())
		var back []byte
		for line := range bytes.Lines(file.Bytes()) {
			parts := bytes.SplitN(line, []byte(" "), 4)
			require.Len(t, parts, 4)
			_, err := time.Parse(time.RFC3339Nano, string(parts[0]))
			require.NoError(t, err)
			require.Equal(t, "stdout", string(parts[1]))
			content := bytes.TrimSuffix(parts[3], []byte("\n"))
			require.LessOrEqual(t, len(content), maxLogLine)
			back = append(back, content...)
			if string(parts[2]) == "F" {
				back = append(back, '\n')
			}
		}
		require.Equal(t, strings.ReplaceAll(string(text), "\r\n", "\n"), string(back))
		_, err := s.Write([]byte("late"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	})
}

// A stop in progress when the runtime loses all state must not release addresses of a new sandbox.
func TestStopOfASandboxThatIsLost(t *testing.T) {
	rt, err := New(Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Close()) })
	run := func(name string) *sandbox {
		id, err := rt.RunPodSandbox(t.Context(), &runtimeapi.PodSandboxConfig{
			Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name},
		}, "")
		require.NoError(t, err)
		return rt.sandbox(id)
	}
	lost := run("lost")
	require.NoError(t, rt.Restart(t.Context(), LoseAll))
	found := run("found")
	require.Equal(t, lost.ips, found.ips)
	require.NoError(t, rt.stopSandbox(t.Context(), lost, await))
	require.Contains(t, rt.addresses.used, found.ips[0])
}

// After Close, Stop must not delay logs, which would never be written.
func TestStopAfterClose(t *testing.T) {
	rt, err := New(Config{})
	require.NoError(t, err)
	require.NoError(t, rt.Close())
	rt.Stop()
	require.False(t, rt.logs.shut.Load())
	require.Error(t, rt.Start(context.WithoutCancel(t.Context()), LoseNothing))
}
